"""Calls needed: the table of statistics.md section 5 for our methods, beside baselines and limits.

    python -m benchmarks.calls --quick
    python -m benchmarks.calls --full --out benchmarks/results/calls-YYYY-MM-DD.md

Fresh populations of N = 5,000, delta = .05; seed k gives every method the same population and random stream.
A run misses when the truth is outside any interval shown (they are nested, so outside the last one) or when
every value was rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy.special import ndtri

from benchmarks.parallel import run_all
from benchmarks.populations import bernoulli, clusters
from benchmarks.tables import markdown, publish
from cereval.paper.experiments import Population, s1, s2, s3
from cereval.questions.mean.goal import Estimate
from cereval.questions.replay import replay
from cereval.stats.exact import hypergeometric_items

SIZE = 5000
DELTA = 0.05
NOISE_DIMENSIONS = 10

POPULATIONS: dict[str, Callable[[np.random.Generator], Population]] = {
    "S1": partial(s1, size=SIZE),
    "S2": partial(s2, size=SIZE),
    "S3": partial(s3, size=SIZE),
    **{f"Bernoulli {mean:g}": partial(bernoulli, mean=mean, size=SIZE) for mean in (0.5, 0.1, 0.03, 0.02)},
    "3 clusters": partial(clusters, size=SIZE),
}

WAYS = ("uniform", "active", "active on noise", "hedged")


@dataclass(frozen=True, slots=True)
class Job:
    """One run: a population, a goal, a way to evaluate it and a seed."""

    population: str
    eps: float
    way: str
    seed: int


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took."""

    job: Job
    calls: int
    missed: bool
    mean: float
    variance: float


@dataclass(frozen=True, slots=True)
class Summary:
    """All runs of one population, goal and way."""

    mean: float
    tail: float
    misses: int
    runs: int

    def __str__(self) -> str:
        return f"{self.mean:.0f} ({self.tail:.2f}, {self.misses}/{self.runs})"


@dataclass(frozen=True, slots=True)
class Requirement:
    """What the mean calls at eps = .02 may be at most."""

    population: str
    way: str
    most: float


REQUIREMENTS = (
    Requirement("Bernoulli 0.5", "uniform", 1830),
    Requirement("Bernoulli 0.1", "uniform", 985),
    Requirement("S1", "uniform", 815),
    Requirement("Bernoulli 0.03", "uniform", 470),
    Requirement("S2", "active", 640),
)
NOISE_COSTS_AT_MOST = 1.05


def side_information(way: str, population: Population, seed: int) -> dict[str, Any]:
    if way == "active":
        return {"embeddings": population.embeddings}
    if way == "active on noise":
        noise = np.random.default_rng([seed, 31])
        return {"embeddings": noise.normal(size=(population.size, NOISE_DIMENSIONS))}
    return {}


def play(job: Job) -> Run:
    population = POPULATIONS[job.population](np.random.default_rng([job.seed, 17]))
    side = side_information(job.way, population, job.seed)
    result = replay(
        population.scores,
        goal=Estimate(job.eps),
        confidence=1 - DELTA,
        method=job.way.split()[0],
        seed=job.seed,
        **side,
    )
    missed = result.stopped == "contradiction" or not (
        result.lower - 1e-9 <= population.mean <= result.upper + 1e-9
    )
    return Run(job, result.n_evaluated, missed, population.mean, float(population.scores.var()))


def normal_limit(variance: float, eps: float, size: int = SIZE, delta: float = DELTA) -> float:
    """Items a fixed-n normal test needs when the variance is known: a limit, not a method.

    >>> round(normal_limit(0.25, 0.02))
    1622
    """
    infinite = float(ndtri(1 - delta / 2)) ** 2 * variance / eps**2
    return infinite / (1 + infinite / size)


def summarise(runs: Iterable[Run]) -> Summary:
    chosen = list(runs)
    calls = np.array([run.calls for run in chosen])
    mean = float(calls.mean())
    return Summary(
        mean, float(np.quantile(calls, 0.95)) / mean, sum(run.missed for run in chosen), len(chosen)
    )


