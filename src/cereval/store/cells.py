"""Say what the cells of a database may hold: SQLite keeps any value in any column, and a store may come from
anybody."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from sqlalchemy import BigInteger, Connection, Double, Select, Text

from cereval.errors import StoreError, shown

_MAY_BE_EMPTY = frozenset({"score", "failure", "cost_usd"})
_OF_COLUMN: Mapping[type, tuple[type, ...]] = {BigInteger: (int,), Double: (float, int), Text: (str,)}

LARGEST = 2**53
"""Of what is counted: drawn, told, appended."""

LARGEST_SUM = 1e200
"""Of money that was spent: sums of it are still numbers."""


def read(connection: Connection, query: Select[Any], place: str) -> Sequence[Mapping[Any, Any]]:
    """Fetch the rows of a query, whose cells are of their columns' types."""
    return checked(connection.execute(query).mappings().all(), query, place)


def checked(rows: Sequence[Mapping[Any, Any]], query: Select[Any], place: str) -> Sequence[Mapping[Any, Any]]:
    """Give the rows of a query back if their cells are of their columns' types; else the store is damaged."""
    for name, allowed in _allowed(query).items() if rows else ():
        values = [row[name] for row in rows]
        # A column at a time: a run may have a hundred thousand answers.
        if not set(map(type, values)) <= allowed:
            _refuse(name, next(value for value in values if type(value) not in allowed), place)
        endless = [value for value in values if type(value) is float and not isfinite(value)]
        if endless:
            _refuse(name, endless[0], place)
    return rows


def _allowed(query: Select[Any]) -> dict[str, frozenset[type]]:
    """Give the types that each column of a query may hold, where its own type is known."""
    return {
        str(column.key): frozenset(_OF_COLUMN[type(column.type)])
        | (frozenset({type(None)}) if column.key in _MAY_BE_EMPTY else frozenset())
        for column in query.selected_columns
        if type(column.type) in _OF_COLUMN
    }


def whole(value: Any, name: str, place: str) -> int:
    """Give a number back that a query computed, if it is a whole one that can be counted on from."""
    if type(value) is not int or abs(value) > LARGEST:
        _refuse(name, value, place)
    return int(value)


def mapping(text: str, name: str, place: str) -> dict[str, Any]:
    """Read the JSON object in a cell: finite numbers, not nested without end."""
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, TypeError, RecursionError):  # SQLite keeps numbers in columns of texts too
        _refuse(name, text, place)
    if not isinstance(value, dict):
        _refuse(name, text, place)
    found: dict[str, Any] = value
    return found


def is_summary(values: Mapping[str, Any]) -> bool:
    """Tell whether what lists show of a run may have been written by a run: texts, and shares or their differences.

    >>> is_summary({"estimate": 0.5, "lower": 0.4, "upper": 0.6}), is_summary({"estimate": "x"})
    (True, False)
    """
    low, high = values.get("lower"), values.get("upper")
    numbers = [number for number in (values.get("estimate"), low, high) if number is not None]
    texts = [values.get(name) for name in ("answer", "priced_by", "goal")]
    return (
        len(numbers) in (0, 1, 3)
        and (low is None) == (high is None)
        and all(type(number) in (int, float) and -2 < number < 2 for number in numbers)
        and all(text is None or isinstance(text, str) for text in texts)
    )


def is_count(value: Any) -> bool:
    """Tell whether a value may be a count or a sum of money; None: it is not known."""
    return value is None or (type(value) in (int, float) and 0 <= value < LARGEST_SUM)


def _no_number(text: str) -> Any:
    raise ValueError(text)


def _refuse(name: str, value: Any, place: str) -> None:
    raise StoreError(
        f"{place} is damaged, or was changed by hand: `{name}` holds {shown(value)}; restore a copy, or use another "
        "--store"
    )
