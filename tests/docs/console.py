"""Run the console blocks of the documentation, and compare what they print with what the pages show.

A block begins with ```console; a line `$ command` is run in a folder of its own page, after `cereval example`; the
lines below it must be what it prints, in this order, `...` standing for any others. `# exit N` after a command names
its exit code where that is not 0; `RUN` stands for the newest run in the store. Run as a program, it writes what the
commands print into the pages:

    python -m tests.docs.console docs/index.md README.md
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cereval.cli.main import main

BLOCK = re.compile(r"```console\n(.*?)```", flags=re.DOTALL)
ANYTHING = "..."
MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")


@dataclass(frozen=True)
class Command:
    """Hold one command of a page, with the lines that the page shows of its output."""

    line: str
    shown: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        found = re.search(r"# exit (\d)", self.line)
        return int(found[1]) if found else 0

    @property
    def arguments(self) -> list[str]:
        """Return what follows `cereval`, so that it prints the same every time."""
        arguments = shlex.split(self.line, comments=True)
        assert arguments[0] == "cereval", self.line
        # How many calls are out when a goal is reached depends on the clock; their answers are kept, and are history.
        if "-j" not in arguments and (
            "resume" in arguments or any("scripted/" in part for part in arguments)
        ):
            arguments += ["-j", "1"]
        return arguments[1:]

    def run(self) -> tuple[int, list[str]]:
        """Run the command here and now; return its exit code and the lines it printed on stdout."""
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            code = main(
                [part.replace("RUN", newest_run()) if "RUN" in part else part for part in self.arguments]
            )
        return code, [line.rstrip() for line in text.getvalue().splitlines()]

    def written(self, printed: list[str]) -> list[str]:
        """Return what a page should show: as many lines as it showed so far."""
        count = len([line for line in self.shown if line != ANYTHING])
        kept = [line for line in printed if line.strip()][: max(count, 1)] if self.shown else []
        return [*kept, ANYTHING] if self.shown and self.shown[-1] == ANYTHING else kept


def newest_run() -> str:
    """Return the id of the newest run in the folder's store."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        main(["runs", "--json"])
    runs = json.loads(text.getvalue())
    return str(max(runs, key=lambda run: run["created_at"])["run_id"])


def commands(page: str) -> Iterator[Command]:
    """Yield the commands of a page in their order."""
    for block in BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, *shown = part.rstrip("\n").split("\n")
            yield Command(line, tuple(text.rstrip() for text in shown if text.strip()))


def shows(printed: list[str], shown: tuple[str, ...]) -> str | None:
    """Return the first shown line that was not printed after those before it, whatever the time; None if
    all were."""
    rest = iter([MOMENT.sub("then", line) for line in printed if line.strip()])
    for line in shown:
        if line != ANYTHING and MOMENT.sub("then", line) not in rest:
            return line
    return None


@contextlib.contextmanager
def folder() -> Iterator[None]:
    """Work in an empty folder with the example files, on lines of 110 columns."""
    before = Path.cwd(), dict(os.environ)
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        os.environ["COLUMNS"] = "110"
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                main(["example"])
            yield
        finally:
            os.chdir(before[0])
            os.environ.clear()
            os.environ.update(before[1])


def rewrite(path: Path) -> None:
    """Write what the commands of a page print into it."""
    page = path.read_text(encoding="utf-8")
    blocks: list[str] = []
    with folder():
        for block in BLOCK.findall(page):
            lines = []
            for command in commands(f"```console\n{block}```"):
                code, printed = command.run()
                assert code == command.exit_code, (path, command.line, code, printed)
                lines += [f"$ {command.line}", *command.written(printed)]
            blocks.append("```console\n" + "\n".join(lines) + "\n```")
    found = iter(blocks)
    path.write_text(BLOCK.sub(lambda _: next(found), page), encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rewrite(Path(name).resolve())
