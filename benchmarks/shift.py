"""Known weights as a target: coverage, and the calls that weights cost against what is forecast.

    python -m benchmarks.shift
    python -m benchmarks.shift --full --out benchmarks/results/shift-YYYY-MM-DD.md

0/1 scores, delta = .05. A run misses when the weighted mean is outside any interval that was shown. `equal` weights
have to ask exactly the questions that no weights ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.coverage import DELTA, most_misses
from benchmarks.parallel import run_all
from benchmarks.tables import markdown, publish
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session
from cereval.stats.weights import shift_of

Floats = NDArray[np.float64]
SIZE = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """Scores and their weights; history where the draws are to learn from it.

    first_budget: so many calls are allowed at first, and as many as it takes once they are spent.
    """

    scores: Floats
    weights: Floats
    history: Floats | None = None
    first_budget: int | None = None


def equal(rng: np.random.Generator) -> Weighted:
    """Weights that say nothing."""
    return Weighted(_scores(rng, np.full(SIZE, 0.7)), np.full(SIZE, 3.0))


def mix(rng: np.random.Generator) -> Weighted:
    """A tenth of the items gets half of the weight, and is harder."""
    rare = np.arange(SIZE) < SIZE // 10
    return Weighted(_scores(rng, np.where(rare, 0.4, 0.8)), np.where(rare, 9.0, 1.0))


def mild(rng: np.random.Generator) -> Weighted:
    """Lognormal weights, worth about a third of the pool."""
    return Weighted(_scores(rng, np.full(SIZE, 0.6)), np.exp(rng.normal(size=SIZE)))


def skewed(rng: np.random.Generator) -> Weighted:
    """Nearly all right, heavy weights on a few."""
    return Weighted(_scores(rng, np.full(SIZE, 0.97)), np.exp(1.5 * rng.normal(size=SIZE)))


def extreme(rng: np.random.Generator) -> Weighted:
    """A few items have nearly all of the weight, some have none."""
    weights = np.exp(2.5 * rng.normal(size=SIZE))
    weights[: SIZE // 10] = 0.0
    return Weighted(_scores(rng, np.full(SIZE, 0.5)), weights)


def adversarial(rng: np.random.Generator) -> Weighted:
    """The heavier an item the likelier it is wrong, and a history that says the opposite of the truth."""
    weights = np.exp(rng.normal(size=SIZE))
    scores = _scores(rng, 1 / (1 + weights))
    flips = rng.uniform(size=(SIZE, 4)) < 0.15
    return Weighted(scores, weights, np.where(flips, scores[:, None], 1 - scores[:, None]))


def resumed(rng: np.random.Generator) -> Weighted:
    """Mild weights; bets for a deadline of 40 calls, then the run goes on."""
    case = mild(rng)
    return Weighted(case.scores, case.weights, first_budget=40)


def _scores(rng: np.random.Generator, chance: Floats) -> Floats:
    return (rng.uniform(size=len(chance)) < chance).astype(float)


CASES: Mapping[str, Callable[[np.random.Generator], Weighted]] = {
    make.__name__: make for make in (equal, mix, mild, skewed, extreme, adversarial, resumed)
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """calls with the weights, those that were forecast, and calls without weights."""

    calls: int
    forecast: int
    without: int
    effective: float
    missed: bool
    same_draws: bool


def watch(case: Weighted, seed: int, eps: float = 0.05, confidence: float = 1 - DELTA) -> Outcome:
    """One run with the weights, looked at after every result, and one without."""
    truth = float(np.average(case.scores, weights=case.weights))
    sessions = [
        Session(
            SIZE,
            goal=Estimate(eps),
            confidence=confidence,
            weights=given,
            history=case.history,
            budget=case.first_budget,
            seed=seed,
        )
        for given in (case.weights, None)
    ]
    draws: list[list[int]] = [[], []]
    missed = False
    for number, session in enumerate(sessions):
        while not _ended(session):
            for draw in session.ask(1):
                session.tell(draw, float(case.scores[draw.item]))
                draws[number].append(draw.item)
                inside = session.interval.lower - 1e-9 <= truth <= session.interval.upper + 1e-9
                missed |= number == 0 and not inside
    missed |= sessions[0].result().stopped == "contradiction"
    variance = float(np.average((case.scores - truth) ** 2, weights=case.weights))
    shift = shift_of(case.weights, eps, 1 - confidence, min(variance, 0.25))
    same = draws[0] == draws[1]
    return Outcome(len(draws[0]), shift.calls, len(draws[1]), shift.effective, missed, same)


def _ended(session: Session) -> bool:
    """A session whose first budget is spent goes on without one, as `cereval resume` does."""
    if session.done and session.budget is not None and session.result().stopped == "budget":
        session.budget = None
        session.goal = session.goal
    return session.done


def play(job: tuple[str, int]) -> Outcome:
    name, seed = job
    return watch(CASES[name](np.random.default_rng([seed, 31])), seed)


def table(found: dict[tuple[str, int], Outcome]) -> str:
    rows = []
    for name in CASES:
        runs = [run for (one, _), run in found.items() if one == name]
        misses, bound = sum(run.missed for run in runs), most_misses(len(runs))
        means = [
            f"{np.mean([getattr(run, field) for run in runs]):.0f}"
            for field in ("effective", "calls", "forecast", "without")
        ]
        same = f"{np.mean([run.same_draws for run in runs]):.0%}"
        holds = misses <= bound and (name != "equal" or all(run.same_draws for run in runs))
        rows.append([name, len(runs), *means, same, misses, bound, "yes" if holds else "**NO**"])
    header = ["weights", "runs", "worth (Kish)", "calls", "forecast", "calls without weights"]
    return markdown([*header, "same draws", "misses", "bound", "holds"], rows)


@click.command(help=__doc__)
@click.option("--full", is_flag=True, help="200 runs of each kind instead of 20.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the table, with its command, here.")
def main(full: bool, out: Path | None) -> None:
    jobs = [(name, seed) for name in CASES for seed in range(200 if full else 20)]
    body = table(dict(zip(jobs, run_all(play, jobs, "shift"), strict=True)))
    body += (
        f"\n\n{SIZE:,} items, eps = .05. `forecast`: `uniform` with the variance known, from `stats.weights`; "
        "`adversarial` draws with a hostile history, which the forecast knows nothing of."
    )
    publish("Known weights as a target, delta = .05", "benchmarks.shift", body, out)
    if "**NO**" in body:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
