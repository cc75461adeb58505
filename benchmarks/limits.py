"""What the best bets could make of the forecasts and draws of runs with history: a limit for bets, not a method.

    python -m benchmarks.limits [--every 1] [--seeds 8] [--out FILE]

A bet lambda_t multiplies the wealth against R >= m by 1 - lambda_t (X_t - m), and may not lose more than all of it. Let
someone know every score of the model, and the forecasts and the draw chances of every step of a run, but not which
items are drawn. Of all ways to choose lambda_t by time and wealth, the one with the largest chance to exclude m within
n draws is found backwards:

    V_n(w) = 1 if w >= 1/alpha,    V_t(w) = max over lambda of E V_{t+1}(w (1 - lambda (X_t - m)))

Limit: the least n at which he excludes the mean - l and the mean + u with an even chance each, where l + u = 2 eps and
all of delta is for these two values. A run knows no score beforehand, has to be ready for every mean, and keeps a part
of delta for the way there. Normal: where a fixed-n test would be that takes the variance as known and scores for
normal; no bets reach it where few large increments make up the variance, since they must hold for every population.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.parallel import CORES, run_all
from benchmarks.past_tables import side_information, varying_models
from benchmarks.side_information import ALPACA, DATA, GPT4O, JUDGED, MATH, MMLU
from benchmarks.tables import markdown, publish
from cereval.forecasts.pool import Pool
from cereval.methods.active import BOLD, Active
from cereval.methods.base import Aim, Setting
from cereval.paper.experiments import load
from cereval.records import Draw
from cereval.stats.increments import Tally

Floats = NDArray[np.float64]

DELTA = 0.05
QUANTILE = 1.96
ATOMS = 40
"""Values that the distribution of an increment is reduced to, each the mean of an equal part of it."""
BEYOND = 1.35
"""Runs go on so far beyond their goal, for the limit may lie behind the end of a lucky one."""
LOG_WEALTH = np.linspace(log(1e-5), 0.0, 320)
"""The grid of V: the logarithm of wealth x alpha."""
STEP = float(LOG_WEALTH[1] - LOG_WEALTH[0])
BETS = np.append(0.1, np.geomspace(0.2, 3.2, 16))
"""Tried at every step and wealth, in units of the normal test's first bet on the draws that are left. Forty in place of
twenty lower the limit by .1% or less (MATH, AlpacaEval)."""
USUAL_SLOPE = 2.3
"""Of that bet: phi(z) / alpha at alpha = .025 (`stats.bets`)."""
HALVINGS, TRIES = 4, 7
"""Of the search for the best division of 2 eps, and for the number of draws."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run with history."""

    folder: str
    model: str
    eps: float
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class Chance:
    """The distribution of one increment about the mean of all scores, and its range."""

    values: Floats
    weights: Floats
    lowest: float
    highest: float

    @property
    def variance(self) -> float:
        return float(self.weights @ self.values**2)


@dataclass(frozen=True, slots=True)
class Found:
    """Calls of a run, those of the fixed-n normal test, and the limit."""

    calls: int
    normal: int
    limit: float


class Recorded(Active):
    """`active`, which notes the distribution of every increment that someone who knows the scores would expect."""

    def __init__(self, setting: Setting, scores: Floats) -> None:
        super().__init__(setting)
        self.scores = scores
        self.chances: list[Chance] = []

    def _play(self, draw: Draw, low: float, high: float) -> None:
        self.chances.append(chance_of(self.tally, self.scores))
        super()._play(draw, low, high)


def chance_of(tally: Tally, scores: Floats) -> Chance:
    """The distribution of the tally's next increment."""
    left = np.flatnonzero(tally.left & (tally.outlook.weights > 0))
    weights, shares, mean = tally.outlook.weights[left], tally.shares[left], tally.outlook.mean[left]
    chances = weights / weights.sum()
    prospect, truth = tally.prospect(), float(tally.shares @ scores)
    values = tally.seen_low + shares @ mean - truth + (scores[left] - mean) * shares / chances
    return Chance(*reduced(values, chances), prospect.floor - truth, prospect.ceiling - truth)


def reduced(values: Floats, chances: Floats, atoms: int = ATOMS) -> tuple[Floats, Floats]:
    """The same distribution on fewer values, with the same mean.

    >>> reduced(np.array([0.0, 1.0, 3.0, 4.0]), np.full(4, 0.25), 2)
    (array([0.5, 3.5]), array([0.5, 0.5]))
    """
    order = np.argsort(values)
    values, chances = values[order], chances[order]
    places = np.minimum(((np.cumsum(chances) - chances / 2) * atoms).astype(int), atoms - 1)
    weights = np.bincount(places, chances, atoms)
    sums = np.bincount(places, chances * values, atoms)
    held = weights > 0
    return sums[held] / weights[held], np.asarray(weights[held], dtype=np.float64)


def record(job: Job) -> tuple[int, list[Chance], float]:
    """Play a run, and on beyond its goal; return its calls, all increments' distributions, and the mean."""
    series = load(DATA / job.folder).series(job.model)
    side = side_information(DATA / job.folder, series, JUDGED, job.seed)
    pool = Pool.build(len(series.scores), **side)
    method = Recorded(
        Setting(pool, "benchmark", DELTA, job.seed, Aim(eps=job.eps)),
        np.asarray(series.scores, float),
    )
    calls = 0
    while not calls or method.consumed < BEYOND * calls:
        draw = method.next_draw()
        if draw is None:
            break
        score = float(series.scores[draw.item])
        method.observe(draw, score, score)
        if not calls and method.radius <= job.eps:
            calls = method.consumed
    return calls or method.consumed, method.chances, float(np.mean(series.scores))


