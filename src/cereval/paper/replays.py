"""Replay recorded scores through any method of the figures: the items that it needs for every eps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cereval.forecasts.pool import Pool
from cereval.methods.base import Aim, Method, Setting
from cereval.paper.methods import CerEval, Oracle, Seq, Static

Floats = NDArray[np.float64]

PRINTED: dict[str, Callable[..., Method]] = {cls.name: cls for cls in (Static, Seq, CerEval, Oracle)}
"""The paper's methods. Their draws do not depend on eps, which is why one run serves all eps."""
ROUNDING = 1e-9
"""A full pass is exact up to the rounding of a sum, and so is the truth."""


def misses(lower: float, upper: float, truth: float) -> bool:
    """Whether an interval misses the truth by more than rounding."""
    return not lower - ROUNDING <= truth <= upper + ROUNDING


@dataclass(frozen=True, slots=True)
class Reached:
    """Where a run stops for one eps: the items it took, whether its interval then misses the mean, and the distance of
    its estimate from it.
    """

    eps: float
    items: int
    missed: bool
    error: float


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Estimate, radius and interval after each result of one run, and the mean they are about."""

    estimate: Floats
    radius: Floats
    lower: Floats
    upper: Floats
    truth: float

    def reach(self, eps: float) -> Reached:
        """Find the first n with radius <= eps, or take the whole pool.

        >>> estimate, radius = np.array([0.5, 0.75]), np.array([1.0, 0.125])
        >>> Trace(estimate, radius, estimate - radius, estimate + radius, truth=0.5).reach(0.2)
        Reached(eps=0.2, items=2, missed=True, error=0.25)
        """
        inside = self.radius <= eps
        last = int(np.argmax(inside)) if inside.any() else len(inside) - 1
        missed = misses(float(self.lower[last]), float(self.upper[last]), self.truth)
        return Reached(eps, last + 1, missed, abs(float(self.estimate[last]) - self.truth))


def trace(method: Method, scores: Floats, *, until: float = 0.0) -> Trace:
    """Play recorded scores to a method until its radius is at most `until` or no item is left."""
    path: list[tuple[float, float, float, float]] = []
    while (draw := method.next_draw()) is not None:
        score = float(scores[draw.item])
        method.observe(draw, score, score)
        interval = method.interval
        path.append((method.estimate, method.radius, interval.lower, interval.upper))
        if path[-1][1] <= until:
            break
    estimate, radius, lower, upper = np.array(path).T
    return Trace(estimate, radius, lower, upper, float(scores.mean()))


def reaches(method: str, scores: Floats, eps: Sequence[float], *, seed: int, **side: Any) -> list[Reached]:
    """Run any method of the figures, by its name there: `cer-eval clamped`, `active + history`."""
    name = method.split(" + ")[0]
    if name == "cer-eval clamped":
        return printed_reaches("cer-eval", scores, eps, seed=seed, clamp=True, **side)
    run = printed_reaches if name in PRINTED else certified_reaches
    return run(name, scores, eps, seed=seed, **side)


def printed_reaches(
    name: str,
    scores: Floats,
    eps: Sequence[float],
    *,
    seed: int,
    embeddings: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    delta: float = 0.05,
    **parameters: Any,
) -> list[Reached]:
    """Run one of the paper's methods on recorded scores, for every eps at once.

    >>> [r.items for r in printed_reaches("seq", np.ones(5000), [0.1, 0.05], seed=0)]
    [915, 3799]
    """
    pool = Pool.build(len(scores), embeddings=embeddings, groups=groups)
    method = PRINTED[name](Setting(pool, "benchmark", delta, seed, Aim()), **parameters)
    path = trace(method, scores, until=min(eps))
    return [path.reach(value) for value in eps]


def certified_reaches(
    name: str,
    scores: Floats,
    eps: Sequence[float],
    *,
    seed: int,
    delta: float = 0.05,
    training_fraction: float | None = None,
    **side: Any,
) -> list[Reached]:
    """Run `cereval.replay` once for each eps: certified methods bet towards their eps."""
    from cereval.questions.mean.goal import Estimate
    from cereval.questions.replay import replay_mean

    options = {} if training_fraction is None else {"training_fraction": training_fraction}
    plan = {"confidence": 1 - delta, "method": name, "seed": seed, "options": options, **side}
    truth, reached = float(scores.mean()), []
    for value in eps:
        result = replay_mean(scores, goal=Estimate(eps=value), **plan)
        missed = misses(result.lower, result.upper, truth)
        reached.append(Reached(value, result.n_evaluated, missed, abs(result.estimate - truth)))
    return reached
