"""Models that answer differently every time: forecasts that remember an item's own answers, beside those that do not.

    python -m benchmarks.random_models --seeds 2
    python -m benchmarks.random_models --seeds 5 --out benchmarks/results/random-models-YYYY-MM-DD.md

Rates of ten answers in --data (LiveCodeBench), 30 items of which most are always right or always wrong, and made up
ones. Every answer is a fresh toss of its item's rate, delta = .05. `uniform` is what there was before; in brackets the
share of its answers, and the worst model's. A run misses when the mean of the rates is outside the last interval.
Miss rates in hostile families: `python -m benchmarks.coverage --method memory`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from benchmarks.coverage import DELTA, most_misses
from benchmarks.parallel import run_all
from benchmarks.side_information import DATA
from benchmarks.tables import markdown, publish
from cereval.datasets.tables import read_scores
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session

Floats = NDArray[np.float64]

EPS = (0.03, 0.02)
UNIFORM, MEMORY, HISTORY = WAYS = ("uniform", "memory", "memory + history")
FOLDERS = {"repair": "livecodebench_repair", "test generation": "livecodebench_testgen"}
ASKED_ONCE = "N=1"
"""In the name of a model whose rates are not known."""


@dataclass(frozen=True, slots=True)
class Job:
    """All runs of one model, by its number in a group, at one eps in one way."""

    group: str
    model: int
    eps: float
    way: str
    seeds: int
    data: Path


@dataclass(frozen=True, slots=True)
class Runs:
    """What they took: mean number of answers, and how often the interval missed."""

    job: Job
    answers: float
    misses: int


def rates_of(group: str, data: Path) -> Floats:
    """The rates of a group of models: items x models."""
    if group in FOLDERS:
        found = read_scores(data / FOLDERS[group] / "scores.parquet").models
        return np.column_stack([column for name, column in found.items() if ASKED_ONCE not in name])
    return MADE_UP[group][:, None]


def _made_up() -> dict[str, Floats]:
    rng = np.random.default_rng(3)
    rates = [1.0] * 13 + [0.0] * 9 + [0.9, 0.8, 0.7, 0.6, 0.5, 0.5, 0.4, 0.3]
    return {
        "30 items": np.array(rates),
        "442 items at .4": np.full(442, 0.4),
        "442 items at .03": np.full(442, 0.03),
        "30 items at .9": np.full(30, 0.9),
        "442 items, Beta(2,2)": rng.beta(2, 2, 442),
        "facts, 5% of 2,000": (np.arange(2000) < 100) * 1.0,
        "facts, 40% of 5,000": (np.arange(5000) < 2000) * 1.0,
    }


MADE_UP = _made_up()


def play(job: Job) -> Runs:
    table = rates_of(job.group, job.data)
    rates, misses, answers = table[:, job.model], 0, []
    history = np.delete(table, job.model, axis=1) if job.way == HISTORY else None
    for seed in range(job.seeds):
        tosses = np.random.default_rng([seed, job.model, 987])
        session = Session(
            len(rates),
            goal=Estimate(job.eps),
            target="expected",
            method=job.way.split()[0],
            history=history,
            seed=1000 * job.model + seed,
        )
        while not session.done:
            for draw in session.ask(1):
                session.tell(draw, float(tosses.random() < rates[draw.item]))
        interval = session.interval
        misses += not interval.lower <= rates.mean() <= interval.upper
        answers.append(session.n_evaluated)
    return Runs(job, float(np.mean(answers)), misses)


def jobs(data: Path, seeds: int) -> list[Job]:
    found = []
    for group in (*FOLDERS, *MADE_UP):
        models = rates_of(group, data).shape[1]
        for way in WAYS if models > 1 else WAYS[:2]:
            times = seeds if models > 1 else 10 * seeds
            found += [Job(group, model, eps, way, times, data) for model in range(models) for eps in EPS]
    return found


def theory(table: Floats, eps: float) -> tuple[float, float]:
    """Draws whose normal interval is as wide, variance known: all items alike, and the least with the rates known."""
    quantile = float(ndtri(1 - DELTA / 2)) / eps
    mean, within = table.mean(axis=0), np.sqrt(table * (1 - table)).mean(axis=0)
    return float((mean * (1 - mean)).mean()) * quantile**2, float((within**2).mean()) * quantile**2


def tabulate(measured: Sequence[Runs], data: Path) -> str:
    rows = []
    for group in dict.fromkeys(one.job.group for one in measured):
        for eps in EPS:
            found = {
                way: [
                    one for one in measured if (one.job.group, one.job.eps, one.job.way) == (group, eps, way)
                ]
                for way in WAYS
            }
            independent, least = theory(rates_of(group, data), eps)
            cells = [_cell(found[way], found[UNIFORM]) for way in WAYS]
            rows.append([group, len(found[UNIFORM]), eps, *cells, f"{independent:,.0f} / {least:,.0f}"])
    runs = [one for one in measured if one.job.way != UNIFORM]
    count, missed = sum(one.job.seeds for one in runs), sum(one.misses for one in runs)
    header = ["items", "models", "eps", *WAYS, "normal theory: independent / rates known"]
    said = (
        f"Misses with memory: {missed} of {count:,} runs; at most {most_misses(count)} with probability 99%."
    )
    return f"{markdown(header, rows)}\n\n{said}"


def _cell(runs: Sequence[Runs], before: Sequence[Runs]) -> str:
    if not runs:
        return ""
    mean, usual = (float(np.mean([one.answers for one in ones])) for ones in (runs, before))
    if runs is before:
        return f"{mean:,.0f}"
    worst = max(one.answers / other.answers for one, other in zip(runs, before, strict=True))
    beside = f"; worst {worst:.2f}" if len(runs) > 1 else ""
    return f"{mean:,.0f} ({mean / usual:.2f}{beside})"


@click.command(help=__doc__)
@click.option(
    "--seeds", default=2, show_default=True, help="Runs of each model, ten times as many of made up ones."
)
@click.option("--data", type=click.Path(path_type=Path), default=DATA, show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the table, with its command, to this file."
)
def main(seeds: int, data: Path, out: Path | None) -> None:
    measured = run_all(play, jobs(data, seeds), "random models")
    publish(
        "Models that answer differently every time", "benchmarks.random_models", tabulate(measured, data), out
    )


if __name__ == "__main__":
    main()
