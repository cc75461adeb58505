"""State the contract of a figure, and the one way to reproduce it.

Obligations of every figure
1. `tasks` are independent, picklable and keyed by all their parameters: a finished one is never run again.
2. A task's rows depend on its key alone, so interrupting and resuming changes nothing.
3. `note` says what the paper says, what came out and why they differ, from the rows alone.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, Literal, Protocol, TextIO

from cereval.datasets.formats import one_line
from cereval.errors import BadFile, Misuse, shown
from cereval.files import open_regular

Row = Mapping[str, Any]
Rows = Sequence[Row]

KEY, OF = "key", "of"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""One thread in each process is fastest where there are as many processes as cores."""
NAMES = frozenset({"benchmark", "case", "embedder", "method", "model", "scenario", "way"})
"""Columns that hold names, which stay texts: a model may be called `nan`, or `1` beside another called `1.0`."""


@dataclass(frozen=True, slots=True)
class Task:
    """Describe one replication: `work(**settings)` gives the rows, `key` names it in the CSV."""

    key: str
    work: Callable[..., list[dict[str, Any]]]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def run(self) -> list[dict[str, Any]]:
        return self.work(**self.settings)


class Figure(Protocol):
    """See the module's docstring for the obligations."""

    @property
    def name(self) -> str: ...

    def tasks(self) -> list[Task]: ...

    def plot(self, rows: Rows, figure: Any) -> None:
        """Draw the rows on a matplotlib figure."""
        ...

    def note(self, rows: Rows) -> str:
        """Write the note in markdown."""
        ...


@dataclass(frozen=True, slots=True)
class Reproduced:
    """Say where the parts of one figure were written."""

    csv: Path
    png: Path
    svg: Path
    note: Path
    rows: Rows


def reproduce(figure: Figure, out: Path, *, jobs: int = 2, quiet: bool = False) -> Reproduced:
    """Run what is not yet in `out`/NAME.csv, then write the plot and the note."""
    from cereval.paper.summaries import save

    with _written(out):
        out.mkdir(parents=True, exist_ok=True)
    memory = out / f"{figure.name}.csv"
    rows = run_tasks(figure.tasks(), memory, jobs=jobs, title=figure.name, quiet=quiet)
    if not rows:
        raise BadFile(
            f"there is nothing to plot for {figure.name}: the data has no model that can be replayed"
        )
    with _written(out):
        png, svg = save(figure, rows, out)
        note = out / f"{figure.name}.md"
        note.write_text(figure.note(rows), encoding="utf-8", errors="replace")
    return Reproduced(memory, png, svg, note, rows)


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadFile(f"{shown(str(folder))} cannot be the folder of a figure ({error.strerror})") from None


def run_tasks(
    tasks: Sequence[Task], memory: Path, *, jobs: int, title: str, quiet: bool = False
) -> list[dict[str, Any]]:
    """Run the tasks that the CSV `memory` does not hold yet, with a progress bar; return the rows of all.

    Rows are appended as soon as their task is done. `jobs=0` runs the tasks in this process.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    file = RowFile(memory)
    finished = file.finished()
    waiting = [task for task in tasks if task.key not in finished]
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet or not waiting) as bar:
        ticks = bar.add_task(title, total=len(waiting))
        for task, rows in _results(waiting, jobs):
            file.append(task.key, rows)
            bar.advance(ticks)
    return file.rows([task.key for task in tasks])


class RowFile:
    """Keep a CSV that is both the result of an experiment and its memory of finished replications.

    A task's rows carry their number in `of`: a replication that was cut off in the middle of a write is
    recognised and run again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def finished(self) -> frozenset[str]:
        """List the keys of the complete tasks; remove what is left of incomplete ones from the file."""
        rows = self._read()
        counts = Counter(row[KEY] for row in rows)
        complete = [row for row in rows if str(counts[row[KEY]]) == row[OF]]
        if len(complete) < len(rows) or not (self._empty or self.path.read_bytes().endswith(b"\n")):
            header = self._header()
            self.path.write_text("", encoding="utf-8")
            self._append(header, complete)
        return frozenset(row[KEY] for row in complete)

    def append(self, key: str, rows: Sequence[dict[str, Any]]) -> None:
        full = [{KEY: key, OF: len(rows), **row} for row in rows]
        if full:
            columns = self._header() or list(full[0])
            if set(columns) != set(full[0]):
                raise self._foreign(f"its columns are not {', '.join(full[0])}")
            self._append(columns, full)

    def rows(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        """Return the rows of these tasks in their order, whoever finished first; numbers as numbers, save in names."""
        place = {key: position for position, key in enumerate(keys)}
        kept = sorted((row for row in self._read() if row[KEY] in place), key=lambda row: place[row[KEY]])
        return [
            {name: _value(name, text) for name, text in row.items() if name not in (KEY, OF)} for row in kept
        ]

    @property
    def _empty(self) -> bool:
        return not self.path.exists() or self.path.stat().st_size == 0

    def _header(self) -> list[str]:
        if self._empty:
            return []
        with self._open() as file:
            return next(csv.reader(file), [])

    def _read(self) -> list[dict[str, str]]:
        if self._empty:
            return []
        if not {KEY, OF} <= set(self._header()):
            raise self._foreign(f"it has no columns `{KEY}` and `{OF}`")
        with self._open() as file:
            return [row for row in csv.DictReader(file) if None not in row.values() and None not in row]

    @contextmanager
    def _open(self) -> Iterator[TextIO]:
        csv.field_size_limit(2**31 - 1)  # names may be longer than the module's default of 128 KiB
        try:
            with io.TextIOWrapper(open_regular(self.path), encoding="utf-8", newline="") as file:
                yield file
        except (csv.Error, UnicodeDecodeError) as error:
            raise self._foreign(one_line(error)) from None

    def _foreign(self, reason: str) -> BadFile:
        return BadFile(
            f"{self.path} is not a table of this experiment ({reason}): move it away or choose another file"
        )

    def _append(self, columns: list[str], rows: Sequence[dict[str, Any]]) -> None:
        # Before Python 3.13 a lone carriage return is not quoted of itself, and would end a row.
        returns = any("\r" in str(value) for row in rows for value in row.values())
        quoting: Literal[0, 1] = csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL
        try:
            new = self._empty
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, columns, lineterminator="\n", quoting=quoting)
                if new:
                    writer.writeheader()
                writer.writerows(rows)
        except OSError as error:
            raise BadFile(f"{self.path} cannot be written ({error.strerror})") from None


def _value(name: str, text: str) -> Any:
    if name in NAMES:
        return text
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return {"True": True, "False": False}.get(text, text)


def _results(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, list[dict[str, Any]]]]:
    if jobs == 0 or not tasks:
        yield from ((task, task.run()) for task in tasks)
        return
    # Spawned, not forked: a fork would inherit BLAS threads, and one thread in each process is fastest here.
    with _single_threaded(), ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(task.run): task for task in tasks}
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        except BrokenProcessPool:
            said = "a process died at its work, perhaps for want of memory; take fewer --jobs"
            raise Misuse(f"{said}: repeating the command goes on with what is left") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # Whoever is impatient interrupts twice: nobody is left to wait for, and no worker outlives the command.
            for worker in active_children():
                worker.terminate()
            raise


@contextmanager
def _single_threaded() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
