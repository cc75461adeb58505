"""The betting table: a martingale by enumeration, and equal to a slow and obvious version."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cereval.errors import InvalidInput
from cereval.stats.bets import BetRule, DeadlineBets, HedgedBets, KellyBets, Position, null_variance
from cereval.stats.increments import Increment, Prospect, Tally
from cereval.stats.information import Information
from cereval.stats.interval import CAP, ROUNDING, Account, BettingTable, grid, sided_capital, starting_capital

Floats = NDArray[np.float64]


ALPHA = 0.05


class SlowTable:
    """The theorem word by word: one candidate, one side and one step at a time, wealth as a plain number."""

    def __init__(
        self, candidates: Floats, alpha: float, accounts: tuple[Account, ...], tilt: float = 0.0
    ) -> None:
        self.candidates = [float(m) for m in candidates]
        self.accounts = accounts
        self.needed = math.exp(math.log(1 / alpha) + ROUNDING)
        step = max(np.diff(candidates))
        self.wealth = [
            [
                [account.share * (1 + sign * tilt * (1 - 2 * m)) / (1 + tilt * step) for account in accounts]
                for m in self.candidates
            ]
            for sign in (-1, 1)
        ]
        self.rejected = [[False] * len(self.candidates) for _ in range(2)]

    def step(self, prospect: Prospect, clock: Information, needed: float, eps: float, x: Increment) -> None:
        for index in self.open():
            for side in range(2):
                self._play(side, index, prospect, clock, needed, eps, x)

    def open(self) -> list[int]:
        return [i for i in range(len(self.candidates)) if i >= self.prefix() and i < self.suffix()]

    def prefix(self) -> int:
        return next((i for i, out in enumerate(self.rejected[0]) if not out), len(self.candidates))

    def suffix(self) -> int:
        kept = [i for i, out in enumerate(self.rejected[1]) if not out]
        return kept[-1] + 1 if kept else 0

    def _play(
        self,
        side: int,
        index: int,
        prospect: Prospect,
        clock: Information,
        needed: float,
        eps: float,
        x: Increment,
    ) -> None:
        m = self.candidates[index]
        room = m - prospect.floor if side == 0 else prospect.ceiling - m
        gain = x.low - m if side == 0 else m - x.high
        purses = self.wealth[side][index]
        for number, account in enumerate(self.accounts):
            stake = self._stake(account.rule, side, m, purses[number], prospect, clock, needed, eps)
            purses[number] *= 1 + min(stake, CAP / max(room, 1e-12)) * gain
        if sum(purses) >= self.needed:
            self.rejected[side][index] = True

    def _stake(
        self,
        rule: BetRule,
        side: int,
        m: float,
        wealth: float,
        prospect: Prospect,
        clock: Information,
        needed: float,
        eps: float,
    ) -> float:
        candidate = np.array([m])
        position = Position(
            candidate,
            np.full((2, 1), math.log(wealth)),
            null_variance(candidate, prospect, clock),
            prospect,
            clock,
            needed,
            eps,
        )
        return float(rule.stakes(position)[side, 0])


MIXES = (
    (Account(0.9, DeadlineBets(ALPHA)), Account(0.1, KellyBets())),
    (Account(1.0, HedgedBets(ALPHA)),),
    (Account(0.5, KellyBets()), Account(0.3, HedgedBets(ALPHA)), Account(0.2, DeadlineBets(ALPHA))),
)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.sampled_from([0.0, 0.3, 1.0]), min_size=1, max_size=25),
    st.sampled_from(MIXES),
    st.sets(st.integers(0, 24), max_size=4),
    st.sampled_from([0.0, 0.3]),
)
def test_the_fast_table_equals_the_slow_one(
    scores: list[float], accounts: tuple[Account, ...], failed: set[int], tilt: float
) -> None:
    candidates = grid(0.1)
    fast = BettingTable(candidates, ALPHA, accounts, start=starting_capital(candidates, tilt))
    slow = SlowTable(candidates, ALPHA, accounts, tilt)
    tally, clock = Tally(np.full(len(scores), 1 / len(scores)), replacement=False), Information()
    for item, score in enumerate(scores):
        prospect = tally.prospect()
        fast.stake(prospect, clock, information_needed=30.0, eps=0.1)
        x = tally.settle(item, *((0.0, 1.0) if item in failed else (score, score)))
        fast.settle(x)
        slow.step(prospect, clock, 30.0, 0.1, x)
        clock.add((x.low + x.high) / 2, prospect.variance)
        first, last = slow.prefix(), slow.suffix()
        assert fast.lower == (slow.candidates[first - 1] if first else 0.0)
        assert fast.upper == (slow.candidates[last] if last < len(candidates) else 1.0)
        assert fast.contradiction == (first > last)


@given(st.floats(0.0, 0.99), st.floats(0.001, 0.5), st.floats(0.0, 1.0))
def test_a_tilt_gives_the_two_games_that_can_miss_no_more_than_two_together(
    tilt: float, step: float, truth: float
) -> None:
    candidates = grid(step)
    against_low, against_high = starting_capital(candidates, tilt)
    assert (against_low > 0).all()
    assert (against_high > 0).all()
    above = against_low[np.searchsorted(candidates, truth)]
    below = against_high[np.searchsorted(candidates, truth, side="right") - 1]
    assert above + below <= 2 + 1e-12
    assert (against_high >= against_low)[candidates <= 0.5].all()


@pytest.mark.parametrize("tilt", [-0.1, 1.0, float("nan")])
def test_a_tilt_outside_its_range_is_refused(tilt: float) -> None:
    with pytest.raises(InvalidInput, match="tilt must be a number in"):
        starting_capital(grid(0.1), tilt)


@given(st.floats(0.001, 0.5), st.floats(0.001, 0.5), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.booleans())
def test_sides_of_a_mark_give_the_two_games_that_can_miss_no_more_than_two_together(
    spare: float, step: float, mark: float, truth: float, strict: bool
) -> None:
    candidates = np.union1d(grid(step), mark)
    against_low, against_high = sided_capital(candidates, mark, spare, strict=strict)
    above = against_low[np.searchsorted(candidates, truth)]
    below = against_high[np.searchsorted(candidates, truth, side="right") - 1]
    assert truth == mark or above + below <= 2 + 1e-12
    (spot,) = np.flatnonzero(candidates == mark)
    if strict:
        assert against_low[spot] == against_high[spot] == 1
    # A target on the mark: "below it" is wrong, and so is every interval that begins after it.
    later = against_low[spot + 1] if spot + 1 < len(candidates) else 0.0
    assert against_high[spot] + later <= 2 + 1e-12


@pytest.mark.parametrize("spare", [0.0, 0.6, float("nan")])
def test_a_spare_share_outside_its_range_is_refused(spare: float) -> None:
    with pytest.raises(InvalidInput, match="spare must be a number in"):
        sided_capital(grid(0.1), 0.5, spare, strict=True)


def wealths(scores: list[float], order: tuple[int, ...], rule: BetRule, m: float) -> tuple[float, float]:
    """Final K+ and K- of one account at one candidate; alpha is so small that nothing closes early."""
    table = BettingTable(np.array([m]), 1e-200, (Account(1.0, rule),))
    tally, clock = Tally(np.full(len(scores), 1 / len(scores)), replacement=False), Information()
    for item in order:
        prospect = tally.prospect()
        table.stake(prospect, clock, information_needed=20.0, eps=0.1)
        increment = tally.settle(item, scores[item], scores[item])
        table.settle(increment)
        clock.add(increment.low, prospect.variance)
    against_low, against_high = np.exp(table._wealth[0][:, 0])
    return float(against_low), float(against_high)


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=1, max_size=5),
    st.sampled_from([DeadlineBets(ALPHA), KellyBets(), HedgedBets(ALPHA)]),
)
def test_wealth_is_a_martingale_at_the_truth_over_all_orders(scores: list[float], rule: BetRule) -> None:
    truth = float(np.mean(scores))
    played = [wealths(scores, order, rule, truth) for order in permutations(range(len(scores)))]
    assert np.mean(played, axis=0) == pytest.approx([1.0, 1.0], rel=1e-6)


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=2, max_size=5),
    st.sampled_from([DeadlineBets(ALPHA), KellyBets(), HedgedBets(ALPHA)]),
    st.floats(0.0, 0.3),
)
def test_wealth_falls_on_average_under_each_null(scores: list[float], rule: BetRule, gap: float) -> None:
    truth = float(np.mean(scores))
    orders = list(permutations(range(len(scores))))
    above = [wealths(scores, order, rule, min(truth + gap, 1.0))[0] for order in orders]
    below = [wealths(scores, order, rule, max(truth - gap, 0.0))[1] for order in orders]
    assert np.mean(above) <= 1 + 1e-6
    assert np.mean(below) <= 1 + 1e-6


class AllIn:
    """A reckless rule: the cap must save it."""

    def stakes(self, position: Position) -> Floats:
        return np.full_like(position.log_wealth, 1e30)


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=40))
def test_no_bet_can_lose_everything(scores: list[float]) -> None:
    table = BettingTable(grid(0.05), 1e-300, (Account(1.0, AllIn()),))
    tally, clock = Tally(np.full(len(scores), 1 / len(scores)), replacement=False), Information()
    for item, score in enumerate(scores):
        before = table._wealth[0].copy()
        table.stake(tally.prospect(), clock, information_needed=1.0, eps=0.1)
        table.settle(tally.settle(item, score, score))
        assert (table._wealth[0] - before >= math.log1p(-CAP) - 1e-6).all()


def forced(table: BettingTable, low: float, high: float) -> None:
    """An increment that no fair game would pay: above every candidate in K+, under every one in K-."""
    prospect = Prospect(-0.1, 1.1, 0.01, 0.0, 0.0, 1.0)
    table.stake(prospect, Information(), information_needed=10.0, eps=0.1)
    table.settle(Increment(low, high))


def test_a_contradiction_is_reported_once_the_rejections_cross() -> None:
    table = BettingTable(grid(0.1), ALPHA, (Account(1.0, AllIn()),))
    while not table.contradiction:
        forced(table, low=1.1, high=-0.1)
    assert table.lower >= table.upper
    forced(table, low=1.1, high=-0.1)
    assert table.contradiction


def test_values_rejected_behind_an_open_one_do_not_move_the_limit() -> None:
    table = BettingTable(np.array([0.0, 0.5, 1.0]), ALPHA, (Account(1.0, KellyBets()),))
    table._rejected[0] = [False, True, True]
    table._close()
    assert (table.lower, table.upper) == (0.0, 1.0)
    table._rejected[0, 0] = True
    table._close()
    assert table.lower == 1.0


@given(st.floats(1e-3, 1.0))
def test_the_grid_spans_the_unit_interval_in_steps_at_most_as_asked(step: float) -> None:
    candidates = grid(step)
    assert candidates[0] == 0.0
    assert candidates[-1] == 1.0
    assert np.diff(candidates).max() <= step + 1e-15


def refined(scores: list[float], order: tuple[int, ...], rule: BetRule, at: int) -> BettingTable:
    """A table on three values whose grid is divided into steps of 1/10 after `at` results."""
    table = BettingTable(np.array([0.0, 0.5, 1.0]), 1e-200, (Account(1.0, rule),))
    tally, clock = Tally(np.full(len(scores), 1 / len(scores)), replacement=False), Information()
    for step, item in enumerate(order):
        if step == at:
            table.refine(0.1)
        prospect = tally.prospect()
        table.stake(prospect, clock, information_needed=20.0, eps=0.1)
        increment = tally.settle(item, scores[item], scores[item])
        table.settle(increment)
        clock.add(increment.low, prospect.variance)
    return table


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=2, max_size=5),
    st.sampled_from([DeadlineBets(ALPHA), KellyBets(), HedgedBets(ALPHA)]),
    st.integers(0, 4),
)
def test_wealth_stays_a_supermartingale_when_the_grid_is_divided(
    scores: list[float], rule: BetRule, at: int
) -> None:
    truth = float(np.mean(scores))
    at = min(at, len(scores) - 1)
    tables = [refined(scores, order, rule, at) for order in permutations(range(len(scores)))]
    candidates = tables[0].candidates
    above = int(np.flatnonzero(candidates >= truth - 1e-12)[0])
    below = int(np.flatnonzero(candidates <= truth + 1e-12)[-1])
    assert np.mean([np.exp(table._wealth[0][0, above]) for table in tables]) <= 1 + 1e-6
    assert np.mean([np.exp(table._wealth[0][1, below]) for table in tables]) <= 1 + 1e-6


@given(st.integers(0, 4), st.integers(0, 4), st.sampled_from([0.3, 0.1, 0.01]))
def test_dividing_the_grid_keeps_the_limits_and_the_old_values(low: int, high: int, step: float) -> None:
    table = BettingTable(grid(0.25), ALPHA, (Account(1.0, KellyBets()),))
    table._rejected[0, :low] = True
    table._rejected[1, 5 - high :] = True
    table._close()
    limits, old = (table.lower, table.upper, table.contradiction), table.candidates
    table.refine(step)
    assert np.diff(table.candidates).max() <= step + 1e-12
    assert set(old.tolist()) <= set(table.candidates.tolist())
    assert (table.lower, table.upper, table.contradiction) == limits
