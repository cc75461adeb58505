"""Miss rates: how often anything shown during a run was wrong, against delta.

    python -m benchmarks.coverage --runs 2000 --out benchmarks/results/coverage-YYYY-MM-DD.md

A run misses when the truth is outside *any* interval that was shown on the way, or when a decision is wrong.
`bound` is the largest number of misses that a true miss rate of delta makes with probability 99%.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from scipy.stats import binom

from benchmarks.families import BY_NAME, FAMILIES
from benchmarks.parallel import run_all
from benchmarks.scenes import Outcome, watch
from benchmarks.tables import markdown, publish

DELTA = 0.05
CERTAINTY = 0.99
CHUNK = 25


@dataclass(frozen=True, slots=True)
class Cell:
    """One family under one method."""

    family: str
    method: str

    def outcome(self, seed: int, delta: float = DELTA) -> Outcome:
        """One run; scenes and sessions have separate random streams."""
        scene = BY_NAME[self.family].make(np.random.default_rng([seed, 991]))
        return watch(scene, self.method, seed, 1 - delta)


@dataclass(frozen=True, slots=True)
class Job:
    """A chunk of one cell's seeds."""

    cell: Cell
    seeds: range


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a cell's runs showed."""

    cell: Cell
    runs: int
    misses: int
    mean_calls: float

    @property
    def bound(self) -> int:
        return most_misses(self.runs)

    @property
    def holds(self) -> bool:
        return self.misses <= self.bound


def most_misses(runs: int, delta: float = DELTA, certainty: float = CERTAINTY) -> int:
    """The one-sided binomial bound: more misses than this refute a miss rate of delta.

    >>> most_misses(2000)
    123
    """
    return int(binom.ppf(certainty, runs, delta))


def power(runs: int, delta: float = DELTA, times: float = 2.0) -> float:
    """The chance that `most_misses` is exceeded where the true miss rate is so many times delta.

    >>> round(power(30), 3), round(power(90, delta=0.2), 3)
    (0.073, 0.968)
    """
    return float(binom.sf(most_misses(runs, delta), runs, times * delta))


def cells(names: Iterable[str] | None = None) -> list[Cell]:
    wanted = set(BY_NAME if names is None else names)
    return [
        Cell(family.name, method) for family in FAMILIES if family.name in wanted for method in family.methods
    ]


def play(job: Job) -> list[Outcome]:
    return [job.cell.outcome(seed) for seed in job.seeds]


def summary(cell: Cell, outcomes: list[Outcome]) -> Coverage:
    misses = sum(outcome.missed for outcome in outcomes)
    return Coverage(cell, len(outcomes), misses, float(np.mean([outcome.calls for outcome in outcomes])))


def measure(wanted: list[Cell], runs: int) -> list[Coverage]:
    """Every cell, `runs` times, on both cores."""
    jobs = [Job(cell, range(at, min(at + CHUNK, runs))) for cell in wanted for at in range(0, runs, CHUNK)]
    found: dict[Cell, list[Outcome]] = {cell: [] for cell in wanted}
    for job, outcomes in zip(jobs, run_all(play, jobs, "coverage"), strict=True):
        found[job.cell] += outcomes
    return [summary(cell, outcomes) for cell, outcomes in found.items()]


def pooled(measured: list[Coverage]) -> list[Coverage]:
    """Each family over all its methods."""
    families: dict[str, list[Coverage]] = {}
    for one in measured:
        families.setdefault(one.cell.family, []).append(one)
    return [_joined(name, parts) for name, parts in families.items() if len(parts) > 1]


def _joined(family: str, parts: list[Coverage]) -> Coverage:
    runs = sum(part.runs for part in parts)
    calls = sum(part.mean_calls * part.runs for part in parts) / runs
    return Coverage(Cell(family, "all"), runs, sum(part.misses for part in parts), calls)


def table(measured: list[Coverage]) -> str:
    header = ["family", "method", "runs", "misses", "bound", "miss rate", "mean calls", "holds"]
    return markdown(header, [_row(one) for one in (*measured, *pooled(measured))])


def _row(one: Coverage) -> list[object]:
    rate = f"{one.misses / one.runs:.4f}"
    counts = [one.runs, one.misses, one.bound, rate, f"{one.mean_calls:.1f}"]
    return [one.cell.family, one.cell.method, *counts, "yes" if one.holds else "**NO**"]


@click.command(help=__doc__)
@click.option("--runs", default=200, show_default=True, help="Runs for each family and method.")
@click.option("--family", "families", multiple=True, help="Only this family; may be repeated.")
@click.option("--method", help="Only the families under this method.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the table, with its command, to this file."
)
def main(runs: int, families: tuple[str, ...], method: str | None, out: Path | None) -> None:
    measured = measure([one for one in cells(families or None) if method in (None, one.method)], runs)
    publish(f"Miss rates at delta = {DELTA}", "benchmarks.coverage", table(measured), out)
    if not all(one.holds for one in measured):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
