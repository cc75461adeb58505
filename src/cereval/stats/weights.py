"""What known weights do to a pool: how many items it is worth, and how many calls its weighted mean takes.

Kish (1965): with shares pi (sum 1) a pool is worth 1 / sum pi^2 equally weighted items. As a sample of the target
that the weights describe it knows the target's mean as well as so many independent draws would.

Calls. Draws in proportion to pi have increments of variance v u^2, with u the share that is still unseen: weights
cost no variance. In the exponential race (`methods.uniform`) item i is unseen at time T with chance exp(-pi_i T), so
u(T) = sum pi exp(-pi T), calls(T) = sum (1 - exp(-pi T)), and the information of independent draws gathered by T is
the integral of 1/u. For equal shares that is n0 / (1 + n0/N) calls for a need of n0, as in `planning`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cereval.arrays import Floats
from cereval.stats.planning import Scenario, deadline_draws
from cereval.stats.rounding import upper_quantile

STEPS = 400  # Steps of the integral of 1/u
MOST_CLASSES = 1000  # More different weights than this are put into classes of about the same weight
FEW = 0.1
"""A pool worth less than this share of its size, or an item heavier than the half-width wanted, is extreme."""


def effective_size(shares: Floats) -> float:
    part = shares / shares.sum()
    return float(1.0 / (part @ part))


def weighted_calls(shares: Floats, independent: float) -> int:
    """Calls for the information of `independent` draws, drawn without replacement in proportion to the shares."""
    part, counts = _classes(shares[shares > 0] / shares.sum())
    # The race goes on until the integral of 1/u has reached the need; u <= 1, so that time is at most the need.
    times = independent * np.linspace(0.0, 1.0, STEPS + 1) ** 2
    unseen = np.array([counts * part @ np.exp(-part * time) for time in times])
    rates = 1.0 / np.maximum(unseen, 1e-12)
    known = np.append(0.0, np.cumsum(np.diff(times) * (rates[1:] + rates[:-1]) / 2))
    reached = float(np.interp(independent, known, times))
    calls = float(counts @ -np.expm1(-part * reached))
    return max(1, math.ceil(calls - 1e-2))


def _classes(part: Floats) -> tuple[Floats, Floats]:
    values, counts = np.unique(part, return_counts=True)
    if len(values) <= MOST_CLASSES:
        return values, counts.astype(np.float64)
    edges = np.geomspace(values[0], values[-1], MOST_CLASSES + 1)
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, MOST_CLASSES - 1)
    sizes = np.bincount(place, counts, MOST_CLASSES)
    sums = np.bincount(place, counts * values, MOST_CLASSES)
    used = sizes > 0
    return sums[used] / sizes[used], np.asarray(sizes[used], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Shift:
    """What weights mean for a goal: `calls` with them and `calls_without`, both as forecast for `uniform`.

    sample_radius: how well the pool, every item asked, would know the mean of the population that the weights
    describe (normal theory); needed: how many items of this pool's kind that takes to be as small as eps.
    """

    size: int
    effective: float
    largest: float
    eps: float
    calls: int
    calls_without: int
    sample_radius: float
    needed: int

    @property
    def extreme(self) -> bool:
        return self.effective < FEW * self.size or self.largest > self.eps

    @property
    def note(self) -> str:
        return (
            f"weights: the {self.size:,} items are worth {self.effective:,.0f} equally weighted ones (Kish)"
        )

    @property
    def warning(self) -> str | None:
        """The price in words, where the weights are extreme for this pool."""
        if not self.extreme:
            return None
        return (
            f"the weights are extreme for this pool: the heaviest item has {self.largest:.1%} of them. The weighted "
            f"mean of these items takes about {self.calls:,} calls (about {self.calls_without:,} without weights); "
            f"but as a sample of the target they leave ±{self.sample_radius:.1%} even if all are asked: "
            f"±{self.eps:.2g} there would take about {self.needed:,} items like these"
        )


def shift_of(shares: Floats, eps: float, delta: float, variance: float = 0.25) -> Shift:
    scenario = Scenario(len(shares), variance=variance)
    independent = deadline_draws(variance, scenario.skew, eps, delta)
    effective, quantile = effective_size(shares), upper_quantile(delta / 2)
    return Shift(
        size=len(shares),
        effective=effective,
        largest=float(shares.max() / shares.sum()),
        eps=eps,
        calls=weighted_calls(shares, independent),
        calls_without=scenario.calls(independent) or len(shares),
        sample_radius=quantile * math.sqrt(variance / effective),
        needed=math.ceil(variance * (quantile / eps) ** 2 * len(shares) / effective),
    )