def limits(population: str, eps: float, runs: list[Run]) -> list[str]:
    """The normal-theory limit, and for 0/1 scores the exact fixed-n test."""
    here = [
        run for run in runs if (run.job.population, run.job.eps, run.job.way) == (population, eps, "uniform")
    ]
    normal = float(np.mean([normal_limit(run.variance, eps) for run in here]))
    if not population.startswith("Bernoulli") and population != "3 clusters":
        return [f"{normal:.0f}", "-"]
    exact = hypergeometric_items(float(np.mean([run.mean for run in here])), eps, DELTA, SIZE)
    return [f"{normal:.0f}", str(exact)]


def summaries(runs: list[Run]) -> dict[tuple[str, float, str], Summary]:
    keys = dict.fromkeys((run.job.population, run.job.eps, run.job.way) for run in runs)
    return {
        key: summarise(run for run in runs if (run.job.population, run.job.eps, run.job.way) == key)
        for key in keys
    }


def calls_table(runs: list[Run]) -> str:
    found = summaries(runs)
    ways = dict.fromkeys(way for _, _, way in found)
    header = ["population", "eps", "normal limit", "exact fixed n", *ways]
    cells = dict.fromkeys((population, eps) for population, eps, _ in found)
    rows = [
        [population, eps, *limits(population, eps, runs), *(found[population, eps, way] for way in ways)]
        for population, eps in cells
    ]
    note = "Mean calls (95th percentile / mean, misses/runs)."
    return note + "\n\n" + markdown(header, rows)


def requirements_table(runs: list[Run]) -> str:
    """What must hold at eps = .02, and that noise costs at most 5% everywhere."""
    found = summaries(runs)
    rows: list[list[object]] = []
    for need in REQUIREMENTS:
        if (need.population, 0.02, need.way) in found:
            got = found[need.population, 0.02, need.way].mean
            rows.append(
                [
                    f"{need.way}, {need.population}, eps .02",
                    f"<= {need.most:g}",
                    f"{got:.0f}",
                    _met(got <= need.most),
                ]
            )
    for population, eps, way in found:
        if way == "active on noise":
            ratio = found[population, eps, way].mean / found[population, eps, "uniform"].mean
            label = f"noise features / uniform, {population}, eps {eps:g}"
            rows.append(
                [label, f"<= {NOISE_COSTS_AT_MOST}", f"{ratio:.3f}", _met(ratio <= NOISE_COSTS_AT_MOST)]
            )
    return markdown(["requirement", "allowed", "measured", "met"], rows)


def _met(holds: bool) -> str:
    return "yes" if holds else "**NO**"


def jobs_for(
    populations: Iterable[str], epsilons: Iterable[float], seeds: int, ways: Iterable[str] = WAYS
) -> list[Job]:
    """Long runs first, so that both cores end together."""
    return [
        Job(population, eps, way, seed)
        for eps in sorted(epsilons)
        for population in populations
        for way in ways
        for seed in range(seeds)
    ]


@click.command(help=__doc__)
@click.option("--full/--quick", default=False, help="100 seeds at .02, .03, .05; or 4 seeds at .03, .05.")
@click.option("--seeds", type=int, help="Other than 100 (full) or 4 (quick).")
@click.option("--eps", "epsilons", type=float, multiple=True, help="Other half-widths; may be repeated.")
@click.option("--population", "populations", multiple=True, help="Only this population; may be repeated.")
@click.option("--way", "ways", multiple=True, type=click.Choice(WAYS), help="Besides uniform, only this way.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the tables, with their command, here.")
def main(
    full: bool,
    seeds: int | None,
    epsilons: tuple[float, ...],
    populations: tuple[str, ...],
    ways: tuple[str, ...],
    out: Path | None,
) -> None:
    chosen = epsilons or ((0.02, 0.03, 0.05) if full else (0.03, 0.05))
    played = dict.fromkeys(("uniform", *ways)) if ways else WAYS
    jobs = jobs_for(populations or POPULATIONS, chosen, seeds or (100 if full else 4), played)
    runs = run_all(play, jobs, "calls")
    body = calls_table(runs) + "\n\n" + requirements_table(runs)
    publish(f"Calls at N = {SIZE}, delta = {DELTA}", "benchmarks.calls", body, out)


if __name__ == "__main__":
    main()
