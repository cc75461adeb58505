"""The contract of a figure, and the one way to reproduce it.

Obligations of every figure
1. `tasks` are independent, picklable and keyed by all their parameters: a finished one is never run again.
2. A task's rows depend on its key alone, so interrupting and resuming changes nothing.
3. `note` says what the paper says, what came out and why they differ, from the rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

Row = Mapping[str, Any]
Rows = Sequence[Row]


@dataclass(frozen=True, slots=True)
class Task:
    """One replication: `work(**settings)` gives the rows, `key` names it in the CSV."""

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
        """Draws the rows on a matplotlib figure."""
        ...

    def note(self, rows: Rows) -> str:
        """The note, in markdown."""
        ...


@dataclass(frozen=True, slots=True)
class Reproduced:
    """Where the parts of one figure were written."""

    csv: Path
    png: Path
    svg: Path
    note: Path
    rows: Rows


def reproduce(figure: Figure, out: Path, *, jobs: int = 2, quiet: bool = False) -> Reproduced:
    """Runs what is not yet in `out`/NAME.csv, then writes the plot and the note."""
    from cereval.experiments.plots import save
    from cereval.experiments.rows import RowFile
    from cereval.experiments.workers import run_tasks

    out.mkdir(parents=True, exist_ok=True)
    file = RowFile(out / f"{figure.name}.csv")
    tasks = figure.tasks()
    finished = file.finished()
    run_tasks(
        [task for task in tasks if task.key not in finished], file, jobs=jobs, title=figure.name, quiet=quiet
    )
    rows = file.rows([task.key for task in tasks])
    png, svg = save(figure, rows, out)
    note = out / f"{figure.name}.md"
    note.write_text(figure.note(rows), encoding="utf-8")
    return Reproduced(file.path, png, svg, note, rows)
