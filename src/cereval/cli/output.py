"""Print what commands say: one JSON object for machines, a headline and small tables for people."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from cereval.errors import BadFile
from cereval.files import write_whole
from cereval.records import Certified, Rows
from cereval.text import printable, shortened

LONGEST_CELL = 4000
LONGEST_LINE = 1000
SHORTEST_NAME = 11


def show(
    result: Certified, extra: Mapping[str, Any], rows: Rows, *, as_json: bool, notes: Sequence[str] = ()
) -> int:
    """Print a result of any kind; return its exit code.

    extra: names of the JSON object beside those of the result, whose own win. rows, notes: before the result's own.
    """
    told = list(dict.fromkeys([*notes, *result.notes]))
    if as_json:
        print_json({**extra, **result.as_dict(), "notes": told})
        return result.exit_code
    click.echo(printable(result.headline(), LONGEST_LINE))
    parts = result.table()
    if parts is not None:
        print_table(parts.rows, parts.header, numbers=parts.numbers, names=parts.names, extra=parts.extra)
    for line in result.lines():
        click.echo(printable(line, LONGEST_LINE))
    print_table([*result.rows(), *rows, *(("note", note) for note in told)])
    return result.exit_code


def print_json(values: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout; a number that is not finite would be a bug, and is refused."""
    text = json.dumps(values, allow_nan=False, ensure_ascii=False)
    # The name of a file need not be Unicode.
    click.echo(text.encode("utf-8", "replace").decode())


def print_table(
    rows: Sequence[Sequence[str]],
    header: Sequence[str] = (),
    *,
    numbers: Sequence[int] = (),
    names: Sequence[int] = (),
    extra: int | None = None,
) -> None:
    """Print rows of text in aligned columns; those in `numbers` are aligned to the right, long cells are folded.

    With `names` every row is one line: on a terminal, if need be, without the column `extra`, then with names cut in
    their middle.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    # Names and prompts of strangers are among the cells.
    cells = [[printable(cell, LONGEST_CELL, lines=not names) for cell in row] for row in (header, *rows)]
    if names:
        # In a pipe or a log nothing is gained by cutting names.
        narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
        cells = _fitted(cells, names, console.width if narrow else sys.maxsize, extra)
        console.width = max(console.width, _width(cells))
    style = {"box": SIMPLE_HEAD, "padding": (0, 1, 0, 0)} if header else {"box": None}
    table = RichTable(show_header=bool(header), pad_edge=False, **style)
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
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return sum(widths) + 2 * len(widths)


def write_certificate(path: Path, certificate: Mapping[str, Any], where: str = "") -> None:
    """Write a certificate whole or not at all, for its owner to read: what it holds may be nobody else's business.

    where: what names the store of its run on a command line.
    """
    try:
        write_whole(path, json.dumps(certificate, indent=1, allow_nan=False) + "\n")
    except OSError as error:
        advice = "name another file"
        if "run_id" in certificate:
            command = f"cereval resume {certificate['run_id']}{where} -o FILE"
            advice = f"it is safe in the store: `{command}` writes it elsewhere"
        raise BadFile(f"the certificate cannot be written to {path} ({error.strerror}); {advice}") from None
