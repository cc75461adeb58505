"""Draw items in random order, each with a chance in proportion to its weight in the target: `uniform`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cereval.methods.base import Setting
from cereval.methods.certified import MERGING, PATIENT, CertifiedMethod, Tuning
from cereval.methods.drawing import as_logged, draw_order, draw_with_replacement, draw_without_replacement
from cereval.randomness import generator
from cereval.records import Draw

CHUNK = 1024

SHARP = Tuning(margin=0.06, patience=0.02, far=0.7)
"""Of the second engine (`benchmarks.ladder`, which has the first beside it). Nearer horizons save more on average and
ruin accounts: margin .05 and patience .015 took 1,720 calls at mean .5, and once in twelve runs 2,660; far under .5
half as many calls again at means .05 and .1."""

SHARPER = Tuning(
    margin=0.02, rescue=0.01, patience=0.008, overshoot=0.015, far=0.7, graded=0.015, own_level=True
)
"""Of the third engine. What ruined accounts was a horizon that did not know the level of its bets: with that, less
patience, overshoot and rescue are safe. Bets that replicate the tail of counts exactly (finite differences, a term for
their skewness, binomial tails over the last 64 draws) took the same calls to .7% with the same constants: not kept."""

FINEST = replace(SHARPER, finest=100)
"""Of the fourth engine: .1 to .3% fewer calls."""

EARLY = replace(MERGING, share=0.095, cap=0.97, parts=(1.4, 2.0, 1.25, 1.5, 0.3, 0.2))
"""The ladder of the fifth engine: most of it on the first 200 draws, where nothing else makes the interval decent."""

SPREAD = replace(PATIENT, share=0.5, gaps=(0.005, 0.01, 0.02, 0.04, 0.08))
"""Sides of the fifth engine: more on stated distances than with forecasts. 200 pairs without history, calls beside
those of PATIENT: GSM8K 318 for 342, "not worse" 304 for 328, AlpacaEval 226 for 230; but 23 for 21 at gaps over .2."""

COUNTING = replace(FINEST, margin=0.012, patience=0.006, counts=True, ladder=EARLY, sides=SPREAD)
"""Of the fifth engine. A variance that 0/1 scores state themselves makes nearer horizons safe, which pays for a larger
ladder. Beside the fourth (40 seeds, eps .02): 272 calls for 277 at mean .02, 364 for 363 at .03,
847 for 849 at .1. Half-widths after 50, 100, 200 draws at mean .05: .105, .073, .051 for .117, .077, .054. A tilt of
.35 took 259 at mean .02 and 839 at .1 (with far = .5), but ruined accounts on graded scores, whose horizon did not know
of it: S2 717 for 685, one run in ten 1.17 times as many."""


GRADING = replace(COUNTING, graded_margin=0.02)
"""Of the sixth engine. Graded scores do not state their variance: at the margin of counts one or two runs in a hundred
were ruined and took twice the calls. Beside the fifth (100 seeds, eps .02): S1 749 calls for 756, S2 687 for 706, the
longest 813 and 758 for 1,539 and 1,789."""


class Uniform(CertifiedMethod):
    """Use no side information: the constant forecast, which cancels out of the increments.

    Without replacement (`benchmark`) and for the paper's `population` the order is one weighted random
    permutation (successive sampling); for `expected` every draw is fresh, and an item may come again.
    """

    name: ClassVar[str] = "uniform"

    def __init__(self, setting: Setting, tuning: Tuning | None = None) -> None:
        super().__init__(setting, tuning)
        self._drawn = 0
        self._order, self._chances = self._first_chunk()

    def follow(self, log: Sequence[Draw], *, again: bool = False) -> None:
        super().follow(log, again=again)
        self._order, self._chances = self._first_chunk()

    @classmethod
    def usual_tuning(cls, setting: Setting) -> Tuning:
        earlier = {1: cls.default_tuning, 2: SHARP, 3: SHARPER, 4: FINEST, 5: COUNTING}
        return earlier.get(setting.engine, GRADING).of_engine(setting.engine)

    def next_draw(self) -> Draw | None:
        if self._drawn == len(self._order):
            if self.setting.target != "expected":
                return None
            self._extend()
        index = self._drawn
        self._drawn += 1
        return Draw(index, int(self._order[index]), float(self._chances[index]))

    def _first_chunk(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        rng, pool = generator("uniform draws", self.setting.seed), self.setting.pool
        if self.setting.target == "expected":
            return draw_with_replacement(rng, pool.shares(), CHUNK, self.log[:CHUNK], again=self.again)
        if pool.weights is not None:
            count = int(np.count_nonzero(pool.weights))
            return draw_without_replacement(rng, pool.weights, count, self.log, again=self.again)
        order = draw_order(rng, pool.size, self.log, again=self.again)
        return order, as_logged(1.0 / np.arange(pool.size, 0, -1), self.log)

    def _extend(self) -> None:
        """Draw another chunk with replacement."""
        start = len(self._order)
        rng, log = generator("uniform draws", self.setting.seed, start), self.log[start : start + CHUNK]
        items, chances = draw_with_replacement(rng, self.setting.pool.shares(), CHUNK, log, again=self.again)
        self._order = np.concatenate((self._order, items))
        self._chances = np.concatenate((self._chances, chances))


class Hedged(Uniform):
    """Draw as `uniform` does with the bets of Waudby-Smith and Ramdas: a baseline for benchmarks."""

    name: ClassVar[str] = "hedged"
    hedged: ClassVar[bool] = True
