"""Markdown tables with the command and the engine that made them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from cereval.version import ENGINE


def markdown(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A markdown table.

    >>> print(markdown(["a", "b"], [[1, 2]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [list(header), *rows]
    text = ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]
    return "\n".join([text[0], "|" + "---|" * len(header), *text[1:]])


def publish(title: str, module: str, body: str, out: Path | None) -> None:
    """Prints the table, and writes it with its date, command and engine to `out`."""
    sys.stdout.write(body + "\n")
    if out is None:
        return
    command = shlex.join(["python", "-m", module, *sys.argv[1:]])
    stamp = datetime.now(UTC).strftime("%Y-%m-%d")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(f"# {title}, {stamp}\n\nMade by `{command}`, engine {ENGINE}.\n\n{body}\n")
