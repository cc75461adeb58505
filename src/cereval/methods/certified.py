"""Run the certified engine: unbiased increments, a betting table, and the clock that steers them.

`uniform` and `active` differ only in how they draw and forecast; what turns their results into an interval is here.
Guarantee: `anytime`. With probability at least 1 - delta every interval ever shown holds the target
(see `stats.interval` for the theorem, `stats.increments` for the unbiasedness it needs).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import fsum, log, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, ndtri_exp

from cereval.arrays import Rows
from cereval.methods.base import Aim, Method, Setting
from cereval.records import Draw, Guarantee, Interval
from cereval.stats.bets import BetRule, DeadlineBets, GapBets, HedgedBets, KellyBets, SideBets
from cereval.stats.increments import Increment, Prospect, Tally
from cereval.stats.information import LARGEST_SQUARE, Information, information_ahead
from cereval.stats.interval import CAP, Account, BettingTable, grid, sided_capital, starting_capital
from cereval.stats.ladder import Rungs
from cereval.stats.rounding import mean_of, upper_quantile, within
from cereval.stats.threshold import ThresholdTest

Floats = NDArray[np.float64]

GRID_STEPS_PER_EPS = 50
DEFAULT_EPS = 0.02
ALIKE = 1e-6
"""A step that exceeds the finest by less than this share of it is the finest: grids have a whole number of steps."""
CELLS, FINER = 1024, 4
"""Values of the grid at first; it is divided when the window has a FINER-th of them left."""
SMALLEST_GRID_STEP = 2e-5
LOGICAL_SLACK = 1e-12
"""Limits that cross by less than this, or than the sums may be off (`sum_slack`), do not contradict one another."""

RESERVE = 0.1
"""Share of delta that a threshold test leaves for the intervals beside it: a wrong decision and a wrong interval are
two events, and their chances add up."""

BESIDE_SHARE = 0.5
"""Share of the ladder in the intervals beside a threshold's test: most who read them look on the way."""

SIDE_CAP = 0.95
"""The largest share of an account that one bet may lose where the goal has a mark."""

SPARE = 0.05
"""Where the goal has a mark, the share of delta that is not for its answer (see `stats.interval`, sides of a mark)."""

MOST_LEVEL = 0.25
"""The highest level of a test whose horizon the bets on sides have: one of level 1/2 would end at once, with everything
staked on every draw."""


def near_capital(alpha: float) -> float:
    """Return the capital that the games start with whose answer is awaited, as far as horizons go.

    In strict goals too, where the two games on the mark start with 1: horizons of their own level took 3% fewer calls
    on GSM8K, where most are spent on ties, and 4 to 6% more at gaps of .05 to .2 on AlpacaEval.
    """
    capital = 2 * (1 - SPARE)
    return capital if capital * alpha <= MOST_LEVEL else 1.0


@dataclass(frozen=True, slots=True)
class Sides:
    """Divide the capital of the bets on which side of a mark the target lies.

    share: on bets that learn the distance; the rest bets, in equal parts, for the distances `gaps` from the start.
    """

    share: float = 0.85
    gaps: tuple[float, ...] = (0.01, 0.025, 0.06)


