"""The contract of a figure of the paper, the one way to reproduce it, and what figures share: averages, tables, plots.

Obligations of every figure
1. `tasks` are independent, picklable and keyed by all their parameters: a finished one is never run again.
2. A task's rows depend on its key alone, so interrupting and resuming changes nothing.
3. `note` says what the paper says, what came out and why they differ, from the rows alone.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import active_children, get_context
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, Protocol

from numpy.typing import ArrayLike

from cereval.arrays import Floats
from cereval.datasets.formats import one_line
from cereval.errors import BadFile, Misuse, shown
from cereval.files import open_regular, read_bytes
from cereval.forecasts.pool import Pool
from cereval.imports import optional
from cereval.methods.base import Aim, Method, Setting
from cereval.paper.methods import CerEval, Oracle, Seq, Static
from cereval.records import Interval

Row = Mapping[str, Any]
Rows = Sequence[Row]
Key = tuple[Any, ...]

KEY, OF = "key", "of"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""One thread in each process is fastest where there are as many processes as cores."""
OF_WORKERS = {**ONE_THREAD, "PYTHONSAFEPATH": "1"}
"""A process that is started looks in the current folder before all others, where a `random.py` may lie."""
NAMES = frozenset({"benchmark", "case", "embedder", "method", "model", "scenario", "way"})
"""Columns that hold names, which stay texts: a model may be called `nan`, or `1` beside another called `1.0`."""
NOTES = Path(__file__).parent / "notes"

STYLES: dict[str, tuple[str, str]] = {
    "static": ("Base", "0.8"),
    "seq": ("Seq", "tab:gray"),
    "cer-eval": ("Cer-Eval as printed", "tab:red"),
    "cer-eval clamped": ("Cer-Eval, labels clamped", "tab:orange"),
    "oracle": ("Oracle", "tab:purple"),
    "uniform": ("certified: uniform", "tab:blue"),
    "active": ("certified: active", "tab:green"),
    "partition": ("certified: 1-NN partition", "tab:cyan"),
    "active + history": ("certified: active + history", "tab:olive"),
}
"""Label and colour of each method, in the order of every figure and table."""


class Task:
    """One replication: `work(**settings)` gives the rows, `key` names it in the CSV by all its settings."""

    def __init__(self, work: Callable[..., list[dict[str, Any]]], **settings: Any) -> None:
        self.work, self.settings = work, settings
        self.key = "/".join(map(_key_of, settings.values()))

    def run(self) -> list[dict[str, Any]]:
        return self.work(**self.settings)


def _key_of(value: Any) -> str:
    """A setting in words; a file or a folder by its contents, so that what was finished for others is not taken up."""
    if isinstance(value, Path):
        return f"{value.name}-{fingerprint(value / 'scores.parquet' if value.is_dir() else value)}"
    return ",".join(map(_key_of, value)) if isinstance(value, tuple) else str(value)


@lru_cache(maxsize=32)
def fingerprint(path: Path) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()[:12]


class Figure(Protocol):
    @property
    def name(self) -> str: ...

    def tasks(self) -> list[Task]: ...

    def plot(self, rows: Rows, figure: Any) -> None: ...

    def note(self, rows: Rows) -> str: ...


@dataclass(frozen=True, slots=True)
class Reproduced:
    csv: Path
    png: Path
    svg: Path
    note: Path
    rows: Rows


def reproduce(figure: Figure, out: Path, *, jobs: int = 2, quiet: bool = False) -> Reproduced:
    """Run what is not yet in `out`/NAME.csv, then write the plot and the note."""
    with _writing_to(out):
        out.mkdir(parents=True, exist_ok=True)
    table, png, svg, note = (out / f"{figure.name}.{kind}" for kind in ("csv", "png", "svg", "md"))
    rows = run_tasks(figure.tasks(), table, jobs=jobs, title=figure.name, quiet=quiet)
    if not rows:
        raise BadFile(
            f"there is nothing to plot for {figure.name}: the data has no model that can be replayed"
        )
    matplotlib = optional("matplotlib", "plots")
    matplotlib.use("agg")
    canvas = optional("matplotlib.figure", "plots").Figure(layout="constrained")
    # Without a display and without a date inside, so that reruns are identical.
    with _writing_to(out), matplotlib.rc_context({"svg.hashsalt": figure.name, "font.size": 9}):
        figure.plot(rows, canvas)
        canvas.savefig(png, dpi=150)
        canvas.savefig(svg, metadata={"Date": None})
        note.write_text(figure.note(rows), encoding="utf-8", errors="replace")
    return Reproduced(table, png, svg, note, rows)


@contextmanager
def _writing_to(folder: Path) -> Iterator[None]:
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


