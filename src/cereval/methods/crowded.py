"""Draw for large pools: `active`, where items that are alike share one forecast and one draw weight."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cereval.items.cells import cells_of
from cereval.methods.active import Active, predictor_for
from cereval.methods.base import Setting
from cereval.methods.certified import Tuning
from cereval.records import Draw
from cereval.stats.crowds import CrowdTally, Masses
from cereval.stats.increments import Outlook, Tally

Floats = NDArray[np.float64]


class Crowded(Active):
    """Forecast cells instead of items; everything else is as in `active`.

    Theorem: that of `stats.crowds`. The cells are made from what is known before the first answer, forecasts and draw
    weights of cells from the results of earlier draws: functions of the past, so that the interval holds at every
    moment, however coarse the cells are. A draw costs O(log cells), a refit O(cells), opening O(items).
    """

    name: ClassVar[str] = "active"

    def __init__(self, setting: Setting, tuning: Tuning | None = None) -> None:
        self._cells = cells_of(setting.pool)
        shares = None if setting.pool.weights is None else setting.pool.weights
        self._urn = Urn(
            self._cells.of_item, self._cells.counts, self._cells.masses, shares, setting.pool.size
        )
        super().__init__(setting, tuning, predictor_for(self._cells.pool))

    def _new_tally(self) -> Tally:
        pool, cells = self.setting.pool, self._cells
        # One number, shown as many: ten million equal shares need no memory.
        equal = np.broadcast_to(np.float64(1.0 / pool.size), pool.size)
        return CrowdTally(
            cells.of_item,
            equal if pool.weights is None else pool.weights,
            cells.counts,
            cells.masses,
            replacement=self.setting.target != "benchmark",
        )

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _left_to_draw(self) -> Floats:
        return self._urn.masses.left

    def _sample(self, weights: Floats, size: int) -> tuple[NDArray[np.int64], Floats]:
        left = self._urn.masses.left
        rates = np.divide(weights, left, out=np.zeros(len(left)), where=left > 0)
        return self._urn.draw(self._rng, rates, size, replacement=self.tally.replacement)

    # -- consuming ----------------------------------------------------------------------------------------------------

    def look(self, outlook: Outlook) -> None:
        # All draws before the block are in: what they left is what the block's weights were made for.
        left = self.tally.left_shares
        rates = np.divide(outlook.weights, left, out=np.zeros(len(left)), where=left > 0)
        super().look(replace(outlook, weights=rates))

    def _lesson(self, draw: Draw) -> tuple[int, float]:
        # The shares of a cell's items differ, those of its predictor are equal: the chance makes up for it.
        _, relative = super()._lesson(draw)
        relative_share = self.tally.share(draw.item) * self.setting.pool.size
        return int(self._cells.of_item[draw.item]), relative / relative_share

    def _importance(self, items: NDArray[np.int64]) -> Floats:
        return np.ones(len(items))


class Urn:
    """Hold the undrawn items, cell by cell: one is drawn in a few steps, however many there are.

    >>> urn = Urn(np.array([0, 1, 0]), np.array([2, 1]), np.array([2 / 3, 1 / 3]), None, 3)
    >>> items, chances = urn.draw(np.random.default_rng(0), np.array([1.0, 0.0]), 3)
    >>> sorted(items.tolist()), chances.round(3).tolist()
    ([0, 2], [0.5, 1.0])
    """

    def __init__(
        self,
        of_item: NDArray[np.integer],
        counts: NDArray[np.int64],
        masses: Floats,
        shares: Floats | None,
        size: int,
    ) -> None:
        self.masses = Masses(counts, masses)
        self._shares, self._equal = shares, 1.0 / size
        # Stable, for the same order on every machine; of two-byte numbers it takes time in proportion to the items.
        order = np.argsort(of_item, kind="stable").astype(np.int32 if size < 2**31 else np.int64)
        self._order = order if shares is None else order[shares[order] > 0]
        self._starts = np.cumsum(counts) - counts
        self._largest = self._largest_shares()

    def _largest_shares(self) -> Floats | None:
        """Return the largest share of an item of each cell, where they differ."""
        if self._shares is None:
            return None
        largest = np.zeros(len(self._starts))
        filled = self.masses.counts > 0
        largest[filled] = np.maximum.reduceat(self._shares[self._order], self._starts[filled])
        return largest

    def draw(
        self, rng: np.random.Generator, rates: Floats, size: int, *, replacement: bool = False
    ) -> tuple[NDArray[np.int64], Floats]:
        """Draw up to `size` items, each with chance pi_i w_c / W; taken out unless with `replacement`.

        A cell is chosen with its weight at the last count and kept with the part that it has left of that: exact,
        and seldom in vain, because the weights are counted anew once half of them are gone.
        """
        items: list[int] = []
        chances: list[float] = []
        race = counted = 0.0
        before = ends = np.empty(0)
        while len(items) < size:
            if race <= counted / 2:
                before = self.masses.left * rates
                ends = np.cumsum(before)
                race = counted = float(ends[-1])
                if counted <= 0.0:
                    break
            cell = int(np.searchsorted(ends, rng.random() * ends[-1], side="right"))
            if cell == len(ends) or rng.random() * before[cell] >= self.masses.of(cell) * rates[cell]:
                continue
            item, share = self._one_of(rng, cell, replacement)
            items.append(item)
            chances.append(min(share * float(rates[cell]) / race, 1.0))
            if not replacement:
                self.masses.take(cell, share)
                race -= share * float(rates[cell])
        return np.array(items, dtype=np.int64), np.array(chances)

    def _one_of(self, rng: np.random.Generator, cell: int, replacement: bool) -> tuple[int, float]:
        """Draw one of a cell's items by share, and put the last undrawn one in its place (Fisher and Yates)."""
        start, left = int(self._starts[cell]), int(self.masses.counts[cell])
        while True:
            place = start + int(rng.integers(left))
            item = int(self._order[place])
            share = self._equal if self._shares is None else float(self._shares[item])
            if self._largest is None or rng.random() * self._largest[cell] < share:
                break
        if not replacement:
            self._order[place], self._order[start + left - 1] = self._order[start + left - 1], item
        return item, share
