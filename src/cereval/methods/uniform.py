"""Draw items in random order, each with a chance in proportion to its weight in the target: `uniform`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from cereval.methods.base import Setting
from cereval.methods.certified import LADDER, CertifiedMethod, Sides, Tuning
from cereval.methods.drawing import (
    Floats,
    Items,
    draw_order,
    draw_with_replacement,
    draw_without_replacement,
    logged_chances,
)
from cereval.randomness import generator
from cereval.records import Draw

CHUNK = 1024
"""Draws with replacement that are made at a time."""

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
        self._drawn = 0
        self._items, self._chances = self._draw()

    def follow(self, log: Sequence[Draw], *, check: bool = False) -> None:
        super().follow(log, check=check)
        self._items, self._chances = self._draw()

    def next_draw(self) -> Draw | None:
        if self._drawn == len(self._items):
            if self.setting.target != "expected":
                return None
            items, chances = self._draw_chunk(len(self._items))
            self._items = np.concatenate((self._items, items))
            self._chances = np.concatenate((self._chances, chances))
        index, self._drawn = self._drawn, self._drawn + 1
        return Draw(index, int(self._items[index]), float(self._chances[index]))

    def _draw(self) -> tuple[Items, Floats]:
        """All draws, or the first chunk of them."""
        if self.setting.target == "expected":
            return self._draw_chunk()
        rng, pool = generator("uniform draws", self.setting.seed), self.setting.pool
        if pool.weights is not None:
            count = int(np.count_nonzero(pool.weights))
            return draw_without_replacement(rng, pool.weights, count, self.log, check=self.check)
        order = draw_order(rng, pool.size, self.log, check=self.check)
        return order, logged_chances(1.0 / np.arange(pool.size, 0, -1), self.log)

    def _draw_chunk(self, start: int = 0) -> tuple[Items, Floats]:
        """Draw a chunk with replacement."""
        rng = generator("uniform draws", self.setting.seed, *([start] if start else []))
        log = self.log[start : start + CHUNK]
        return draw_with_replacement(rng, self.setting.pool.shares(), CHUNK, log, check=self.check)


class Hedged(Uniform):
    """Draw as `uniform` does with the bets of Waudby-Smith and Ramdas: a baseline for benchmarks."""

    name: ClassVar[str] = "hedged"
    hedged: ClassVar[bool] = True