LADDER = Rungs(share=0.07, tilt=0.8, cap=0.9, cells=512)
"""A share of .09 shortens intervals on the way by 2% and costs .5% of the calls at mean .5 (`benchmarks.ladder`)."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """Hold the constants of the bets, none of which validity depends on in its range; chosen in `benchmarks/`.

    margin: information beyond the fixed-n test's that the horizon allows for. rescue: share of the capital on Kelly
    bets. caution: how far the horizon errs on the far side (see `Information`). cap: the largest share of an account
    that one bet of the table may lose. tilt: how alpha is divided where scores are rare (see `stats.interval`). finest:
    steps of the grid per eps at its finest. patience, overshoot: see `stats.bets.DeadlineBets`. own_level: whether the
    horizon is that of the test which the bets replicate, whose level is their share of alpha over 1 + overshoot, or
    that of a test of level alpha. far: standard errors by which the horizon takes the mean to be nearer to 1/2, in
    place of caution; 0: as that says. counts: whether 0/1 scores have the variance that their mean states (see
    `Information`), for constant forecasts. graded_patience, graded_margin: the least patience and margin with scores
    between 0 and 1, whose variance is less well known. ladder: earlier horizons, for whoever looks or stops on the way
    (see `stats.ladder`). sides: where the goal has a mark.
    """

    margin: float = 0.1
    rescue: float = 0.05
    caution: float = 1.2
    cap: float = CAP
    tilt: float = 0.0
    finest: int = GRID_STEPS_PER_EPS
    patience: float = 0.03
    overshoot: float = 0.05
    own_level: bool = True
    far: float = 0.0
    counts: bool = False
    graded_patience: float = 0.0
    graded_margin: float = 0.0
    ladder: Rungs = LADDER
    sides: Sides = Sides()


STEP_OF_COUNTS = 1.0
"""The exact fixed-n interval of 0/1 scores takes about this much over eps more draws than the normal one: limits of
counts lie on a lattice. Means .02 to .5 at eps .02, N 5,000: 1.14 to .69."""


class CertifiedMethod(Method):
    """Turn results into an interval. Obligations of subclasses: `next_draw`, and `prepare` where forecasts and draw
    weights change.
    """

    guarantee: ClassVar[Guarantee] = "anytime"
    default_tuning: ClassVar[Tuning] = Tuning()
    """The constants of the bets where none are given."""
    hedged: ClassVar[bool] = False

    def __init__(self, setting: Setting, tuning: Tuning | None = None) -> None:
        self.setting = setting
        self.tuning = tuning or self.default_tuning
        self.aim = setting.aim
        self.tally = self._new_tally()
        self.clock = Information()
        self.consumed = 0
        self._scores = Rows(3)
        self._graded = False
        self._drawable = self.tally.drawable
        self._bets_aim = setting.aim
        self._aims: list[tuple[int, Aim]] = []
        self._test = self._new_test()
        self._table = self._new_table()

    def _new_tally(self) -> Tally:
        return Tally(self.setting.pool.shares(), replacement=self.setting.target != "benchmark")

    # -- results ----------------------------------------------------------------------------------------------

    def observe(self, draw: Draw, low: float, high: float) -> None:
        self._turn_to_new_aims(draw.index)
        self.prepare(draw)
        self._play(draw, low, high)
        self.consumed += 1
        self._scores.append((self.tally.share(draw.item), low, high))
        self._graded |= not low == high == round(low)
        self.learn(draw, low, high)

    def _play(self, draw: Draw, low: float, high: float) -> None:
        prospect = self.tally.prospect()
        self._stake(prospect)
        increment = self.tally.settle(draw.item, low, high, self._chance(draw))
        self._settle(prospect, increment)

    def _chance(self, draw: Draw) -> float | None:
        """Return the probability that the draw was made with, as the log has it; None where the weights state it: a
        population is sampled in the order of one permutation, each item as if drawn anew."""
        return None if self.setting.target == "population" else draw.probability

    def prepare(self, draw: Draw) -> None:
        """Take a new outlook, where there is one, before a result is booked. Sees no score of `draw`."""

    def learn(self, draw: Draw, low: float, high: float) -> None:
        """Learn from a result after it is booked."""

    def _stake(self, prospect: Prospect) -> None:
        self.clock.counts = self.tuning.counts and not self._graded
        if self._test is not None:
            self._test.stake(prospect, self.clock)
        eps = self._working_eps()
        needed = self._information_needed(prospect, eps)
        self._table.stake(prospect, self.clock, needed, eps)

    def _settle(self, prospect: Prospect, increment: Increment) -> None:
        if self._test is not None:
            self._test.settle(increment)
        self._table.settle(increment)
        self._refine_when_near()
        value = (increment.low + increment.high) / 2
        self.clock.add(value, prospect.variance, prospect.largest_square, prospect.level)

    # -- what the bets aim at -----------------------------------------------------------------------------------

    def aim_at(self, aim: Aim, drawn: int) -> None:
        """Turn to a new goal. Bets have to be predictable: those on draws already decided stay as they were.

        From an estimate to a threshold the decision is read off the interval. A threshold test that is given up
        leaves the intervals beside it, which have a share of delta of their own.
        """
        self.aim = aim
        self._aims.append((drawn, aim))
        if self._test is not None and aim.threshold != self._test.threshold:
            self._test = None

    def _turn_to_new_aims(self, index: int) -> None:
        while self._aims and self._aims[0][0] <= index:
            self._bets_aim = self._aims.pop(0)[1]

    def _working_eps(self) -> float:
        if self._bets_aim.eps is not None:
            return self._bets_aim.eps
        if self._bets_aim.threshold is None or self._beside:
            return DEFAULT_EPS
        return min(max(abs(self.clock.mean - self._bets_aim.threshold), 0.005), 0.25)

    def _information_needed(self, prospect: Prospect, eps: float) -> float:
        """Return the information at which a fixed-n test would have width 2 eps; less if the budget ends before."""
        quantile, margin = float(ndtri(1 - self._replicated_level)), self.tuning.margin
        if self._graded:
            margin = max(margin, self.tuning.graded_margin)
        needed = (1 + margin) * self._fixed_n_information(quantile, eps)
        if self._graded and self.tuning.graded_patience:
            needed = max(needed, self.clock.total + self.tuning.graded_patience * needed)
        budget = self._bets_aim.budget
        if budget is None:
            return needed
        calls = max(budget - self.clock.count, 1)
        left = None if self.tally.replacement else self._drawable - self.clock.count
        calls = calls if left is None else min(calls, left)
        return min(needed, self.clock.total + information_ahead(calls, prospect.variance, left))

    @property
    def _replicated_level(self) -> float:
        """Return the level of the fixed-n test whose horizon the bets have.

        At level alpha the horizon is nearer than the replicated test needs, and the margin has to make up for it.
        """
        if not self.tuning.own_level:
            return self.setting.delta / 2
        return self._table.alpha * self._table.first_share / (1 + self.tuning.overshoot)

    def _fixed_n_information(self, quantile: float, eps: float) -> float:
        """Return what a fixed-n test is expected to need; errs on the far side, for a horizon too near ruins an
        account.

        With `far`, as the exact plan for 0/1 scores has it: the normal test at a mean a little nearer to 1/2, and
        a step of the lattice. Graded scores keep their observed share of m(1 - m) in both.
        """
        tuning, clock = self.tuning, self.clock
        if not tuning.far:
            return clock.cautious_variance(tuning.caution) * (quantile / eps) ** 2
        binary = LARGEST_SQUARE * (
            far_variance(clock, tuning.far) * (quantile / eps) ** 2 + STEP_OF_COUNTS / eps
        )
        return binary * grading(clock) if self._graded else binary

    def information_to_go(self, eps: float) -> float:
        """Return the information that fixed-n tests still need which begin with the capital as it is now.

        Deadline bets replicate a test of level alpha; with capital W against a value they have to win one of level
        alpha W. Against the mean - eps and the mean + eps that takes v (quantile / eps)^2 each, and this is the mean
        of the two: what is left of the first tests while the bets go as foreseen, and more where an earlier horizon (a
        wider goal, a smaller budget) has taken the capital.
        """
        below, above = (self._table.log_wealth(self.clock.mean + shift) for shift in (-eps, eps))
        log_levels = np.minimum(np.array((below[0], above[1])) + log(self._table.alpha), -log(2))
        return float(self.clock.variance * np.mean((ndtri_exp(log_levels) / eps) ** 2))

    # -- tables ---------------------------------------------------------------------------------------------------

    def _new_test(self) -> ThresholdTest | None:
        threshold = self.aim.threshold
        return None if threshold is None else ThresholdTest(threshold, (1 - RESERVE) * self.setting.delta)

    @property
    def _beside(self) -> bool:
        """Tell whether the intervals go beside a threshold test, which is what the first aim was."""
        return self.setting.aim.threshold is not None

    def _new_table(self) -> BettingTable:
        delta = RESERVE * self.setting.delta if self._beside else self.setting.delta
        accounts, tuning, aim = self._accounts(delta / 2), self.tuning, self.aim
        if aim.marks:
            candidates = np.union1d(grid(self._grid_step()), aim.marks)
            (mark,) = aim.marks
            start = sided_capital(candidates, mark, SPARE, strict=aim.strict)
            return BettingTable(candidates, delta / 2, accounts, SIDE_CAP, start)
        candidates = grid(self._first_step())
        start = starting_capital(candidates, tuning.tilt)
        return BettingTable(candidates, delta / 2, accounts, tuning.cap, start, self._rungs(delta))

    def _rungs(self, delta: float) -> Rungs | None:
        if self.hedged:
            return None
        draws = (upper_quantile(delta / 2) / self._working_eps()) ** 2 / LARGEST_SQUARE
        rungs = self.tuning.ladder.towards(draws)
        return replace(rungs, share=BESIDE_SHARE) if self._beside else rungs

    def _grid_step(self, steps: int = GRID_STEPS_PER_EPS) -> float:
        return max(self._working_eps() / steps, SMALLEST_GRID_STEP)

    def _first_step(self) -> float:
        """Return the finest step, or as many times FINER of it as leave CELLS values: so that the finest still
        divides eps."""
        step = self._grid_step(self.tuning.finest)
        while FINER * step * CELLS <= 1:
            step *= FINER
        return step

    def _refine_when_near(self) -> None:
        """Make the grid finer as the interval narrows: a coarse one is quick while it is wide, a fine one loses less
        when it is narrow.
        """
        if self.setting.aim.marks:
            return
        table, finest = self._table, (1 + ALIKE) * self._grid_step(self.tuning.finest)
        while table.step > finest and FINER * (table.upper - table.lower) < (1 - ALIKE) * CELLS * table.step:
            table.refine(max(finest, table.step / FINER))

    def _accounts(self, alpha: float) -> tuple[Account, ...]:
        tuning = self.tuning
        if self.hedged:
            return (Account(1.0, HedgedBets(alpha)),)
        if self.aim.marks:
            sides = tuning.sides
            gaps = [Account((1 - sides.share) / len(sides.gaps), GapBets(gap)) for gap in sides.gaps]
            return (Account(sides.share, SideBets(alpha, near=near_capital(alpha))), *gaps)
        rule: BetRule = DeadlineBets(alpha, tuning.overshoot, tuning.patience)
        return (Account(1 - tuning.rescue, rule), Account(tuning.rescue, KellyBets()))

    # -- what is certified ------------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Tell whether every item of a finite pool is in, so that nothing is left to estimate."""
        return not self.tally.replacement and self.consumed == self._drawable

    @property
    def logical(self) -> Interval:
        """Return what the seen scores alone prove: the rest is somewhere between all 0 and all 1."""
        if self.complete:
            if self.setting.pool.weights is None:
                # To the last digit: a mean of k/N is then the same number as the threshold k/N.
                return Interval(
                    mean_of([low for _, low, _ in self._scores]), mean_of([high for *_, high in self._scores])
                )
            shares = fsum(share for share, _, _ in self._scores)
            low = fsum(share * low for share, low, _ in self._scores) / shares
            high = fsum(share * high for share, _, high in self._scores) / shares
            return Interval(min(low, 1.0), min(high, 1.0))
        if self.tally.replacement:
            return Interval(0.0, 1.0)
        low, unseen, slack = self.tally.seen_low, self.tally.unseen, self.tally.slack
        return Interval(max(low - slack, 0.0), min(self.tally.seen_high + unseen + slack, 1.0))

    @property
    def statistical(self) -> Interval:
        """Return what the bets prove; may be inverted after an event of probability delta."""
        lower, upper = self._table.lower, self._table.upper
        if self._test is None:
            return Interval(lower, upper)
        threshold = self._test.threshold
        return Interval(
            max(lower, threshold) if self._test.above else lower,
            min(upper, threshold) if self._test.below else upper,
        )

    @property
    def contradiction(self) -> bool:
        logical, statistical = self.logical, self.statistical
        lower, upper = max(logical.lower, statistical.lower), min(logical.upper, statistical.upper)
        return self._table.contradiction or lower > upper + max(LOGICAL_SLACK, self.tally.slack)

    @property
    def interval(self) -> Interval:
        logical = self.logical
        if self.complete or self.contradiction:
            return logical
        statistical = self.statistical
        return Interval(max(logical.lower, statistical.lower), min(logical.upper, statistical.upper))

    @property
    def estimate(self) -> float:
        """Return the information-weighted mean, moved to where the interval reaches at most eps on either side.

        When the goal is met, [upper - eps, lower + eps] is not empty and any point of it is within eps of the target.
        """
        return moved_inside(self.clock.mean, self.interval, self.aim.eps)


