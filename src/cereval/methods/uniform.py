"""Draw items in random order, each with a chance in proportion to its weight in the target: `uniform`."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from cereval.methods.base import NO_DRAWS, Draws, Setting
from cereval.methods.certified import LADDER, CertifiedMethod, Sides, Tuning
from cereval.methods.drawing import (
    draw_order,
    draw_with_replacement,
    draw_without_replacement,
    logged_chances,
)
from cereval.randomness import generator
from cereval.records import Draw

CHUNK = 1024  # Draws with replacement that are made at a time

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

    def decide_draws(self) -> Draws:
        pool, start, seed = self.setting.pool, len(self._items), self.setting.seed
        if self.setting.target == "expected":
            rng, log = (
                generator("uniform draws", seed, *([start] if start else [])),
                self.log[start : start + CHUNK],
            )
            return draw_with_replacement(rng, pool.shares(), CHUNK, log, check=self.check)
        if start:
            return NO_DRAWS
        rng = generator("uniform draws", seed)
        if pool.weights is not None:
            count = int(np.count_nonzero(pool.weights))
            return draw_without_replacement(rng, pool.weights, count, self.log, check=self.check)
        order = draw_order(rng, pool.size, self.log, check=self.check)
        return order, logged_chances(1.0 / np.arange(pool.size, 0, -1), self.log)

    @property
    def _best_estimate(self) -> float:
        """The plain mean of the scores where all items were equally likely; what failed counts as 1/2."""
        if self.setting.pool.weights is not None or self.tally.replacement or not self.consumed:
            return super()._best_estimate
        return (self.tally.seen_low + self.tally.seen_high) / 2 * self.setting.pool.size / self.consumed


class Hedged(Uniform):
    """Draw as `uniform` does with the bets of Waudby-Smith and Ramdas: a baseline for benchmarks."""

    name: ClassVar[str] = "hedged"
    hedged: ClassVar[bool] = True


class Whole(Uniform):
    """Ask every item, and stop nowhere before.

    Theorem. For `benchmark` there is nothing to bet on: after the last answer the interval is the mean itself, wide
    only where calls failed, and it is right with certainty. For `population` the items are a sample, in random order;
    the bets are those of `uniform`, with all of the sample as their horizon, so that the interval holds the mean over
    the population with probability at least 1 - delta. Assumption there: the items were drawn independently of one
    another from it; where several belong together, draw clusters (`cluster`), and each counts once.
    """

    name: ClassVar[str] = "all"
    asks_all: ClassVar[bool] = True

    def __init__(self, setting: Setting, tuning: Tuning | None = None) -> None:
        super().__init__(setting, tuning)
        self.bets = setting.target != "benchmark"

    def _play(self, draw: Draw, low: float, high: float) -> None:
        (super()._play if self.bets else self._book)(draw, low, high)
