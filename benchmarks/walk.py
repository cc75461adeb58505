"""Count the files and the changes of package that a reader of `cereval run` walks through.

    python -m benchmarks.walk [--list]

A scripted model is asked in a process of its own, and every function of cereval is noted when it is called for the
first time, in any thread. A change of package is a first call in another folder of `cereval` than the one before it
(a file that lies in no folder counts as one of its own).
"""

from __future__ import annotations

import json
import sys
import threading
from inspect import CO_NEWLOCALS
from itertools import groupby, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType

import click

import cereval

ROOT = Path(cereval.__file__).parent
QUESTIONS = 500


class Walk:
    """Note the first call of every function of cereval, in the order of the calls."""

    def __init__(self) -> None:
        self.seen: dict[CodeType, str] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        # Bodies of modules, lambdas and comprehensions are no steps of their own; bodies of classes have no arguments.
        is_function = code.co_flags & CO_NEWLOCALS and not code.co_name.startswith("<")
        is_ours = is_function and code.co_filename.startswith(str(ROOT))
        if event == "call" and is_ours and code not in self.seen:
            self.seen[code] = code.co_filename[len(str(ROOT)) + 1 :]

    @property
    def files(self) -> list[str]:
        """Return the file of each first call."""
        return list(self.seen.values())

    @property
    def changes(self) -> int:
        packages = [file.split("/")[0] for file in self.files]
        return sum(one != other for one, other in pairwise(packages))


def walk_through_run(folder: Path) -> Walk:
    """Trace `cereval run` on questions of its own."""
    from cereval.cli.main import main

    data = folder / "questions.jsonl"
    rows = [{"question": f"{n} + 1 =", "answer": str(n + 1)} for n in range(QUESTIONS)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    walk = Walk()
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        main(
            [
                *(
                    "run",
                    str(data),
                    "--model",
                    "scripted/0.7",
                    "--scorer",
                    "exact",
                    "--eps",
                    "0.1",
                    "--seed",
                    "1",
                ),
                *("--store", f"sqlite:///{folder / 'walk.db'}", "--display", "none", "--json"),
            ]
        )
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return walk


@click.command()
@click.option("--list", "listed", is_flag=True, help="List the functions too, in their order.")
def measure(listed: bool) -> None:
    """Print what one run walks through."""
    with TemporaryDirectory() as folder:
        walk = walk_through_run(Path(folder))
    if listed:
        for file, calls in groupby(walk.seen.items(), key=lambda one: one[1]):
            click.echo(f"{file}: {', '.join(code.co_qualname for code, _ in calls)}")
    click.echo(
        f"{len(set(walk.files))} files, {len(walk.files)} functions, {walk.changes} changes of package",
        err=True,
    )


if __name__ == "__main__":
    measure()
