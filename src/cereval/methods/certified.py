"""What all certified methods share: unbiased increments, a betting table, and the clock that steers the bets.

Methods differ only in how they draw and forecast; what turns their results into an interval is here.
Guarantee: `anytime`. With probability at least 1 - delta every interval ever shown holds the target
(see `stats.interval` for the theorem, `stats.increments` for the unbiasedness it needs).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import fsum, inf, log, sqrt
from operator import mul
from typing import ClassVar

import numpy as np
from scipy.special import ndtri, ndtri_exp

from cereval.methods.base import Aim, Method, Setting
from cereval.records import Draw, Guarantee, Interval
from cereval.stats.bets import DeadlineBets, HedgedBets, KellyBets, SideBets
from cereval.stats.increments import Prospect, Tally
from cereval.stats.information import LARGEST_SQUARE, Information, information_ahead
from cereval.stats.interval import CAP, Account, BettingTable, grid, sided_capital, starting_capital
from cereval.stats.ladder import Rungs
from cereval.stats.rounding import mean_of, upper_quantile, within
from cereval.stats.threshold import ThresholdTest

GRID_STEPS_PER_EPS = 50
DEFAULT_EPS = 0.02  # The half-width that bets work towards where the goal has none
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
SIDE_CAP = 0.95  # The largest share of an account that one bet may lose where the goal has a mark
SPARE = 0.05
"""Where the goal has a mark, the share of delta that is not for its answer (see `stats.interval`, sides of a mark)."""
MOST_LEVEL = 0.25
"""The highest level of a test whose horizon the bets on sides have: one of level 1/2 would end at once, with everything
staked on every draw."""
STEP_OF_COUNTS = 1.0
"""The exact fixed-n interval of 0/1 scores takes about this much over eps more draws than the normal one: limits of
counts lie on a lattice."""


@dataclass(frozen=True, slots=True)
class Sides:
    """How the capital of the bets on which side of a mark the target lies is divided.

    share: on bets that learn the distance; the rest bets, in equal parts, for the distances `gaps` from the start.
    """

    share: float = 0.85
    gaps: tuple[float, ...] = (0.01, 0.025, 0.06)


LADDER = Rungs(share=0.07, tilt=0.8, cap=0.9, cells=512)
"""A share of .09 shortens intervals on the way by 2% and costs .5% of the calls at mean .5 (`benchmarks.ladder`)."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The constants of the bets, none of which validity depends on in its range; chosen in `benchmarks/`.

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


