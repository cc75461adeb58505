"""What a closer goal costs on the way: calls of a run resumed at a closer eps, over those of a new run at that eps.

python -m benchmarks.closer --seeds 40
"""

from __future__ import annotations

from dataclasses import dataclass

import click
import numpy as np

from benchmarks.parallel import CORES, run_all
from benchmarks.tables import markdown, publish
from cereval.goals import Estimate
from cereval.sessions.mean import Session

SIZE = 5000
MEANS = (0.5, 0.1, 0.05)
STEPS = ((0.05, 0.045), (0.05, 0.03))


@dataclass(frozen=True, slots=True)
class Job:
    """One run of 0/1 scores towards each goal in turn."""

    mean: float
    goals: tuple[float, ...]
    seed: int


def play(job: Job) -> int:
    ones = (np.arange(SIZE) < round(job.mean * SIZE)).astype(np.float64)
    scores = np.random.default_rng([job.seed, 17]).permutation(ones)
    session = Session(SIZE, goal=Estimate(job.goals[0]), seed=job.seed)
    for eps in job.goals:
        session.goal = Estimate(eps)
        while not session.done:
            for draw in session.ask(1):
                session.tell(draw, float(scores[draw.item]))
    return session.n_evaluated


@click.command(help=__doc__)
@click.option("--seeds", default=12, show_default=True, help="Runs for each mean and goal.")
@click.option("--cores", default=CORES, show_default=True, help="Processes at a time.")
def main(seeds: int, cores: int) -> None:
    cells = [(mean, *step) for mean in MEANS for step in STEPS]
    ways = [(mean, goals) for mean, first, last in cells for goals in ((first, last), (last,))]
    jobs = [Job(mean, goals, seed) for mean, goals in ways for seed in range(seeds)]
    calls = np.array(run_all(play, jobs, "closer", cores)).reshape(len(cells), 2, seeds).mean(axis=2)
    rows = [
        [mean, first, last, f"{resumed:.0f}", f"{fresh:.0f}", f"{resumed / fresh:.2f}"]
        for (mean, first, last), (resumed, fresh) in zip(cells, calls, strict=True)
    ]
    body = markdown(["mean", "eps at first", "then", "resumed", "new run", "ratio"], rows)
    publish("A closer goal on the way", "benchmarks.closer", body, None)


if __name__ == "__main__":
    main()
