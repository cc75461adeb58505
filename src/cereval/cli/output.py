"""What commands print: one JSON object for machines, a headline and a small table for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from cereval.printable import printable
from cereval.records import Result
from cereval.wording import SIDES, confidence_of, interval, percent, plus_minus

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
    rows: Sequence[Sequence[str]], header: Sequence[str] = (), *, numbers: Sequence[int] = ()
) -> None:
    """Rows of text in aligned columns; the columns in `numbers` are aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD if header else None, show_header=bool(header), pad_edge=False)
    for column in range(max(map(len, rows))):
        title = header[column] if header else ""
        right = column in numbers
        table.add_column(title, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for row in rows:
        # Names and prompts of strangers are among the cells.
        table.add_row(*(Text(printable(cell, LONGEST_CELL, lines=True)) for cell in row))
    Console().print(table)


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
