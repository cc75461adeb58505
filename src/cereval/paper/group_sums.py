"""Keep running sums of a partition's groups and the radius that Algorithm 2 prints for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cereval.forecasts.partition import Grouping
from cereval.records import Interval
from cereval.stats.concentration import group_radius, group_slope, worst_variance

Floats = NDArray[np.float64]


@dataclass(slots=True, eq=False)
class GroupSums:
    """Keep what lines 5 to 12 of Algorithm 2 need of each group: sizes, evaluated, failed, sums of losses.

    `k` is the K of the union bound ln(16 K/delta).
    """

    sizes: Floats
    seen: Floats
    unknown: Floats
    total: Floats
    squares: Floats
    delta: float
    k: int

    @classmethod
    def empty(cls, labels: NDArray[np.int64], delta: float) -> GroupSums:
        """Return the sums of a partition of which nothing has been evaluated."""
        sizes = np.bincount(labels).astype(np.float64)
        seen, unknown, total, squares = np.zeros((4, len(sizes)))
        return cls(sizes, seen, unknown, total, squares, delta, len(sizes))

    @classmethod
    def of(cls, grouping: Grouping, delta: float) -> GroupSums:
        return cls(
            grouping.sizes,
            grouping.seen,
            grouping.unknown,
            grouping.total,
            grouping.squares,
            delta,
            grouping.k,
        )

    def add(self, group: int, loss: float | None) -> None:
        """Add one more evaluated item of this group; None when its call failed."""
        self.seen[group] += 1
        if loss is None:
            self.unknown[group] += 1
        else:
            self.total[group] += loss
            self.squares[group] += loss**2

    @property
    def variances(self) -> Floats:
        return worst_variance(self.seen, self.total, self.squares, self.unknown)

    def radius(self) -> float:
        """Return sum_j N_j eps_j/N."""
        radii = group_radius(self.seen, self.variances, self.k, self.delta)
        return float(self.sizes @ radii / self.sizes.sum())

    def means(self) -> Interval:
        """Return the mean *score* with failed calls as 0 and as 1; an empty group has the overall mean."""
        low = 1.0 - self._mean_loss(self.total + self.unknown)
        return Interval(low, max(1.0 - self._mean_loss(self.total), low))

    def neediest(self) -> int:
        """Return the group with items left whose weighted radius falls fastest per further item."""
        slope = group_slope(self.seen, self.variances, self.k, self.delta)
        unfinished = np.flatnonzero(self.seen < self.sizes)
        need = self.sizes[unfinished] * slope[unfinished]
        largest = need[np.isfinite(need)].max(initial=1e-300)
        # Rounded, so that of two groups with equal needs the first is taken on every machine.
        return int(unfinished[np.argmax(np.round(need / largest, 9))])

    def _mean_loss(self, losses: Floats) -> float:
        overall = losses.sum() / max(self.seen.sum(), 1.0)
        means = np.where(self.seen > 0, losses / np.maximum(self.seen, 1.0), overall)
        return float(self.sizes @ means / self.sizes.sum())