def _results(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, list[dict[str, Any]]]]:
    if jobs == 0 or not tasks:
        yield from ((task, task.run()) for task in tasks)
        return
    # Spawned, not forked: a fork would inherit BLAS threads.
    with _of_workers(), ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(task.run): task for task in tasks}
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        except BrokenProcessPool:
            raise Misuse(
                "a process died at its work, perhaps for want of memory; take fewer --jobs: "
                "repeating the command goes on with what is left"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # Whoever is impatient interrupts twice: nobody is left to wait for, and no worker outlives the command.
            for worker in active_children():
                worker.terminate()
            raise


@contextmanager
def _of_workers() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in OF_WORKERS}
    os.environ.update(OF_WORKERS)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class RowFile:
    """A CSV that is both the result of an experiment and its memory of finished replications.

    A task's rows carry their number in `of`: a replication that was cut off in the middle of a write is
    recognised and run again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns: list[str] = []

    def finished(self) -> frozenset[str]:
        """The keys of the complete tasks; what is left of incomplete ones is removed from the file."""
        rows = self._read()
        counts = Counter(row[KEY] for row in rows)
        complete = [row for row in rows if str(counts[row[KEY]]) == row[OF]]
        if len(complete) < len(rows) or (self._columns and not self.path.read_bytes().endswith(b"\n")):
            self.path.write_text("", encoding="utf-8")
            self._append(complete)
        return frozenset(row[KEY] for row in complete)

    def append(self, key: str, rows: Sequence[dict[str, Any]]) -> None:
        full = [{KEY: key, OF: len(rows), **row} for row in rows]
        if full:
            self._columns = self._columns or list(full[0])
            if set(self._columns) != set(full[0]):
                raise self._foreign(f"its columns are not {', '.join(full[0])}")
            self._append(full)

    def rows(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        """The rows of these tasks in their order, whoever finished first; numbers as numbers, save in names."""
        place = {key: position for position, key in enumerate(keys)}
        found = sorted((row for row in self._read() if row[KEY] in place), key=lambda row: place[row[KEY]])
        return [
            {name: _value(name, text) for name, text in row.items() if name not in (KEY, OF)} for row in found
        ]

    @property
    def _empty(self) -> bool:
        return not self.path.exists() or self.path.stat().st_size == 0

    def _read(self) -> list[dict[str, str]]:
        """The rows that are not cut off; take note of the columns."""
        if self._empty:
            return []
        csv.field_size_limit(2**31 - 1)  # names may be longer than the module's default of 128 KiB
        try:
            with io.TextIOWrapper(open_regular(self.path), encoding="utf-8", newline="") as file:
                reader = csv.DictReader(file)
                self._columns = list(reader.fieldnames or ())
                if not {KEY, OF} <= set(self._columns):
                    raise self._foreign(f"it has no columns `{KEY}` and `{OF}`")
                return [row for row in reader if None not in row.values() and None not in row]
        except (csv.Error, UnicodeDecodeError) as error:
            raise self._foreign(one_line(error)) from None

    def _foreign(self, reason: str) -> BadFile:
        return BadFile(
            f"{self.path} is not a table of this experiment ({reason}): move it away or choose another file"
        )

    def _append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        try:
            new = self._empty
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", newline="", encoding="utf-8") as file:
                # All texts are quoted: before Python 3.13 a lone carriage return is not quoted of itself.
                writer = csv.DictWriter(
                    file, self._columns, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC
                )
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


# -- averages and tables ----------------------------------------------------------------------------------------------


def where(rows: Rows, **values: Any) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def grouped(rows: Rows, *columns: str) -> dict[Key, list[Row]]:
    found: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row[column] for column in columns)].append(row)
    return dict(found)


def means(rows: Rows, value: str, *columns: str) -> dict[Key, float]:
    return {key: fmean(float(row[value]) for row in found) for key, found in grouped(rows, *columns).items()}


def methods_of(rows: Rows) -> list[str]:
    present = {str(row["method"]) for row in rows}
    return [name for name in STYLES if name in present] + sorted(present - set(STYLES))


def write_note(name: str, tables: Iterable[str], **facts: Any) -> str:
    text = (NOTES / f"{name}.md").read_text(encoding="utf-8")
    return text.format(tables="\n\n".join(tables), **facts)


def markdown(header: Sequence[str], body: Iterable[Sequence[object]]) -> str:
    """A markdown table.

    >>> print(markdown(["method", "items"], [["seq", 3799]]))
    | method | items |
    |---|---|
    | seq | 3799 |
    """
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in (header, *body)]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def pivot(
    rows: Rows,
    value: str,
    column: str,
    shown: str = "{:.0f}",
    *,
    lines: Sequence[str] = ("method",),
    corner: Sequence[str] = (),
) -> str:
    """A table of means: a line for each group by `lines`, a column for each value of `column`.

    Methods stand in their usual order; `corner`: other headings over the names of the lines.
    """
    found = means(rows, value, *lines, column)
    order = methods_of(rows)
    names = list(dict.fromkeys(key[:-1] for key in found))
    if "method" in lines:
        names.sort(key=lambda name: order.index(name[lines.index("method")]))
    heads = order if column == "method" else sorted({key[-1] for key in found})
    body = [
        [*name, *(shown.format(found[*name, h]) if (*name, h) in found else "" for h in heads)]
        for name in names
    ]
    return markdown([*(corner or lines), *(h if isinstance(h, str) else f"{h:g}" for h in heads)], body)


# -- plots ------------------------------------------------------------------------------------------------------------


def panels(
    figure: Any, rows: Rows, width: float, by: str = "benchmark", *, sharey: bool = True, legend: int = 7
) -> Iterator[tuple[Any, str, Rows]]:
    """Axes side by side, one for each value of a column, with its name and rows; then add the legend."""
    found = grouped(rows, by)
    figure.set_size_inches(width * len(found), 3.6)
    beside = figure.subplots(1, len(found), sharey=sharey, squeeze=False)[0]
    for axes, ((name,), inside) in zip(beside, found.items(), strict=True):
        yield axes, str(name), inside
    figure.axes[0].legend(fontsize=legend)


def plot_saved(axes: Any, rows: Rows, x: str, title: str, xlabel: str = "half-width ε") -> None:
    """Plot the paper's axes: share of items saved over the half-width, a curve for each method."""
    for method in methods_of(rows):
        found = means(where(rows, method=method), "saved", x)
        places = sorted(float(key[0]) for key in found)
        label, colour = STYLES.get(method, (method, None))
        shares = [found[(place,)] for place in places]
        axes.plot(places, shares, marker="o", markersize=3, label=label, color=colour)
    axes.set(title=title, xlabel=xlabel, ylabel="share of items saved", ylim=(-0.03, 1.0))
    axes.grid(alpha=0.3)


