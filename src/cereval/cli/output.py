"""What commands print: one JSON object for machines, a headline and a small table for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from cereval.records import Result
from cereval.text import SIDES, confidence_of, interval, percent, plus_minus, printable, shortened

__all__ = [
    "FAILED",
    "PASSED",
    "UNDECIDED",
    "exit_code",
    "headline",
    "interval",
    "percent",
    "plus_minus",
    "print_json",
    "print_table",
]

LONGEST_CELL = 4000
SHORTEST_NAME = 11
PASSED, FAILED, UNDECIDED = 0, 2, 3


def exit_code(result: Result) -> int:
    """0 goal reached or certified pass, 2 certified fail, 3 undecided."""
    if result.decision == "below":
        return FAILED
    return PASSED if result.stopped == "goal" else UNDECIDED


def print_json(values: Mapping[str, Any]) -> None:
    """One JSON object on stdout; a number that is not finite would be a bug, and is refused."""
    click.echo(json.dumps(values, allow_nan=False, ensure_ascii=False))


def print_table(
    rows: Sequence[Sequence[str]],
    header: Sequence[str] = (),
    *,
    numbers: Sequence[int] = (),
    names: Sequence[int] = (),
    extra: int | None = None,
) -> None:
    """Rows of text in aligned columns; the columns in `numbers` are aligned to the right, long cells are folded.

    With `names` every row is one line: if need be without the column `extra`, then with names cut in their middle.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    # Names and prompts of strangers are among the cells.
    cells = [[printable(cell, LONGEST_CELL, lines=not names) for cell in row] for row in (header, *rows)]
    if names:
        cells = _fitted(cells, names, console.width, extra)
        console.width = max(console.width, _width(cells))
    style = {"box": SIMPLE_HEAD, "padding": (0, 1, 0, 0)} if header else {"box": None}
    table = Table(show_header=bool(header), pad_edge=False, **style)
    for column in range(max(map(len, cells))):
        right = column in numbers
        title = cells[0][column] if header else ""
        table.add_column(
            title, justify="right" if right else "left", overflow="fold", no_wrap=right or bool(names)
        )
    for row in cells[1:]:
        table.add_row(*map(Text, row))
    console.print(table)


def _fitted(rows: list[list[str]], names: Sequence[int], width: int, extra: int | None) -> list[list[str]]:
    """The rows, their longest names shortened until they fit."""
    if extra is not None and _width(rows) > width:
        return _fitted([row[:extra] + row[extra + 1 :] for row in rows], names, width, None)
    longest = max(len(row[column]) for row in rows for column in names)
    while _width(rows) > width and longest > SHORTEST_NAME:
        longest -= 1
        rows = [
            [shortened(cell, longest) if column in names else cell for column, cell in enumerate(row)]
            for row in rows
        ]
    return rows


def _width(rows: Sequence[Sequence[str]]) -> int:
    """Of a table with a header: two spaces between columns, one at each edge."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return sum(widths) + 2 * len(widths)


def headline(result: Result, threshold: float | None = None) -> str:
    """The answer in one line.

    >>> numbers = 0.82, 0.802, 0.838, 0.018, 0.95, 1940, 14042, 0.86184
    >>> headline(Result(*numbers, "goal", "uniform", "anytime", "benchmark", seed=0))
    '82.00% ± 1.80%, 95% confidence, 1,940 of 14,042 questions asked (86.2% saved)'
    """
    answer = plus_minus(result)
    if threshold is not None:
        answer = f"at least {percent(threshold)}: {SIDES[result.decision]}"
    asked = f"{result.n_evaluated:,} of {result.n_items:,} questions asked"
    return f"{answer}, {confidence_of(result)}, {asked} ({result.saved:.1%} saved)"
