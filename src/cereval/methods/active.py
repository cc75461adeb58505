"""Estimate what side information was worth, in calls: how many would uniform draws have taken to the same interval?

Draw where surprises are expected, forecast the rest from side information: `active`.

Make the paper's adaptive partition rigorous: `partition`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cereval.forecasts.draw_weights import draw_weights, expected_errors, expected_level, grading, temper
from cereval.forecasts.features import designs
from cereval.forecasts.partition import PartitionPredictor
from cereval.forecasts.pool import Pool
from cereval.forecasts.predictors import Forecast, Mixture, Predictor, build_predictor
from cereval.methods.base import Setting
from cereval.methods.certified import CertifiedMethod, Tuning
from cereval.methods.drawing import draw_with_replacement, draw_without_replacement
from cereval.randomness import generator
from cereval.records import Draw
from cereval.stats.increments import Outlook
from cereval.stats.planning import Scenario, deadline_draws
from cereval.stats.weights import weighted_calls

Floats = NDArray[np.float64]


NOTICEABLE = 0.05
"""Differences below this share are within the error of the estimate."""


def uniform_calls(scores: Floats, importance: Floats, half_width: float, setting: Setting) -> int | None:
    """Return the calls that draws without side information are expected to take to this half-width.

    None where a pool is too small. importance: 1 / probability of each draw relative to uniform draws, so that the
    variance is that of all items and not of the hard ones that were drawn more often.

    >>> from cereval.forecasts.pool import Pool
    >>> from cereval.methods.base import Aim
    >>> setting = Setting(Pool(5000), "benchmark", 0.05, seed=0, aim=Aim(0.02))
    >>> uniform_calls(np.array([0.0, 1.0] * 50), np.ones(100), 0.02, setting)
    1729
    """
    mean = np.average(scores, weights=importance)
    variance = min(float(np.average((scores - mean) ** 2, weights=importance)), 0.25)
    pool, target, delta = setting.pool, setting.target, setting.delta
    scenario = Scenario(pool.size, target=target, variance=variance)
    draws = deadline_draws(variance, scenario.skew, half_width, delta)
    if pool.weights is not None and target == "benchmark":
        return weighted_calls(pool.weights, draws)
    return scenario.calls(draws)


def effect_note(calls: int, uniform: int | None) -> str | None:
    """Return the effect in words; None where there is nothing to compare with.

    >>> effect_note(1000, 2000)
    '1,000 calls, where uniform draws would have taken about 2,000: about 50% saved'
    >>> effect_note(1000, 990)
    '1,000 calls, about as many as uniform draws would have taken'
    """
    if uniform is None:
        return None
    saved = 1 - calls / uniform
    if saved < NOTICEABLE:
        return f"{calls:,} calls, about as many as uniform draws would have taken"
    return f"{calls:,} calls, where uniform draws would have taken about {uniform:,}: about {saved:.0%} saved"


UNIFORM_BLOCKS = 2
"""More of them do not help where a comparison ends early. 60 pairs of AlpacaEval .02 to .05, .05 to .1 and .1 to .2
apart took 218, 116, 47 items on average; 210, 121, 47 with no forecast before 32 draws, 227, 127, 48 before 64."""

LEAST_TOLD = 0.05
"""Share of the variance explained from which on calls are said to be saved: below it, chance says as much."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Say how often forecasts are made: the least size of a block, and its growth as a share of the draws so far."""

    first: int
    growth: float


PLAIN = Pace(first=16, growth=0.1)
INFORMED = Pace(first=8, growth=0.08)
"""With history the first results teach most. AlpacaEval, 31 models, eps .02, .03, .05: 280, 183, 97 calls; with blocks
of 16 at first 280, 184, 102. Growth of .07 to .08 instead of .1: 1% less again."""

EAGER = Pace(first=8, growth=0.04)
"""Where many past models are known. Blocks of 4 at first save 2% more on AlpacaEval, but one run in ten of MATH-L5
with GPT-4o then misses its horizon: a 95th percentile of .397 of the items for .344. With forecasts that are too sure
(copies of one past model) it is one in seven, where blocks of 8 ruin one in forty."""

SIDES = Pace(first=16, growth=0.07)
"""Where the goal has marks: few items decide, so that what they teach is used sooner."""


def pace_for(setting: Setting, predictor: Predictor) -> Pace:
    if setting.aim.marks:
        return SIDES
    if isinstance(predictor, Mixture) and predictor.precedented:
        return EAGER
    return PLAIN if setting.pool.history is None else INFORMED


def predictor_for(pool: Pool) -> Predictor:
    """Return the forecasts of one model's scores on a pool."""
    return build_predictor(pool, designs(pool, precedents=True))


