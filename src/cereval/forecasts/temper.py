"""Hold forecasts back where they would make the range of an increment longer than they are worth.

An increment reaches max g / w below its mean and max (1 - g) / w above it (`spread`). A run needs about

    4.3 variance / eps^2 + RANGE_COST (reach - FREE_REACH variance / eps)+ / eps

draws: the price of the variance, and that of a range that limits the bets. Bets near 1.4 eps / variance need a
range under variance / (1.4 eps), so that much reach is free (`stats.planning` has the same two terms for uniform
draws). One confident forecast of .9 where the mean is .1 doubles the reach for the sake of one item. So
forecasts are clipped where the variance lost costs less than the reach gained: hard for low or high means and
coarse goals, not at all for small eps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

VARIANCE_COST = 4.3
RANGE_COST = 2.0
FREE_REACH = 0.35
"""AlpacaEval, 41 models, eps .03: 202 calls without, 195, 193, 193, 199 with costs of 1, 2, 4, 8 and no free reach;
191 with a cost of 2 and .25 to .4 of it, which leaves MMLU at eps .0155 as it was."""
STEPS = np.array([1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 20.0, 40.0])
"""Candidate limits in units of the mean forecast."""


@dataclass(frozen=True, slots=True, eq=False)
class Tempered:
    """Hold forecasts inside [low, high], and the spreads about them."""

    mean: Floats
    spread: Floats
    low: float
    high: float


def temper(mean: Floats, spread: Floats, eps: float | None, shares: Floats) -> Tempered:
    """Return forecasts of the open items, clipped to where they save calls; `eps` None leaves them alone.

    >>> mean, spread = np.array([0.9] + [0.05] * 99), np.full(100, 0.1)
    >>> temper(mean, spread, 0.05, np.full(100, 0.01)).mean[:2].round(2).tolist()
    [0.07, 0.06]
    >>> temper(mean, spread, 0.001, np.full(100, 0.01)).mean[:2].round(2).tolist()
    [0.9, 0.05]
    """
    if eps is None or not shares.any():
        return Tempered(mean, spread, 0.0, 1.0)
    part = shares / shares.sum()
    # Draws in proportion to the spread have the variance (mean spread)^2.
    # Of the unseen part u the variance counts u^2 and the reach u: as if the goal were eps / u.
    eps = eps / min(float(shares.sum()), 1.0)
    free = FREE_REACH * float(part @ spread) ** 2 / eps
    low, high = 1.0 - _limit(1.0 - mean, eps, free, part), _limit(mean, eps, free, part)
    held = np.clip(mean, low, high)
    wider = np.sqrt(spread**2 + (mean - held) ** 2)
    # Continuous in `held`: whether a forecast lies just on a limit is left to rounding.
    return Tempered(held, np.minimum(wider, np.maximum(spread, 0.5)), low, high)


def _limit(reach: Floats, eps: float, free: float, part: Floats) -> float:
    """Return the cheapest limit of the reach on one side; never under the mean, so that the two sides cannot
    cross."""
    largest = float(reach[part > 0].max())
    limits = np.minimum(np.append(STEPS * float(part @ reach), largest), largest)
    lost = np.array([part @ np.maximum(reach - limit, 0.0) ** 2 for limit in limits])
    cost = VARIANCE_COST * lost / eps**2 + RANGE_COST * np.maximum(limits - free, 0.0) / eps
    return float(limits[int(np.argmin(cost))])