class CertifiedMethod(Method):
    """Turn results into an interval. Subclasses decide draws, and `prepare` a result where forecasts and draw weights
    change.
    """

    guarantee: ClassVar[Guarantee] = "anytime"
    default_tuning: ClassVar[Tuning] = Tuning()
    hedged: ClassVar[bool] = False
    bets: bool = True
    """Whether the interval rests on bets; else it is what the scores prove by themselves."""

    def __init__(self, setting: Setting, tuning: Tuning | None = None) -> None:
        super().__init__()
        self.setting, self.aim = setting, setting.aim
        self.tuning = tuning or self.default_tuning
        self.tally = Tally(setting.pool.shares(), replacement=setting.target != "benchmark")
        self.clock = Information()
        self._scores: list[tuple[float, float, float]] = []
        self._graded = False
        self._seen = (1.0, 0.0)
        """The least and the largest score that was seen."""
        self._bets_aim = setting.aim
        self._coming_aims: list[tuple[int, Aim]] = []
        # Intervals go beside a threshold test if the first aim was one, also once the test has been given up.
        self._beside = self.aim.threshold is not None
        self._test: ThresholdTest | None = None
        if self.aim.threshold is not None:
            self._test = ThresholdTest(self.aim.threshold, (1 - RESERVE) * setting.delta)
        self._table = self._new_table(RESERVE * setting.delta if self._beside else setting.delta)

    # -- results ----------------------------------------------------------------------------------------------

    def observe(self, draw: Draw, low: float, high: float) -> None:
        while self._coming_aims and self._coming_aims[0][0] <= draw.index:
            self._bets_aim = self._coming_aims.pop(0)[1]
        self.prepare(draw)
        self._play(draw, low, high)
        self.consumed += 1
        self._scores.append((float(self.tally.shares[draw.item]), low, high))
        self._graded |= not low == high == round(low)
        if low == high:
            self._seen = min(self._seen[0], low), max(self._seen[1], high)
        self.learn(draw, low, high)

    def prepare(self, draw: Draw) -> None:
        """Take a new outlook, where there is one, before a result is booked. Sees no score of `draw`."""

    def learn(self, draw: Draw, low: float, high: float) -> None:
        """Learn from a result after it is booked."""

    def _play(self, draw: Draw, low: float, high: float) -> None:
        prospect, clock, tests = self.tally.prospect(), self.clock, self._tests()
        clock.counts = self.tuning.counts and not self._graded and not self.tally.outlook.uneven
        eps = self._working_eps()
        for test in tests:
            test.stake(prospect, clock)
        self._table.stake(prospect, clock, self._information_needed(prospect, eps), eps)
        increment = self.tally.settle(draw.item, low, high, self._chance(draw))
        for test in tests:
            test.settle(increment)
        self._table.settle(increment)
        self._refine_grid()
        value = (increment.low + increment.high) / 2
        clock.add(value, prospect.variance, prospect.largest_square, prospect.level)

    def _book(self, draw: Draw, low: float, high: float) -> None:
        prospect = self.tally.prospect()
        increment = self.tally.settle(draw.item, low, high, self._chance(draw))
        value = (increment.low + increment.high) / 2
        self.clock.add(value, prospect.variance, prospect.largest_square, prospect.level)

    def _tests(self) -> list[ThresholdTest]:
        return [] if self._test is None else [self._test]

    def _chance(self, draw: Draw) -> float | None:
        """The probability that the draw was made with, as the log has it; None where the weights state it: a
        population is sampled in the order of one permutation, each item as if drawn anew."""
        return None if self.setting.target == "population" else draw.probability

    # -- what the bets aim at -----------------------------------------------------------------------------------

    def aim_at(self, aim: Aim, drawn: int) -> None:
        """Turn to a new goal. Bets have to be predictable: those on draws already decided stay as they were.

        From an estimate to a threshold the decision is read off the interval. A threshold test that is given up
        leaves the intervals beside it, which have a share of delta of their own.
        """
        self.aim = aim
        self._coming_aims.append((drawn, aim))
        if self._test is not None and aim.threshold != self._test.threshold:
            self._test = None

    def _working_eps(self) -> float:
        if self._bets_aim.eps is not None:
            return self._bets_aim.eps
        if self._bets_aim.threshold is None or self._beside:
            return DEFAULT_EPS
        return min(max(abs(self.clock.mean - self._bets_aim.threshold), 0.005), 0.25)

    def _information_needed(self, prospect: Prospect, eps: float) -> float:
        """The information at which a fixed-n test would have width 2 eps; less if the budget ends before."""
        tuning, clock, budget = self.tuning, self.clock, self._bets_aim.budget
        # At level alpha the horizon is nearer than the replicated test needs, and the margin has to make up for it.
        level = self.setting.delta / 2
        if tuning.own_level:
            level = self._table.alpha * self._table.first_share / (1 + tuning.overshoot)
        margin = max(tuning.margin, tuning.graded_margin) if self._graded else tuning.margin
        needed = (1 + margin) * self._fixed_n_information(float(ndtri(1 - level)), eps)
        if self._graded and tuning.graded_patience:
            needed = max(needed, clock.total + tuning.graded_patience * needed)
        if budget is None:
            return needed
        calls = max(budget - clock.count, 1)
        left = None if self.tally.replacement else self.tally.drawable - clock.count
        calls = calls if left is None else min(calls, left)
        return min(needed, clock.total + information_ahead(calls, prospect.variance, left))

    def _fixed_n_information(self, quantile: float, eps: float) -> float:
        """What a fixed-n test is expected to need; errs on the far side, for a horizon too near ruins an account.

        With `far`, as the exact plan for 0/1 scores has it: the normal test at a mean a little nearer to 1/2, and
        a step of the lattice. Graded scores keep their observed share of m(1 - m) in both.
        """
        tuning, clock = self.tuning, self.clock
        if not tuning.far or self.tally.outlook.uneven:
            return clock.cautious_variance(tuning.caution) * (quantile / eps) ** 2
        binary = LARGEST_SQUARE * (
            far_variance(clock, tuning.far) * (quantile / eps) ** 2 + STEP_OF_COUNTS / eps
        )
        return binary * graded_share(clock) if self._graded else binary

    @property
    def left(self) -> float:
        """How many results there can still be."""
        return inf if self.tally.replacement else self.tally.drawable - self.consumed

    def calls_to_width(self, eps: float, patience: float) -> float:
        """The draws until the interval is expected to reach no further than eps; 0 when it does.

        patience: the least share of the information needed that is expected to be missing.
        """
        if within(self.interval.half_width, eps):
            return 0.0
        prospect = self.tally.prospect()
        needed = self._information_needed(prospect, eps)
        return self.calls_for(max(needed - self.clock.total, patience * needed), prospect)

    def calls_for(self, information: float, prospect: Prospect) -> float:
        """The draws without replacement that bring this much information: the inverse of `information_ahead`."""
        calls = information * prospect.variance
        return calls / (1 + calls / self.left) if self.left else 0.0

    def information_to_go(self, eps: float) -> float:
        """The information that fixed-n tests still need which begin with the capital as it is now.

        Deadline bets replicate a test of level alpha; with capital W against a value they have to win one of level
        alpha W. Against the mean - eps and the mean + eps that takes v (quantile / eps)^2 each, and this is the mean
        of the two: what is left of the first tests while the bets go as foreseen, and more where an earlier horizon (a
        wider goal, a smaller budget) has taken the capital.
        """
        below, above = (self._table.log_wealth(self.clock.mean + shift) for shift in (-eps, eps))
        log_levels = np.minimum(np.array((below[0], above[1])) + log(self._table.alpha), -log(2))
        return float(self.clock.variance * np.mean((ndtri_exp(log_levels) / eps) ** 2))

    # -- the table ------------------------------------------------------------------------------------------------

    def _new_table(self, delta: float) -> BettingTable:
        alpha, tuning, aim = delta / 2, self.tuning, self.aim
        if aim.marks:
            candidates = np.union1d(grid(self._grid_step()), aim.marks)
            capital = sided_capital(candidates, aim.marks[0], SPARE, strict=aim.strict)
            return BettingTable(candidates, alpha, side_accounts(alpha, tuning.sides), SIDE_CAP, capital)
        step = self._grid_step(tuning.finest)
        # As many times FINER of the finest as leave CELLS values: so that the finest still divides eps.
        while FINER * step * CELLS <= 1:
            step *= FINER
        candidates = grid(step)
        capital = starting_capital(candidates, tuning.tilt)
        if self.hedged:
            return BettingTable(candidates, alpha, (Account(1.0, HedgedBets(alpha)),), tuning.cap, capital)
        deadline = DeadlineBets(alpha, tuning.overshoot, tuning.patience)
        accounts = Account(1 - tuning.rescue, deadline), Account(tuning.rescue, KellyBets())
        draws = (upper_quantile(alpha) / self._working_eps()) ** 2 / LARGEST_SQUARE
        rungs = tuning.ladder.towards(draws)
        if self._beside:
            rungs = replace(rungs, share=BESIDE_SHARE)
        return BettingTable(candidates, alpha, accounts, tuning.cap, capital, rungs)

    def _grid_step(self, steps: int = GRID_STEPS_PER_EPS) -> float:
        return max(self._working_eps() / steps, SMALLEST_GRID_STEP)

    def _refine_grid(self) -> None:
        """Make the grid finer as the interval narrows: a coarse one is quick while it is wide, a fine one loses less
        when it is narrow.
        """
        if self.setting.aim.marks:
            return
        table, finest = self._table, (1 + ALIKE) * self._grid_step(self.tuning.finest)
        while table.step > finest and FINER * (table.upper - table.lower) < (1 - ALIKE) * CELLS * table.step:
            table.refine(max(finest, table.step / FINER))

    # -- what is certified ------------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        return not self.tally.replacement and self.consumed == self.tally.drawable

    @property
    def logical(self) -> Interval:
        """What the seen scores alone prove: the rest is somewhere between all 0 and all 1."""
        if self.complete:
            shares, lows, highs = zip(*self._scores, strict=True)
            if self.setting.pool.weights is None:
                # To the last digit: a mean of k/N is then the same number as the threshold k/N.
                return Interval(mean_of(lows), mean_of(highs))
            total = fsum(shares)
            low, high = (min(fsum(map(mul, shares, ends)) / total, 1.0) for ends in (lows, highs))
            return Interval(low, high)
        if self.tally.replacement:
            return Interval(0.0, 1.0)
        low, unseen, slack = self.tally.seen_low, self.tally.unseen, self.tally.slack
        return Interval(max(low - slack, 0.0), min(self.tally.seen_high + unseen + slack, 1.0))

    @property
    def statistical(self) -> Interval:
        """What the bets prove; may be inverted after an event of probability delta."""
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
        both = overlap(self.logical, self.statistical)
        return self._table.contradiction or both.lower > both.upper + max(LOGICAL_SLACK, self.tally.slack)

    @property
    def interval(self) -> Interval:
        logical = self.logical
        return logical if self.complete or self.contradiction else overlap(logical, self.statistical)

    @property
    def estimate(self) -> float:
        """The best estimate, inside the interval, and no further out than any score that was seen."""
        low, high = self._seen if self._seen[0] <= self._seen[1] else (0.0, 1.0)
        return clipped(min(max(self._best_estimate, low), high), self.interval)

    @property
    def _best_estimate(self) -> float:
        return self.clock.mean


