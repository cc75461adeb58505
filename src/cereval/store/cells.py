"""Say what the cells of a database may hold: SQLite keeps any value in any column, and a store may come from
anybody."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from sqlalchemy import BigInteger, Double

from cereval.errors import StoreError, shown
from cereval.store.schema import metadata

_MAY_BE_EMPTY = frozenset({"engine", "score", "failure", "cost_usd"})
_OF_COLUMN: Mapping[type, tuple[type, ...]] = {BigInteger: (int,), Double: (float, int)}
_COLUMNS = [column for table in metadata.tables.values() for column in table.columns]
_ALLOWED = {
    name: frozenset(
        kind for one in _COLUMNS if one.name == name for kind in _OF_COLUMN.get(type(one.type), (str,))
    )
    | (frozenset({type(None)}) if name in _MAY_BE_EMPTY else frozenset())
    for name in {column.name for column in _COLUMNS}
}
"""The types of the values in columns of a name; `at` is a text in some tables and a number in others."""


def checked(rows: Sequence[Mapping[Any, Any]], place: str) -> Sequence[Mapping[Any, Any]]:
    """Give rows back whose cells are of their columns' types; anything else is a damaged store."""
    for name in rows[0] if rows else ():
        allowed = _ALLOWED.get(str(name))
        values = [row[name] for row in rows]
        # A column at a time: a run may have a hundred thousand answers.
        if allowed is not None and not set(map(type, values)) <= allowed:
            _refuse(str(name), next(value for value in values if type(value) not in allowed), place)
        endless = [value for value in values if type(value) is float and not isfinite(value)]
        if endless:
            _refuse(str(name), endless[0], place)
    return rows


def whole(value: Any, name: str, place: str) -> int:
    """Give a number back that a query computed, if it is a whole one."""
    if type(value) is not int:
        _refuse(name, value, place)
    return int(value)


def mapping(text: str, name: str, place: str) -> dict[str, Any]:
    """Read the JSON object in a cell: finite numbers, not nested without end."""
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        _refuse(name, text, place)
    if not isinstance(value, dict):
        _refuse(name, text, place)
    found: dict[str, Any] = value
    return found


def _no_number(text: str) -> Any:
    raise ValueError(text)


def _refuse(name: str, value: Any, place: str) -> None:
    raise StoreError(
        f"{place} is damaged, or was changed by hand: `{name}` holds {shown(value)}; restore a copy, or use another "
        "--store"
    )