def win(chances: list[Chance], away: float, alpha: float) -> float:
    """The largest chance to exclude the mean + `away` (above where positive, below where negative) with these draws."""
    value = (LOG_WEALTH >= -1e-12).astype(float)
    for left, chance in enumerate(reversed(chances), start=1):
        gains = np.copysign(1.0, away) * (away - chance.values)
        room = chance.highest - away if away > 0 else away - chance.lowest
        most = 0.9999 / max(room, 1e-9)
        bets = np.minimum(BETS * USUAL_SLOPE / np.sqrt(left * chance.variance), most)
        value = best_of(value, gains, chance.weights, np.unique(bets))
    return float(np.interp(log(alpha), LOG_WEALTH, value))


def best_of(value: Floats, gains: Floats, weights: Floats, bets: Floats) -> Floats:
    """V one draw earlier: the best of the bets, for every wealth."""
    slopes = np.append(np.diff(value), 0.0)
    earlier = np.zeros(len(value))
    for bet in bets:
        places = (LOG_WEALTH - LOG_WEALTH[0] + np.log1p(bet * gains)[:, None]) / STEP
        places = np.clip(places, 0.0, len(value) - 1.000001)
        below = places.astype(np.int32)
        np.maximum(earlier, weights @ (value[below] + (places - below) * slopes[below]), out=earlier)
    earlier[-1] = 1.0
    return earlier


def even_chance(chances: list[Chance], away: float, alpha: float) -> float:
    """The number of draws with which the chance to win is 1/2; infinite where all of them are too few."""
    few, many = (0, 0.0), (len(chances), win(chances, away, alpha))
    if many[1] < 0.5:
        return float("inf")
    for _ in range(TRIES):
        if many[0] - few[0] <= 2 or many[1] - 0.5 < 0.004:
            break
        between = few[0] + (many[0] - few[0]) * (0.5 - few[1]) / (many[1] - few[1])
        count = int(np.clip(between, few[0] + 1, many[0] - 1))
        tried = (count, win(chances[:count], away, alpha))
        few, many = (few, tried) if tried[1] >= 0.5 else (tried, many)
    return few[0] + (many[0] - few[0]) * (0.5 - few[1]) / (many[1] - few[1])


def limit(chances: list[Chance], eps: float, tilt: float) -> float:
    """The limit for the best division of 2 eps; tilt: how delta is divided (`stats.interval`)."""
    low, high, found = 0.8, 1.6, float("inf")
    for _ in range(HALVINGS):
        upper = (low + high) / 2
        above = even_chance(chances, upper * eps, DELTA / 2 * (1 + tilt))
        below = even_chance(chances, -(2 - upper) * eps, DELTA / 2 * (1 - tilt))
        found = min(found, max(above, below))
        low, high = (upper, high) if above > below else (low, upper)
    return found


def play(job: Job) -> Found:
    calls, chances, mean = record(job)
    information = np.cumsum([1 / chance.variance for chance in chances])
    normal = int(np.searchsorted(information, (QUANTILE / job.eps) ** 2)) + 1
    return Found(calls, normal, limit(chances, job.eps, BOLD.tilt * (1 - 2 * mean)))


def row(label: str, eps: float, found: list[Found]) -> list[object]:
    table = np.array([(one.calls, one.limit, one.normal) for one in found])
    calls, best, normal = table[np.isfinite(table[:, 1])].mean(axis=0)
    reached = int(np.isfinite(table[:, 1]).sum())
    return [label, f"{eps:g}", reached, f"{calls:.0f}", f"{best:.0f}", f"{calls / best:.3f}", f"{normal:.0f}"]


@click.command(help=__doc__)
@click.option("--every", default=1, show_default=True, help="Take every so many of AlpacaEval's models.")
@click.option("--seeds", default=8, show_default=True, help="Of MMLU; four times as many of MATH.")
@click.option("--cores", default=CORES, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Write the table, with its command, here.")
def main(every: int, seeds: int, cores: int, out: Path | None) -> None:
    math = [Job(MATH, "gpt-4o-2024-05-13", 0.04558, seed) for seed in range(4 * seeds)]
    mmlu = [[Job(MMLU, GPT4O, eps, seed) for seed in range(seeds)] for eps in (0.01034, 0.01551)]
    alpaca = [
        [Job(ALPACA, model, eps, 0) for model in varying_models(DATA / ALPACA)[::every]]
        for eps in (0.02, 0.03, 0.05)
    ]
    rows = [
        row(jobs[0].folder, jobs[0].eps, run_all(play, jobs, jobs[0].folder, cores))
        for jobs in (*alpaca, math, *mmlu)
        if jobs
    ]
    header = ["data", "eps", "runs", "calls", "best bets", "ratio", "fixed n, normal"]
    publish("Limits of bets", "benchmarks.limits", markdown(header, rows), out)


if __name__ == "__main__":
    main()