def side_accounts(alpha: float, sides: Sides) -> tuple[Account, ...]:
    """The accounts that bet on which side of a mark the target lies.

    Horizons are those of tests with the capital that is awaited to win, in strict goals too, where the two games on the
    mark start with 1: that takes 3% fewer calls where most are spent on ties, 4 to 6% more at wide gaps.
    """
    near = 2 * (1 - SPARE)
    bets = SideBets(alpha, near=near if near * alpha <= MOST_LEVEL else 1.0)
    gaps = [Account((1 - sides.share) / len(sides.gaps), KellyBets(gap)) for gap in sides.gaps]
    return (Account(sides.share, bets), *gaps)


def overlap(one: Interval, other: Interval) -> Interval:
    """What both intervals contain; inverted where that is nothing."""
    return Interval(max(one.lower, other.lower), min(one.upper, other.upper))


def far_variance(clock: Information, far: float) -> float:
    """The variance of 0/1 scores at a mean `far` standard errors nearer to 1/2 than the estimate.

    >>> far_variance(Information(count=96, mean=0.5), 0.7)
    0.25
    """
    mean = min(max(clock.mean, 0.0), 1.0)
    error = sqrt(max(mean * (1 - mean), 1 / (clock.count + 4)) / (clock.count + 1))
    nearer = min(min(mean, 1 - mean) + far * error, 0.5)
    return nearer * (1 - nearer)


def graded_share(clock: Information) -> float:
    least = 0.25 / (clock.count + 1)
    mean = min(max(clock.mean, least), 1 - least)
    return clock.variance / (LARGEST_SQUARE * mean * (1 - mean))


def clipped(value: float, interval: Interval) -> float:
    """The value in the interval that is nearest to this one.

    >>> clipped(0.5, Interval(0.25, 0.875)), clipped(0.5, Interval(0.625, 0.75))
    (0.5, 0.625)
    """
    return min(max(value, interval.lower), max(interval.upper, interval.lower))
