"""Draw where surprises are expected, forecast the rest from side information: `active`.

`partition` is the same with the paper's 1-NN partition as its only forecast and sampling rule.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np

from cereval.arrays import Floats, Ints
from cereval.forecasts.draw_weights import (
    MIN_REACH,
    clip_forecasts,
    draw_weights,
    expected_errors,
    expected_level,
    grading,
    scaled_spread,
)
from cereval.forecasts.features import designs
from cereval.forecasts.partition import PartitionPredictor
from cereval.forecasts.predictors import Forecast, Mixture, Predictor, build_predictor
from cereval.methods.base import NO_DRAWS, Draws, Setting
from cereval.methods.certified import CertifiedMethod, Tuning
from cereval.methods.drawing import draw_with_replacement, draw_without_replacement
from cereval.randomness import generator
from cereval.records import Draw
from cereval.stats.increments import Outlook
from cereval.stats.planning import Scenario, deadline_draws
from cereval.stats.weights import weighted_calls

UNIFORM_BLOCKS = 2  # Blocks that are drawn uniformly; more of them do not help where a comparison ends early
LEAST_TOLD = 0.05
"""Share of the variance explained from which on calls are said to be saved: below it, chance says as much."""
NOTICEABLE = 0.05  # A saving below this share is within the error of its estimate
NEAR = 0.3
"""Share of the distance to a mark that forecasts and draws work towards: .25 to .35 take the fewest calls."""
LEAST_NEAR = 0.005


class Pace(NamedTuple):
    """How often forecasts are made: the least size of a block, and its growth as a share of the draws so far."""

    first: int
    growth: float


PLAIN = Pace(first=16, growth=0.1)
INFORMED = Pace(first=8, growth=0.08)  # With history: the first results teach most
EAGER = Pace(first=8, growth=0.04)
"""With many past models. Blocks of 4 at first save 2% more, but one run in ten then misses its horizon."""
SIDES = Pace(first=16, growth=0.07)
"""Where the goal has marks: few items decide, so that what they teach is used sooner."""

CAUTIOUS = Tuning(margin=0.03, rescue=0.03, cap=0.85, patience=0.02, overshoot=0.02)
"""Without history the scores are as skewed as they come, and rare ones punish boldness."""
BOLD = Tuning(margin=0.04, rescue=0.01, caution=0.4, cap=0.97, tilt=0.35, finest=250, overshoot=0.02)
"""Forecasts from history make the increments small and their range long. There, steady margins do better than caution
that fades, which begins with bets too small and ends with bets too large."""


class Fit(NamedTuple):
    """A forecast that is used for a block, and what was known when it was made.

    half_width: the one to work towards. errors: expected squared errors; None where none are expected.
    """

    forecast: Forecast
    half_width: float | None
    errors: Floats | None


class Basis(NamedTuple):
    """The forecast that a block is drawn with, its number, and the first draw whose result it does not know."""

    number: int
    fit: Fit | None
    since: int


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
        pool = setting.pool
        super().__init__(setting, tuning or (CAUTIOUS if pool.history is None else BOLD))
        self._predictor = predictor or build_predictor(pool, designs(pool, precedents=True))
        self._pace = pace_for(setting, self._predictor)
        self._past = pool.history_digest()
        self._starts = [0]
        self._weights: dict[int, Floats] = {}
        self._fits: dict[int, Fit] = {}
        self._n_fits = self._n_blocks = 0
        self._round = range(0)
        """The draws that go out together, where calls are sent in rounds."""
        self._round_basis = self._basis(0)
        # Where the goal has marks, each value has a horizon of its own, for which no expectation was tried.
        self._calibrated = pool.history is not None and not setting.aim.marks
        self._is_drawn = np.zeros(pool.size, dtype=bool)
        self._known: list[tuple[int, float, float]] = []
        """Item, chance relative to uniform draws from the unseen, and score."""
        self._fit()

    # -- drawing ------------------------------------------------------------------------------------------------

    def decide_draws(self) -> Draws:
        """Draw block k once the forecast F_{k-1} exists.

        Each block has random numbers of its own. They depend on the history too: a past run with the same seed would
        have drawn in the same order, which of its answers are in the history would tell a forecast which items come
        next, and the increments would be biased.
        """
        block, start = self._n_blocks, len(self._items)
        in_round = start in self._round
        if not in_round and self._n_fits < max(block, 1):
            return NO_DRAWS
        weights, size = self._block_weights(block), self._block_size(block)
        if in_round:
            size = min(size, self._round.stop - start)
        if not weights.any():
            return NO_DRAWS
        rng = generator("active draws", self.setting.seed, self._past, block)
        draw = draw_with_replacement if self.tally.replacement else draw_without_replacement
        items, chances = draw(rng, weights, size, self.log[start : start + size], check=self.check)
        if not self.tally.replacement:
            self._is_drawn[items] = True
        self._weights[block] = weights
        self._n_blocks += 1
        self._starts.append(start + len(items))
        return items, chances

    def open_round(self, draws: int) -> None:
        """Have the blocks that begin within so many draws be drawn with the forecast of this moment."""
        start, self._round = len(self._items), range(0)
        self._round_basis, self._round = self._basis(self._n_fits), range(start, start + draws)

    def _basis(self, block: int) -> Basis:
        """Return what a block is drawn with: nothing until a forecast has met results."""
        if len(self._items) in self._round:
            return self._round_basis
        fit = block - 1
        return Basis(fit, self._fits[fit] if block >= UNIFORM_BLOCKS else None, self._starts[max(fit, 0)])

    def _block_size(self, block: int) -> int:  # noqa: ARG002
        return max(self._pace.first, int(self._pace.growth * len(self._items)))

    def _block_weights(self, block: int) -> Floats:
        """The draw weights, uniform until a forecast has met results: an untested one may make the range long and all
        bets small.
        """
        left = (
            self.tally.shares if self.tally.replacement else np.where(self._is_drawn, 0.0, self.tally.shares)
        )
        drawable = left > 0
        basis = self._basis(block)
        if basis.fit is None or not drawable.any():
            return left
        forecast, half_width, _ = basis.fit
        mean, spread, parts = forecast.mean[drawable], forecast.spread[drawable], left[drawable]
        least = MIN_REACH
        if self.aim.marks:
            # One confident item may not make the range longer than uniform draws have it, unless that pays.
            least = float(np.maximum(mean, 1 - mean).max())
        else:
            half_width = self.aim.eps
        weights = np.zeros(len(left))
        weights[drawable] = parts * draw_weights(mean, spread, half_width, parts, least)
        return weights

    # -- consuming ------------------------------------------------------------------------------------------------

    def prepare(self, draw: Draw) -> None:
        block = bisect_right(self._starts, draw.index) - 1
        # The first block keeps the constant forecast that the tally starts with.
        if self._starts[block] == draw.index and block > 0:
            self._fits.pop(block - 1, None)
            self._turn_to(self._outlook(self._fits[block], self._weights.pop(block)))

    def _outlook(self, fit: Fit, weights: Floats) -> Outlook:
        shares = self.tally.left_shares
        spread = scaled_spread(fit.forecast.spread, shares)
        level = 0.0 if fit.errors is None else expected_level(fit.errors, spread, shares, weights)
        return Outlook(fit.forecast.mean, spread, weights, level)

    def _turn_to(self, outlook: Outlook) -> None:
        """Take the forecast and the draw weights of a block, before its first result is booked."""
        self.tally.turn_to(outlook)

    def learn(self, draw: Draw, low: float, high: float) -> None:
        if low == high:
            left = self.setting.pool.size if self.tally.replacement else self.tally.drawable - draw.index
            self._known.append((draw.item, draw.probability * left, low))
        if self.consumed == self._starts[self._n_fits] and not self.complete:
            self._fit()

    def _fit(self) -> None:
        items, relative, scores = self._results()
        forecast = self._predictor.fit(items, scores, relative)
        half_width = self._half_width_to_work_towards()
        used, errors = self._clipped(forecast, half_width), None
        if self._calibrated and self._n_fits:
            errors = expected_errors(forecast.mean, used.mean, grading(scores))
        self._fits[self._n_fits] = Fit(used, half_width, errors)
        self._n_fits += 1

    def _clipped(self, forecast: Forecast, half_width: float | None) -> Forecast:
        """The forecast, moved to where its range lets bets be as large as the goal needs them."""
        found = clip_forecasts(forecast.mean, forecast.spread, half_width, self.tally.left_shares)
        return replace(forecast, mean=found.mean, spread=found.spread)

    def _results(self) -> tuple[Ints, Floats, Floats]:
        items, relative, scores = zip(*self._known, strict=True) if self._known else ((), (), ())
        return np.array(items, dtype=np.int64), np.array(relative, dtype=float), np.array(scores, dtype=float)

    def _half_width_to_work_towards(self) -> float | None:
        """That of the goal, or what tells the estimate from the nearest mark.

        The goal of the bets, not the newest: a forecast may not know more than the draws that it is used for.
        """
        aim = self._bets_aim
        if not aim.marks:
            return aim.eps
        gap = min(abs(self.clock.mean - mark) for mark in aim.marks)
        return min(max(NEAR * max(gap, self.clock.standard_error), NEAR * (aim.eps or LEAST_NEAR)), 0.25)

    @property
    def notes(self) -> tuple[str, ...]:
        """What explained the scores, and how many calls that was worth against uniform draws."""
        forecast = self._fits[self._n_fits - 1].forecast
        notes, half_width = forecast.notes, self.interval.half_width
        if forecast.explained < LEAST_TOLD or self.complete or not 0.0 < half_width < 0.5:
            return notes
        items, relative, scores = self._results()
        importance = self.tally.shares[items] * self.setting.pool.size / relative
        uniform = uniform_calls(scores, importance, half_width, self.setting)
        return notes if uniform is None else (*notes, savings_note(self.consumed, uniform))


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


def pace_for(setting: Setting, predictor: Predictor) -> Pace:
    if setting.aim.marks:
        return SIDES
    if isinstance(predictor, Mixture) and predictor.has_precedents:
        return EAGER
    return PLAIN if setting.pool.history is None else INFORMED


def uniform_calls(scores: Floats, importance: Floats, half_width: float, setting: Setting) -> int | None:
    """The calls that draws without side information are expected to take to this half-width.

    None where a pool is too small. importance: 1 / probability of each draw relative to uniform draws, so that the
    variance is that of all items and not of the hard ones that were drawn more often.
    """
    mean = np.average(scores, weights=importance)
    variance = min(float(np.average((scores - mean) ** 2, weights=importance)), 0.25)
    pool, target = setting.pool, setting.target
    scenario = Scenario(pool.size, target=target, variance=variance)
    draws = deadline_draws(variance, scenario.skew, half_width, setting.delta)
    if pool.weights is not None and target == "benchmark":
        return weighted_calls(pool.weights, draws)
    return scenario.calls(draws)


def savings_note(calls: int, uniform: int) -> str:
    """What side information saved, in words.

    >>> savings_note(1000, 2000)
    '1,000 calls, where uniform draws would have taken about 2,000: about 50% saved'
    >>> savings_note(1000, 990)
    '1,000 calls, about as many as uniform draws would have taken'
    """
    saved = 1 - calls / uniform
    if saved < NOTICEABLE:
        return f"{calls:,} calls, about as many as uniform draws would have taken"
    return f"{calls:,} calls, where uniform draws would have taken about {uniform:,}: about {saved:.0%} saved"
