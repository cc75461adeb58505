"""Draw items in random order, each with a chance in proportion to its weight in the target: `uniform`."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cereval.methods.base import Setting
from cereval.methods.certified import LADDER, CertifiedMethod, Sides, Tuning
from cereval.records import Draw

CHUNK = 1024

EARLY = replace(LADDER, share=0.095, cap=0.97, parts=(1.4, 2.0, 1.25, 1.5, 0.3, 0.2))
"""Most of the ladder on the first 200 draws, where nothing else makes the interval decent."""

SPREAD = Sides(share=0.5, gaps=(0.005, 0.01, 0.02, 0.04, 0.08))
"""More on stated distances than with forecasts, which saves 2 to 7% of the calls, but not at gaps over .2."""

COUNTING = Tuning(
    margin=0.012,
    rescue=0.01,
    finest=100,
    patience=0.006,
    overshoot=0.015,
    far=0.7,
    counts=True,
    graded_patience=0.015,
    graded_margin=0.02,
    ladder=EARLY,
    sides=SPREAD,
)
"""0/1 scores state their variance themselves, which makes near horizons safe; graded scores do not, and need a farther
one: at the margin of counts one or two runs in a hundred took twice the calls."""


class Uniform(CertifiedMethod):
    """Use no side information: the constant forecast, which cancels out of the increments.

    Without replacement (`benchmark`) and for the paper's `population` the order is one weighted random
    permutation (successive sampling); for `expected` every draw is fresh, and an item may come again.
    """

    name: ClassVar[str] = "uniform"
    default_tuning: ClassVar[Tuning] = COUNTING

    def __init__(self, setting: Setting, tuning: Tuning | None = None) -> None:
        super().__init__(setting, tuning)
        self._rng = np.random.default_rng([setting.seed, 1])
        self._drawn = 0
        self._order, self._chances = self._first_chunk()

    def next_draw(self) -> Draw | None:
        if self._drawn == len(self._order):
            if self.setting.target != "expected":
                return None
            self._extend()
        index = self._drawn
        self._drawn += 1
        return Draw(index, int(self._order[index]), float(self._chances[index]))

    def _first_chunk(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        if self.setting.target == "expected":
            return self._fresh()
        weights = self.setting.pool.weights
        if weights is None:
            size = self.setting.pool.size
            return self._rng.permutation(size), 1.0 / np.arange(size, 0, -1)
        return successive_sample(self._rng, weights, int(np.count_nonzero(weights)))

    def _fresh(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        shares = self.setting.pool.shares()
        ends = np.cumsum(shares)
        points = self._rng.uniform(size=CHUNK) * ends[-1]
        items = np.minimum(np.searchsorted(ends, points, side="right"), len(shares) - 1)
        return items.astype(np.int64), shares[items]

    def _extend(self) -> None:
        items, chances = self._fresh()
        self._order = np.concatenate((self._order, items))
        self._chances = np.concatenate((self._chances, chances))


class Hedged(Uniform):
    """Draw as `uniform` does with the bets of Waudby-Smith and Ramdas: a baseline for benchmarks."""

    name: ClassVar[str] = "hedged"
    hedged: ClassVar[bool] = True


def successive_sample(
    rng: np.random.Generator, weights: NDArray[np.float64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the first `count` items drawn one after the other, each with chance w / (sum of the w left).

    The exponential race: give item i the arrival time E_i / w_i with E_i standard exponential; the next to
    arrive among those left is i with chance w_i / sum w, by the memoryless property (Rosen 1997). One partial sort.

    >>> items, chances = successive_sample(np.random.default_rng(0), np.array([0.2, 0.0, 0.8]), 2)
    >>> sorted(items.tolist()), float(chances[-1])
    ([0, 2], 1.0)
    """
    positive = np.flatnonzero(weights > 0)
    arrivals = rng.standard_exponential(len(positive)) / weights[positive]
    count = min(count, len(positive))
    first = (
        np.argpartition(arrivals, count - 1)[:count] if count < len(positive) else np.arange(len(positive))
    )
    first = first[np.argsort(arrivals[first], kind="stable")]
    items = positive[first]
    chosen = weights[items]
    rest = float(np.delete(weights[positive], first).sum())
    left = np.cumsum(chosen[::-1])[::-1] + rest
    return items.astype(np.int64), np.minimum(chosen / left, 1.0)