# -- recorded scores through any method: the items that it needs for every eps -----------------------------------------

PRINTED: dict[str, Callable[..., Method]] = {cls.name: cls for cls in (Static, Seq, CerEval, Oracle)}
"""The paper's methods. Their draws do not depend on eps, which is why one run serves all eps."""
ROUNDING = 1e-9  # A full pass is exact up to the rounding of a sum, and so is the truth


def misses(lower: float, upper: float, truth: float) -> bool:
    """Whether an interval misses the truth by more than rounding."""
    return not lower - ROUNDING <= truth <= upper + ROUNDING


class Reached(NamedTuple):
    """Where a run stops for one eps: the items it took, the share it saved, whether its interval then misses the mean,
    and the distance of its estimate from it.
    """

    eps: float
    items: int
    saved: float
    missed: bool
    error: float

    @classmethod
    def of(cls, eps: float, items: int, interval: Interval, estimate: float, scores: Floats) -> Reached:
        truth = float(scores.mean())
        missed = misses(interval.lower, interval.upper, truth)
        return cls(eps, items, 1 - items / len(scores), missed, abs(estimate - truth))


def reaches(method: str, scores: Floats, eps: Sequence[float], *, seed: int, **side: Any) -> list[Reached]:
    """Run any method of the figures, by its name there: `cer-eval clamped`, `active + history`."""
    name = method.split(" + ")[0]
    if name == "cer-eval clamped":
        return printed_reaches("cer-eval", scores, eps, seed=seed, clamp=True, **side)
    run = printed_reaches if name in PRINTED else certified_reaches
    return run(name, scores, eps, seed=seed, **side)


def printed_reaches(
    name: str,
    scores: Floats,
    eps: Sequence[float],
    *,
    seed: int,
    embeddings: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    delta: float = 0.05,
    **parameters: Any,
) -> list[Reached]:
    """Run one of the paper's methods on recorded scores, for every eps at once.

    >>> import numpy
    >>> [r.items for r in printed_reaches("seq", numpy.ones(5000), [0.1, 0.05], seed=0)]
    [915, 3799]
    """
    pool = Pool.build(len(scores), embeddings=embeddings, groups=groups)
    method = PRINTED[name](Setting(pool, "benchmark", delta, seed, Aim()), **parameters)
    radii: list[float] = []
    states: list[tuple[Interval, float]] = []
    while (not radii or radii[-1] > min(eps)) and (draw := method.next_draw()) is not None:
        score = float(scores[draw.item])
        method.observe(draw, score, score)
        radii.append(method.radius)
        states.append((method.interval, method.estimate))
    # The first n whose radius is at most eps, or the whole pool.
    lasts = [next((n for n, radius in enumerate(radii) if radius <= one), len(radii) - 1) for one in eps]
    return [Reached.of(one, n + 1, *states[n], scores) for one, n in zip(eps, lasts, strict=True)]


def certified_reaches(
    name: str,
    scores: Floats,
    eps: Sequence[float],
    *,
    seed: int,
    delta: float = 0.05,
    training_fraction: float | None = None,
    **side: Any,
) -> list[Reached]:
    """Run `cereval.replay` once for each eps: certified methods bet towards their eps."""
    from cereval.questions.mean.goal import Estimate
    from cereval.questions.replay import replay

    options = {} if training_fraction is None else {"training_fraction": training_fraction}
    plan = {"confidence": 1 - delta, "method": name, "seed": seed, "options": options, **side}
    results = [(one, replay(scores, goal=Estimate(eps=one), **plan)) for one in eps]
    return [
        Reached.of(one, result.n_evaluated, Interval(result.lower, result.upper), result.estimate, scores)
        for one, result in results
    ]