NEAR = 0.3
"""Share of the distance to a mark that forecasts and draws work towards. Two models of AlpacaEval that are .02 to .05
apart, 100 pairs: 269, 251, 249, 249, 256 items on average for .5, .35, .3, .25, .18; 235 with the blocks above."""

LEAST_NEAR = 0.005


CAUTIOUS = Tuning(margin=0.03, rescue=0.03, cap=0.85, patience=0.02, overshoot=0.02)
"""Without history the scores are as skewed as they come, and rare ones punish boldness."""

BOLD = Tuning(margin=0.04, rescue=0.01, caution=0.4, cap=0.97, tilt=0.35, finest=250, overshoot=0.02)
"""Forecasts from history make the increments small and their range long. There, steady margins do better than caution
that fades, which begins with bets too small and ends with bets too large."""


def tuning_for(pool: Pool) -> Tuning:
    return CAUTIOUS if pool.history is None else BOLD


class Active(CertifiedMethod):
    """Draw in blocks; each block is drawn with a forecast made a whole block earlier.

    Block k holds the draws [b_k, b_{k+1}). Its draw weights come from the forecast F_{k-1}, fitted on the results of
    draws before b_{k-1}: a fixed rule of the draw's index, so draws depend on the seed and the scores but not
    on timing, and a whole block may be in flight. Its increments use F_k, fitted on the results before b_k, all of
    which are consumed by then. Both are functions of the past alone, which is all the theorem asks.
    """

    name: ClassVar[str] = "active"

    def __init__(
        self, setting: Setting, tuning: Tuning | None = None, predictor: Predictor | None = None
    ) -> None:
        super().__init__(setting, tuning or tuning_for(setting.pool))
        self._predictor = predictor or predictor_for(setting.pool)
        self._pace = pace_for(setting, self._predictor)
        self._past = setting.pool.history_digest()
        self._starts = [0]
        self._weights: dict[int, Floats] = {}
        self._forecasts: dict[int, Forecast] = {}
        self._squares: dict[int, Floats] = {}
        # Where the goal has marks, each value has a horizon of its own, for which no expectation was tried.
        self._calibrated = setting.pool.history is not None and not setting.aim.marks
        self._nears: list[float | None] = []
        self._fitted = 0
        self._blocks = 0
        self._drawn = np.zeros(setting.pool.size, dtype=bool)
        self._order: list[int] = []
        self._chances: list[float] = []
        self._next = 0
        self._known: list[tuple[int, float, float]] = []  # item, relative chance, score
        self._fit()

    # -- drawing ------------------------------------------------------------------------------------------------

    def next_draw(self) -> Draw | None:
        if self._next == len(self._order) and not self._draw_block():
            return None
        index = self._next
        self._next += 1
        return Draw(index, self._order[index], self._chances[index])

    def _draw_block(self) -> bool:
        """Draw block k once the forecast F_{k-1} exists; False while it does not, or when nothing is left."""
        block = self._blocks
        if self._fitted < max(block, 1):
            return False
        weights = self._block_weights(block)
        items, chances = self._sample(block, weights)
        if not len(items):
            return False
        self._weights[block] = weights
        self._blocks += 1
        self._starts.append(self._starts[-1] + len(items))
        self._order.extend(items.tolist())
        self._chances.extend(chances.tolist())
        return True

    def _block_size(self, block: int) -> int:  # noqa: ARG002
        return max(self._pace.first, int(self._pace.growth * len(self._order)))

    def _sample(self, block: int, weights: Floats) -> tuple[NDArray[np.int64], Floats]:
        """Draw a block from random numbers of its own.

        They depend on the history too. A past run with the same seed would have drawn in the same order: which of its
        answers are in the history would tell a forecast which items come next, and the increments would be biased.
        """
        start, size = len(self._order), self._block_size(block)
        rng = generator("active draws", self.setting.seed, self._past, block)
        log = self.log[start : start + size]
        if self.tally.replacement:
            return draw_with_replacement(rng, weights, size, log, check=self.check)
        if not weights.any():
            return np.empty(0, dtype=np.int64), np.empty(0)
        items, chances = draw_without_replacement(rng, weights, size, log, check=self.check)
        self._drawn[items] = True
        return items, chances

    def _block_weights(self, block: int) -> Floats:
        """Return the draw weights, uniform until a forecast has met results: an untested one may make the range long
        and all bets small.
        """
        left = self._left_to_draw()
        if block < UNIFORM_BLOCKS:
            return left
        forecast = self._forecasts[block - 1]
        drawable = left > 0
        weights = np.zeros(len(left))
        if drawable.any() and self.aim.marks:
            mean, parts = forecast.mean[drawable], left[drawable]
            # One confident item may not make the range longer than uniform draws have it, unless that pays.
            least = float(np.maximum(mean, 1 - mean).max())
            near = self._nears[block - 1]
            weights[drawable] = parts * draw_weights(mean, forecast.spread[drawable], near, parts, least)
        elif drawable.any():
            mean, spread, parts = forecast.mean[drawable], forecast.spread[drawable], left[drawable]
            weights[drawable] = parts * draw_weights(mean, spread, self.aim.eps, parts)
        return weights

    def _left_to_draw(self) -> Floats:
        """Return the share of every item that was not drawn yet, 0 for the others."""
        shares = self.tally.shares
        return shares if self.tally.replacement else np.where(self._drawn, 0.0, shares)

    # -- consuming ------------------------------------------------------------------------------------------------

    def prepare(self, draw: Draw) -> None:
        block = bisect_right(self._starts, draw.index) - 1
        # The first block keeps the constant forecast that the tally starts with.
        if self._starts[block] == draw.index and block > 0:
            forecast = self._forecasts[block]
            self._forecasts.pop(block - 1, None)
            weights, shape = self._weights.pop(block), self._shape(forecast.spread)
            self.look(Outlook(forecast.mean, shape, weights, self._level(block, shape, weights)))

    def look(self, outlook: Outlook) -> None:
        """Take the forecast and the draw weights of a block, before its first result is booked."""
        self.tally.look(outlook)

    def _shape(self, spread: Floats) -> Floats:
        left = self.tally.left_shares
        return spread * (0.5 / sqrt(left @ spread**2 / left.sum()))

    def _level(self, block: int, shape: Floats, weights: Floats) -> float:
        """Return the variance to expect of the block's increments, in units of the one that `shape` states; 0:
        unknown."""
        squares = self._squares.pop(block, None)
        if squares is None:
            return 0.0
        return expected_level(squares, shape, self.tally.left_shares, weights)

    def learn(self, draw: Draw, low: float, high: float) -> None:
        if low == high:
            self._known.append((*self._lesson(draw), low))
        if self.consumed == self._starts[self._fitted] and not self.complete:
            self._fit()

    def _lesson(self, draw: Draw) -> tuple[int, float]:
        """Return the item that a result teaches about, and its chance relative to uniform draws from the unseen."""
        left = self.setting.pool.size if self.tally.replacement else self._drawable - draw.index
        return draw.item, draw.probability * left

    def _fit(self) -> None:
        items = np.array([item for item, _, _ in self._known], dtype=np.int64)
        relative = np.array([chance for _, chance, _ in self._known])
        scores = np.array([score for _, _, score in self._known])
        forecast = self._predictor.fit(items, scores, relative)
        self._nears.append(self._near())
        held = temper(forecast.mean, forecast.spread, self._nears[-1], self.tally.left_shares)
        self._forecasts[self._fitted] = replace(forecast, mean=held.mean, spread=held.spread)
        if self._calibrated and self._fitted:
            self._squares[self._fitted] = expected_errors(forecast.mean, held.mean, grading(scores))
        self._fitted += 1

    def _near(self) -> float | None:
        """Return the half-width to work towards: that of the goal, or what tells the estimate from the nearest mark.

        The goal of the bets, not the newest: a forecast may not know more than the draws that it is used for.
        """
        aim = self._bets_aim
        if not aim.marks:
            return aim.eps
        gap = min(abs(self.clock.mean - mark) for mark in aim.marks)
        return min(max(NEAR * max(gap, self.clock.standard_error), NEAR * (aim.eps or LEAST_NEAR)), 0.25)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what explained the scores, and how many calls that was worth against uniform draws."""
        forecast = self._forecasts[self._fitted - 1]
        notes, half_width = forecast.notes, self.interval.half_width
        if forecast.explained < LEAST_TOLD or self.complete or not 0.0 < half_width < 0.5:
            return notes
        items, relative, scores = (np.array(column) for column in zip(*self._known, strict=True))
        importance = self._importance(items.astype(np.int64)) / relative
        uniform = uniform_calls(scores, importance, half_width, self.setting)
        note = effect_note(self.consumed, uniform)
        return notes if note is None else (*notes, note)

    def _importance(self, items: NDArray[np.int64]) -> Floats:
        """Return the shares of items, relative to equal ones."""
        return np.asarray(self.tally.shares[items] * self.setting.pool.size)


class Partition(Active):
    """`active` with Cer-Eval's 1-NN partition as its only forecast and sampling rule.

    Theorem: that of `active`. Forecasts and draw weights come from the partition of the results of earlier draws,
    so they are functions of the past, and the interval holds at every moment however the groups were found.
    training_fraction: the share of the evaluated items that label the others, as in `cer-eval`.
    """

    name: ClassVar[str] = "partition"

    def __init__(
        self, setting: Setting, tuning: Tuning | None = None, training_fraction: float = 0.5
    ) -> None:
        predictor = PartitionPredictor(setting.pool, seed=setting.seed, training_fraction=training_fraction)
        super().__init__(setting, tuning, predictor)
