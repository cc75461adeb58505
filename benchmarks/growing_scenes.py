"""Data sets that grow, for measurements of coverage and calls, and one run watched at every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cereval.questions.growing.session import Growing
from cereval.questions.mean.goal import Estimate

Floats = NDArray[np.float64]
SLACK = 1e-9

Newcomers = Callable[[np.random.Generator, int, Growing, Floats], Floats]
"""The scores of the items that a version adds, by somebody who sees the session and all earlier scores."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Calls of each version; missed: some interval shown on the way did not hold its version's mean."""

    calls: tuple[int, ...]
    missed: bool
    widest: float


def run_grown(
    parts: Sequence[int],
    eps: float,
    seed: int,
    newcomers: Newcomers,
    *,
    source: float | None = None,
    confidence: float = 0.95,
) -> Outcome:
    """One run: `parts` items arrive with each version. source: the population's mean, where that is the target."""
    rng = np.random.default_rng([seed, 41])
    target = "benchmark" if source is None else "population"
    session = Growing(parts[0], goal=Estimate(eps), confidence=confidence, target=target, seed=seed)
    scores = newcomers(rng, parts[0], session, np.empty(0))
    missed = False
    for number, part in enumerate(parts):
        if number:
            scores = np.concatenate((scores, newcomers(rng, part, session, scores)))
            session.extend(part)
        truth = float(scores.mean()) if source is None else source
        missed |= _outside(session, truth)
        while not session.done:
            for draw in session.ask(1):
                session.tell(draw, float(scores[draw.item]))
            missed |= _outside(session, truth)
        if session.result().stopped == "contradiction":
            return Outcome(tuple(version.calls for version in session.versions), True, 1.0)
    widths = [version.half_width for version in session.versions if version.stopped == "goal"]
    return Outcome(tuple(version.calls for version in session.versions), missed, max(widths, default=1.0))


def _outside(session: Growing, truth: float) -> bool:
    interval = session.interval
    return not interval.lower - SLACK <= truth <= interval.upper + SLACK


def bernoulli(
    rng: np.random.Generator, size: int, session: Growing, scores: Floats, *, mean: float = 0.5
) -> Floats:
    """New items like the old: right with the same chance."""
    del session, scores
    return (rng.uniform(size=size) < mean).astype(np.float64)


def graded(rng: np.random.Generator, size: int, session: Growing, scores: Floats) -> Floats:
    """Graded scores, skewed to the top."""
    del session, scores
    return rng.beta(4, 1, size)


def harder(rng: np.random.Generator, size: int, session: Growing, scores: Floats) -> Floats:
    """Every version is harder than the one before: half of what was right turns wrong."""
    del session
    chance = 0.8 if not len(scores) else 0.5 * float(scores[-50:].mean())
    return (rng.uniform(size=size) < chance).astype(np.float64)


def against_luck(rng: np.random.Generator, size: int, session: Growing, scores: Floats) -> Floats:
    """An enemy who knows all: where the estimate was too high so far all new items are wrong, else all right."""
    if not len(scores):
        return (rng.uniform(size=size) < 0.5).astype(np.float64)
    lucky = session.estimate > float(scores.mean())
    return np.full(size, 0.0 if lucky else 1.0)


def with_luck(rng: np.random.Generator, size: int, session: Growing, scores: Floats) -> Floats:
    """The opposite enemy, who pushes on in the direction of the error."""
    if not len(scores):
        return (rng.uniform(size=size) < 0.5).astype(np.float64)
    return 1.0 - against_luck(rng, size, session, scores)


def near_the_edge(rng: np.random.Generator, size: int, session: Growing, scores: Floats) -> Floats:
    """An enemy whose new items have the mean at which the error so far would be carried over whole."""
    if not len(scores):
        return (rng.uniform(size=size) < 0.5).astype(np.float64)
    interval, truth = session.interval, float(scores.mean())
    low = truth - interval.lower < interval.upper - truth
    mean = min(max(truth + (-0.1 if low else 0.1), 0.0), 1.0)
    return (rng.uniform(size=size) < mean).astype(np.float64)


ENEMIES: Mapping[str, Newcomers] = {
    "like the old, mean .5": bernoulli,
    "like the old, mean .05": partial(bernoulli, mean=0.05),
    "graded, skewed": graded,
    "harder every time": harder,
    "against the luck so far": against_luck,
    "with the luck so far": with_luck,
    "near the edge": near_the_edge,
}
