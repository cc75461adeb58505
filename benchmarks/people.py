"""Labels by people: how many a certified mean takes when a noisy judge has graded every answer first.

    python -m benchmarks.people --quick
    python -m benchmarks.people --out benchmarks/results/people-YYYY-MM-DD.md

AlpacaEval's recorded preferences (--data) stand for the people: a label is 1 where the model's answer was preferred to
the reference. The judge gives a grade from 1 to 10: for a share of the items (`agrees`) that of the recorded
preference, for the others that of another item. A run misses when the truth is outside its interval; delta = .05.
What labels prove of the judge: `python -m benchmarks.judges`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.coverage import most_misses
from benchmarks.parallel import CORES, run_all
from benchmarks.past_tables import varying_models
from benchmarks.side_information import DATA
from benchmarks.tables import markdown, publish
from cereval.paper.experiments import load
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session

FOLDER = "alpaca_eval"
GRADES = 9
"""Steps between the grades 1 and 10."""
WAYS: dict[str, float | None] = {
    "uniform": None,
    "agrees 95%": 0.95,
    "agrees 85%": 0.85,
    "agrees 70%": 0.7,
    "useless": 0.0,
}
WIDTHS = (0.05, 0.03)
SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Job:
    """One run: whose answers people label, how closely, with which judge."""

    data: Path
    model: str
    eps: float
    way: str
    seed: int


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took."""

    job: Job
    labels: int
    missed: bool


def judge_of(preferences: NDArray[np.float64], agrees: float, seed: int) -> NDArray[np.float64]:
    """Grade every answer, rightly for a share of the items.

    >>> judge_of(np.array([0.0, 1.0, 0.5]), 1.0, seed=0).round(2).tolist()
    [0.0, 1.0, 0.44]
    """
    rng = np.random.default_rng(seed)
    others = rng.permutation(preferences)
    seen = np.where(rng.random(len(preferences)) < agrees, preferences, others)
    return np.asarray(np.round(seen * GRADES) / GRADES)


def play(job: Job) -> Run:
    preferences = load(job.data / FOLDER).series(job.model).scores
    labels = (preferences >= 0.5).astype(float)
    agrees = WAYS[job.way]
    grades = None if agrees is None else judge_of(preferences, agrees, job.seed)
    history = None if grades is None else grades[:, None]
    method = "uniform" if grades is None else "auto"
    session = Session(len(labels), goal=Estimate(job.eps), method=method, seed=job.seed, history=history)
    while not session.done:
        for draw in session.ask(1):
            session.tell(draw, float(labels[draw.item]))
    result, truth = session.result(), float(labels.mean())
    inside = result.lower - SLACK <= truth <= result.upper + SLACK
    return Run(job, result.n_evaluated, not inside or result.stopped == "contradiction")


def row(runs: list[Run], eps: float) -> list[object]:
    """One line of the table: labels by way, and their share of those that uniform draws need."""
    means = {
        way: float(np.mean([one.labels for one in runs if (one.job.way, one.job.eps) == (way, eps)]))
        for way in WAYS
    }
    base = means["uniform"]
    cells = [
        f"{mean:.0f}" if way == "uniform" else f"{mean:.0f} ({mean / base:.0%})"
        for way, mean in means.items()
    ]
    return [f"± {eps:.0%}", *cells]


@click.command()
@click.option(
    "--data", type=click.Path(path_type=Path), default=DATA, show_default=True, help="Recorded results."
)
@click.option("--quick", is_flag=True, help="A few models, one seed.")
@click.option("--cores", type=int, default=CORES, show_default=True, help="Processes.")
@click.option("--out", type=click.Path(path_type=Path), help="Where the table goes.")
def main(data: Path, quick: bool, cores: int, out: Path | None) -> None:
    """Print the labels that a certified human score takes, with judges of all kinds."""
    every, seeds = (20, 1) if quick else (6, 3)
    models = varying_models(data / FOLDER)[::every]
    jobs = [
        Job(data, model, eps, way, seed)
        for model in models
        for eps in WIDTHS
        for way in WAYS
        for seed in range(seeds)
    ]
    runs = run_all(play, jobs, "people", cores)
    missed = sum(one.missed for one in runs)
    table = markdown(
        ["within", *(f"judge {way}" if way != "uniform" else "uniform, no judge" for way in WAYS)],
        [row(runs, eps) for eps in WIDTHS],
    )
    about = (
        f"Mean labels of 805, over {len(models)} models of AlpacaEval and {seeds} seeds; in brackets the share of what "
        f"uniform draws need. Missed: {missed} of {len(runs)} runs (at most {most_misses(len(runs))} allowed)."
    )
    publish("Labels by people with a judge for all", "benchmarks.people", f"{about}\n\n{table}", out)


if __name__ == "__main__":
    main()
