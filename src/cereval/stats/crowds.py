"""Running sums where many items share one forecast: a draw costs O(1), a new outlook O(cells), nothing O(items).

Let the unseen items be divided into cells, with one forecast g_c and one weight w_c for each unit of share in cell c,
functions of the past alone. Draw item i of cell c with the chance

    q_i = pi_i w_c / W,    W = sum_c m_c w_c,    m_c = sum of pi over the unseen items of cell c

(a cell with chance m_c w_c / W, then one of its unseen items with chance pi_i / m_c). That is a case of
`stats.increments`, so E[X | past] = R exactly, and every sum and maximum there is one over cells:

    sum_U pi g = sum_c m_c g_c         pi_i / q_i = W / w_c
    range of X: W max_c g_c / w_c below, W max_c (1 - g_c) / w_c above       variance: W sum_c m_c s_c^2 / w_c
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cereval.stats.increments import STALE, Floats, Increment, Outlook, Tally
from cereval.stats.rounding import range_slack, sum_slack


class CrowdTally(Tally):
    """Running sums over cells of items. `of_item`: the cell of each; `counts`, `masses`: of the items that can be
    drawn. An outlook has one entry for each cell, its weights for each unit of share.

    >>> tally = CrowdTally(np.array([0, 0, 1, 1]), np.full(4, 0.25), np.array([2, 2]), np.array([0.5, 0.5]))
    >>> tally.settle(item=2, low=1.0, high=1.0), tally.settle(item=0, low=0.0, high=0.0)
    (Increment(low=1.0, high=1.0), Increment(low=0.25, high=0.25))
    >>> tally.left_shares.tolist()
    [0.25, 0.25]
    """

    def __init__(
        self,
        of_item: NDArray[np.integer],
        shares: Floats,
        counts: NDArray[np.int64],
        masses: Floats,
        *,
        replacement: bool = False,
    ) -> None:
        self.shares, self.replacement = shares, replacement
        self.of_item = of_item
        self.drawable = int(counts.sum())
        self.slack = sum_slack(len(shares))
        self._widening = 1 + range_slack(len(shares), STALE)
        self.seen_low = self.seen_high = 0.0
        self._masses = Masses(counts, masses)
        constant = np.full(len(masses), 0.5)
        self.look(Outlook(mean=constant, spread=constant, weights=np.ones(len(masses))))

    def look(self, outlook: Outlook) -> None:
        self.outlook = outlook
        left = (self._masses.counts > 0) & (outlook.weights > 0)
        mass, weight, mean = self._masses.left[left], outlook.weights[left], outlook.mean[left]
        self._unseen = float(mass.sum())
        self._expected = float(mass @ mean)
        self._race = float(mass @ weight)
        self._stale = STALE * self._race
        self._energy = float((mass / weight) @ outlook.spread[left] ** 2)
        # The maxima are those at this moment: cells only empty, so they bound all later ones.
        self._reach_down = float((mean / weight).max(initial=0.0))
        self._reach_up = float(((1 - mean) / weight).max(initial=0.0))

    def settle(self, item: int, low: float, high: float) -> Increment:
        cell = int(self.of_item[item])
        mean, weight = float(self.outlook.mean[cell]), float(self.outlook.weights[cell])
        factor = self._race / weight
        increment = Increment(
            low=self.seen_low + self._expected + (low - mean) * factor,
            high=self.seen_high + self._expected + (high - mean) * factor,
        )
        if not self.replacement:
            self._take_out(cell, self.share(item), low, high)
        return increment

    def _take_out(self, cell: int, share: float, low: float, high: float) -> None:
        mean, weight = float(self.outlook.mean[cell]), float(self.outlook.weights[cell])
        self._masses.take(cell, share)
        self.seen_low += share * low
        self.seen_high += share * high
        self._unseen -= share
        self._expected -= share * mean
        self._race -= share * weight
        self._energy -= share / weight * float(self.outlook.spread[cell]) ** 2
        if self._race < self._stale:
            self.look(self.outlook)

    @property
    def left_shares(self) -> Floats:
        return self._masses.left

    @property
    def item_weights(self) -> Floats:
        return np.asarray(self.outlook.weights[self.of_item] * self.shares)


class Masses:
    """The share that each cell has left. What a subtraction rounds off is kept beside it (Neumaier 1974): a cell that
    is nearly empty has lost no digits.

    >>> masses = Masses(np.array([2, 1]), np.array([1.0, 0.5]))
    >>> masses.take(0, 1 / 3)
    >>> masses.take(1, 0.5)
    >>> masses.left.round(3).tolist(), masses.counts.tolist()
    ([0.667, 0.0], [1, 0])
    """

    def __init__(self, counts: NDArray[np.int64], masses: Floats) -> None:
        self.counts, self._sums, self._lost = counts.copy(), masses.astype(np.float64), np.zeros(len(masses))

    def take(self, cell: int, share: float) -> None:
        """Take one item out of a cell."""
        self.counts[cell] -= 1
        before = float(self._sums[cell])
        after = before - share
        larger, smaller = (before, -share) if before >= share else (-share, before)
        self._lost[cell] += (larger - after) + smaller
        self._sums[cell] = after

    @property
    def left(self) -> Floats:
        return np.where(self.counts > 0, np.maximum(self._sums + self._lost, 0.0), 0.0)

    def of(self, cell: int) -> float:
        """One cell's share."""
        return max(float(self._sums[cell] + self._lost[cell]), 0.0) if self.counts[cell] else 0.0
