"""What a closer goal or a larger budget costs on the way: calls of a run that is changed, over those of a new run.

    python -m benchmarks.closer --seeds 40

Runs of 0/1 scores work towards one goal, or until a budget is spent, and then towards another goal. `forecast`: the
calls that the run said it would take in all, at the moment of the change.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from benchmarks.parallel import CORES, run_all
from benchmarks.tables import markdown, publish
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session
from cereval.runner.pace import calls_to_goal

SIZE = 5000
MEANS = (0.5, 0.1, 0.05)


@dataclass(frozen=True, slots=True)
class Leg:
    """A part of a run: the goal, and the budget in calls of the run so far."""

    eps: float
    budget: int | None = None

    @property
    def words(self) -> str:
        return f"± {self.eps}" + ("" if self.budget is None else f", {self.budget} calls")


STEPS = (
    (Leg(0.05), Leg(0.045)),
    (Leg(0.05), Leg(0.03)),
    (Leg(0.02, 100), Leg(0.02)),
    (Leg(0.02, 100), Leg(0.02, 200), Leg(0.02)),
)


@dataclass(frozen=True, slots=True)
class Job:
    """One run of 0/1 scores."""

    mean: float
    legs: tuple[Leg, ...]
    seed: int


def play(job: Job) -> tuple[int, int]:
    """The calls in all, and those forecast at the beginning of the last leg."""
    ones = (np.arange(SIZE) < round(job.mean * SIZE)).astype(np.float64)
    scores = np.random.default_rng([job.seed, 17]).permutation(ones)
    session = Session(SIZE, goal=Estimate(job.legs[0].eps), budget=job.legs[0].budget, seed=job.seed)
    forecast = None
    for leg in job.legs:
        session.change(Estimate(leg.eps).spec(), leg.budget)
        forecast = calls_to_goal(session)
        while not session.done:
            for draw in session.ask(1):
                session.tell(draw, float(scores[draw.item]))
    return session.n_evaluated, forecast or 0


@click.command(help=__doc__)
@click.option("--seeds", default=12, show_default=True, help="Runs for each mean and goal.")
@click.option("--cores", default=CORES, show_default=True, help="Processes at a time.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the table, with its command, here.")
def main(seeds: int, cores: int, out: Path | None) -> None:
    cells = [(mean, legs) for mean in MEANS for legs in STEPS]
    ways = [(mean, way) for mean, legs in cells for way in (legs, legs[-1:])]
    jobs = [Job(mean, way, seed) for mean, way in ways for seed in range(seeds)]
    found = np.array(run_all(play, jobs, "closer", cores)).reshape(len(cells), 2, seeds, 2).mean(axis=2)
    rows = [
        [
            mean,
            "; ".join(leg.words for leg in legs),
            *(f"{x:.0f}" for x in (forecast, calls, fresh)),
            f"{calls / fresh:.2f}",
        ]
        for (mean, legs), ((calls, forecast), (fresh, _)) in zip(cells, found, strict=True)
    ]
    body = markdown(["mean", "goals in turn", "forecast", "calls", "new run", "ratio"], rows)
    publish("A closer goal or a larger budget on the way", "benchmarks.closer", body, out)


if __name__ == "__main__":
    main()
