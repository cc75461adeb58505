"""Means over replications, and tables in markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from cereval.experiments.base import Row, Rows

Key = tuple[Any, ...]


def grouped(rows: Rows, *columns: str) -> dict[Key, list[Row]]:
    """Rows by the values of some columns, in order of first appearance.

    >>> {key: len(found) for key, found in grouped([{"a": 1}, {"a": 2}, {"a": 1}], "a").items()}
    {(1,): 2, (2,): 1}
    """
    found: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row[column] for column in columns)].append(row)
    return dict(found)


def means(rows: Rows, value: str, *columns: str) -> dict[Key, float]:
    """The mean of one column for each group of rows."""
    return {key: fmean(float(row[value]) for row in found) for key, found in grouped(rows, *columns).items()}


def curve(rows: Rows, method: str, x: str, y: str) -> tuple[list[float], list[float]]:
    """x and the mean of y at each x, for one method."""
    found = means([row for row in rows if row["method"] == method], y, x)
    xs = sorted(float(key[0]) for key in found)
    return xs, [found[(value,)] for value in xs]


def methods_of(rows: Rows) -> list[str]:
    """The methods in the rows, in the house order."""
    from cereval.experiments.plots import STYLES

    present = {str(row["method"]) for row in rows}
    return [name for name in STYLES if name in present] + sorted(present - set(STYLES))


def markdown(header: Sequence[str], body: Iterable[Sequence[object]]) -> str:
    """A markdown table.

    >>> print(markdown(["method", "items"], [["seq", 3799]]))
    | method | items |
    |---|---|
    | seq | 3799 |
    """
    lines = [header, ["---"] * len(header), *body]
    return "\n".join(
        "|" + "|".join(cells) + "|" if position == 1 else "| " + " | ".join(cells) + " |"
        for position, cells in enumerate([[str(cell) for cell in line] for line in lines])
    )


def pivot(
    rows: Rows,
    value: str,
    columns: str,
    shown: Callable[[float], str] = "{:.0f}".format,
    corner: str = "method",
) -> str:
    """A markdown table of means: one line for each method, one column for each value of `columns`."""
    found = means(rows, value, "method", columns)
    heads = sorted({key[1] for key in found})
    body = [
        [method, *(shown(found[(method, head)]) if (method, head) in found else "" for head in heads)]
        for method in methods_of(rows)
    ]
    return markdown(
        [corner, *(f"{head:g}" if isinstance(head, float | int) else head for head in heads)], body
    )
