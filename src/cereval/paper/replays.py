"""Replay recorded scores through any method of the figures: the items that it needs for every eps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cereval.forecasts.pool import Pool
from cereval.methods.base import Aim, Method, Setting
from cereval.paper.methods import CerEval, Oracle, Seq, Static
from cereval.records import Interval

Floats = NDArray[np.float64]

PRINTED: dict[str, Callable[..., Method]] = {cls.name: cls for cls in (Static, Seq, CerEval, Oracle)}
"""The paper's methods. Their draws do not depend on eps, which is why one run serves all eps."""
ROUNDING = 1e-9  # A full pass is exact up to the rounding of a sum, and so is the truth


def misses(lower: float, upper: float, truth: float) -> bool:
    """Whether an interval misses the truth by more than rounding."""
    return not lower - ROUNDING <= truth <= upper + ROUNDING


class Reached(NamedTuple):
    """Where a run stops for one eps: the items it took, the share it saved, whether its interval then misses the mean,
    and the distance of its estimate from it.
    """

    eps: float
    items: int
    saved: float
    missed: bool
    error: float

    @classmethod
    def of(cls, eps: float, items: int, interval: Interval, estimate: float, scores: Floats) -> Reached:
        truth = float(scores.mean())
        missed = misses(interval.lower, interval.upper, truth)
        return cls(eps, items, 1 - items / len(scores), missed, abs(estimate - truth))


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
    radii: list[float] = []
    states: list[tuple[Interval, float]] = []
    while (not radii or radii[-1] > min(eps)) and (draw := method.next_draw()) is not None:
        score = float(scores[draw.item])
        method.observe(draw, score, score)
        radii.append(method.radius)
        states.append((method.interval, method.estimate))
    # The first n whose radius is at most eps, or the whole pool.
    lasts = [next((n for n, radius in enumerate(radii) if radius <= one), len(radii) - 1) for one in eps]
    return [Reached.of(one, n + 1, *states[n], scores) for one, n in zip(eps, lasts, strict=True)]


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
    from cereval.questions.replay import replay

    options = {} if training_fraction is None else {"training_fraction": training_fraction}
    plan = {"confidence": 1 - delta, "method": name, "seed": seed, "options": options, **side}
    results = [(one, replay(scores, goal=Estimate(eps=one), **plan)) for one in eps]
    return [
        Reached.of(one, result.n_evaluated, Interval(result.lower, result.upper), result.estimate, scores)
        for one, result in results
    ]
