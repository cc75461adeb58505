"""Read the tables of a replay: SCORES (`item` and one column per model), ITEMS (`item`, `text`, `category`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from cereval.arrays import Floats
from cereval.datasets.formats import column_values, read_rows, read_table
from cereval.datasets.items import identity_of, list_names
from cereval.errors import BadFile, InvalidInput, shown
from cereval.text import did_you_mean


@dataclass(frozen=True, slots=True, eq=False)
class ScoresTable:
    """Hold scores in [0, 1] of many models on the same items; NaN where a model was not asked.

    >>> table = ScoresTable(("a", "b"), {"gpt-4": np.array([1.0, 0.0])})
    >>> table.model("gpt-4").tolist()
    [1.0, 0.0]
    """

    items: tuple[str, ...]
    models: Mapping[str, Floats]

    def model(self, name: str) -> Floats:
        if name not in self.models:
            hint = did_you_mean(name, self.models)
            raise InvalidInput("model", f"a column of the scores table ({hint})", name)
        return self.models[name]

    def history(self, names: Sequence[str]) -> Floats:
        return (
            np.column_stack([self.model(name) for name in names]) if names else np.empty((len(self.items), 0))
        )


@dataclass(frozen=True, slots=True)
class ItemsTable:
    """Hold what is known of the items before a model is asked; `None` where the file has no such column.

    >>> ItemsTable(("a", "b"), ("1+1", "2+2"), None).aligned_to(("b",)).texts
    ('2+2',)
    """

    items: tuple[str, ...]
    texts: tuple[str, ...] | None
    categories: tuple[str, ...] | None

    def aligned_to(self, items: Sequence[str]) -> ItemsTable:
        """Return the same facts in the order of `items`, each of which must be in the table."""
        rows = {item: row for row, item in enumerate(self.items)}
        missing = [item for item in items if item not in rows]
        if missing:
            raise BadFile(
                f"the items table lacks {len(missing)} of the {len(items)} scored items, the first is "
                f"{shown(missing[0])}; the column `item` must match in both files"
            )
        texts, categories = (
            None if column is None else tuple(column[rows[item]] for item in items)
            for column in (self.texts, self.categories)
        )
        return ItemsTable(tuple(items), texts, categories)


def read_scores(path: str | PathLike[str]) -> ScoresTable:
    path = Path(path)
    table = read_table(path)
    columns = {name: table.column(name) for name in table.column_names}
    items = _identities(path, column_values(path, "item", _column(path, columns, "item")))
    # What pandas writes of an index without a name is no model.
    names = [
        name
        for name in columns
        if name not in ("item", "", "Unnamed: 0") and not name.startswith("__index_level_")
    ]
    if not names:
        raise BadFile(f"{path} has no column of scores; it needs `item` and one column per model")
    return ScoresTable(items, {name: _scores(path, name, columns[name], items) for name in names})


def read_items(path: str | PathLike[str]) -> ItemsTable:
    """Return a parquet, csv or jsonl file with `item` and at least one of `text` and `category`.

    A question file will do: there they are called `id` and `question` as well.
    """
    path = Path(path)
    columns = _columns(path)
    items = _item_column(path, columns)
    texts = _strings(columns.get("text", columns.get("question")))
    categories = _strings(columns.get("category"))
    if texts is None and categories is None:
        raise BadFile(f"{path} has neither a column `text` nor `category`; it has {list_names(columns)}")
    return ItemsTable(items, texts, categories)


def read_column(path: str | PathLike[str], name: str, items: Sequence[str]) -> list[Any]:
    """Return one column of a parquet, csv or jsonl file with a column `item` (or `id`), in the order of `items`."""
    path = Path(path)
    columns = _columns(path)
    keys = _item_column(path, columns)
    column = _column(path, columns, name)
    for number, value in enumerate(column, start=1):
        if isinstance(value, dict | list):
            raise BadFile(
                f"{path}, row {number}: column {shown(name)} must be a text or a number, got {shown(value)}"
            )
    values = dict(zip(keys, column, strict=True))
    missing = [item for item in items if item not in values]
    if missing:
        raise BadFile(
            f"{path} lacks {len(missing)} of the {len(items)} items, the first is {shown(missing[0])}; "
            "every item needs a row"
        )
    return [values[item] for item in items]


def read_ids(path: str | PathLike[str]) -> tuple[str, ...]:
    path = Path(path)
    return _item_column(path, _columns(path))


def _item_column(path: Path, columns: Mapping[str, Any]) -> tuple[str, ...]:
    return _identities(
        path, _column(path, columns, "id" if "id" in columns and "item" not in columns else "item")
    )


def _columns(path: Path) -> dict[str, list[Any]]:
    rows = [row.values for row in read_rows(path)]
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(chain.from_iterable(rows))}


def _column(path: Path, columns: Mapping[str, Any], name: str) -> Any:
    if name not in columns:
        raise BadFile(f"{path} has no column `{name}`; {did_you_mean(name, columns)}")
    return columns[name]


def _identities(path: Path, values: list[Any]) -> tuple[str, ...]:
    if not values:
        raise BadFile(f"{path} has no rows; it needs at least one item")
    items = tuple(
        identity_of(value, f"{path}, row {number}: `item`") for number, value in enumerate(values, start=1)
    )
    item, count = Counter(items).most_common(1)[0]
    if count > 1:
        raise BadFile(f"{path}: item {shown(item)} stands on {count} rows; item ids must be unique")
    return items


def _scores(path: Path, name: str, column: Any, items: tuple[str, ...]) -> Floats:
    import pyarrow as pa

    try:
        kind = pa.int8() if pa.types.is_boolean(column.type) else column.type
        values = column.cast(kind).cast(pa.float64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowException, TypeError) as error:
        values = enumerate(column_values(path, name, column))
        found = next(
            (f", item {shown(items[row])} has {shown(value)}" for row, value in values if _is_text(value)), ""
        )
        raise BadFile(
            f"{path}: column {shown(name)} is not numeric{found or f' ({column.type})'}; keep `item` and scores only"
        ) from error
    scores: Floats = np.array(values, dtype=np.float64)
    bad = np.isinf(scores) | (scores < 0) | (scores > 1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise BadFile(
            f"{path}: column {shown(name)}, item {shown(items[row])}: {scores[row]:g} is no score; "
            "scores lie in [0, 1] (divide percentages by 100), empty where missing"
        )
    return scores


def _is_text(value: Any) -> bool:
    try:
        float(value or 0)
    except (TypeError, ValueError):
        return True
    return False


def _strings(values: list[Any] | None) -> tuple[str, ...] | None:
    if not values or all(value is None or value == "" for value in values):
        return None
    return tuple("" if value is None else str(value) for value in values)
