"""Run command lines in this process, and say in short what came of them: for the makers and for tests."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cereval.cli.main import main

HOME = Path(__file__).parent
DATA = (
    "questions.jsonl",
    "north.jsonl",
    "south.jsonl",
    "more.jsonl",
    "scores.csv",
    "north.csv",
    "south.csv",
    "items.jsonl",
    "weights.csv",
    "golden_models.py",
)


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command did: its exit code, the JSON that it printed (None: nothing), and its errors."""

    code: int
    facts: Any
    errors: str


def called(*arguments: str) -> Printed:
    """Run a command line with `--json` in this process."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        code = main([*arguments, "--json"])
    text = out.getvalue()
    return Printed(code, json.loads(text) if text else None, errors.getvalue())


def asking(line: str | Sequence[str]) -> list[str]:
    """Split a command that may ask models, and keep it silent."""
    words = line.split() if isinstance(line, str) else list(line)
    return words if words[0] == "replay" else [*words, "--display", "none"]


def seeded(line: str) -> str:
    """Give a command that begins a run a seed, where it has none: golden files are to be the same every time.

    >>> seeded("run questions.jsonl --eps 0.1"), seeded("resume RUN")
    ('run questions.jsonl --eps 0.1 --seed 0', 'resume RUN')
    """
    going_on = line.startswith(("resume", "extend RUN", "extend FIRST"))
    return line if going_on or "--seed" in line else f"{line} --seed 0"


def carried_out(name: str, lines: Sequence[str]) -> Printed:
    """Run the commands of a case in the working folder; the last writes `NAME.json`."""
    printed, last = Printed(0, {}, ""), len(lines) - 1
    for number, line in enumerate(lines):
        whole = seeded(line).replace("RUN", str(printed.facts.get("run_id")))
        output = ["-o", f"{name}.json"] if number == last else []
        printed = called(*asking(whole), *output)
        assert printed.facts is not None, (name, line, printed.errors)
    return printed


def certificate_of(name: str, lines: Sequence[str], folder: Path) -> dict[str, Any]:
    """Carry out a case in a folder; return the certificate that it writes."""
    with folder_with_data(folder):
        carried_out(name, lines)
        content: dict[str, Any] = read(Path(f"{name}.json"))
    return content


@contextmanager
def folder_with_data(folder: Path) -> Iterator[Path]:
    """Work in a folder that has the data and the models."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in DATA:
        shutil.copy(HOME / name, folder / name)
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)


def read(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