def far_variance(clock: Information, far: float) -> float:
    """Return the variance of 0/1 scores at a mean `far` standard errors nearer to 1/2 than the estimate.

    >>> far_variance(Information(count=96, mean=0.5), 0.7)
    0.25
    """
    mean = min(max(clock.mean, 0.0), 1.0)
    error = sqrt(max(mean * (1 - mean), 1 / (clock.count + 4)) / (clock.count + 1))
    nearer = min(min(mean, 1 - mean) + far * error, 0.5)
    return nearer * (1 - nearer)


def grading(clock: Information) -> float:
    """Return the variance of the scores as a share of that of 0/1 scores with the same mean."""
    least = 0.25 / (clock.count + 1)
    mean = min(max(clock.mean, least), 1 - least)
    return clock.variance / (LARGEST_SQUARE * mean * (1 - mean))


def moved_inside(value: float, interval: Interval, eps: float | None) -> float:
    """Return the value, moved to where the interval reaches at most eps on either side, or just into it.

    >>> moved_inside(0.5, Interval(0.25, 0.875), 0.5), moved_inside(0.5, Interval(0.5, 0.75), 0.125)
    (0.5, 0.625)
    """
    low, high = interval.lower, interval.upper
    if eps is not None and within(interval.half_width, eps):
        low, high = max(low, interval.upper - eps), min(high, interval.lower + eps)
    return min(max(value, low), max(high, low))
