"""Bet rules: never negative, never NaN, and in the right direction; and the limit of the best bets."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.limits import Chance, even_chance, win
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from cereval.stats.bets import (
    BetRule,
    DeadlineBets,
    HedgedBets,
    KellyBets,
    Position,
    SideBets,
    exact_slope,
    null_variance,
    quick_slope,
)
from cereval.stats.increments import Prospect
from cereval.stats.information import Information

RULES: list[BetRule] = [
    DeadlineBets(0.025),
    SideBets(0.025),
    KellyBets(),
    HedgedBets(0.025),
]
CANDIDATES = np.linspace(0, 1, 11)


def position(log_wealth: float = 0.0, count: int = 10, variance: float = 1.0, seen: float = 0.1) -> Position:
    clock = Information()
    for index in range(count):
        clock.add(float(index % 2), 1.0)
    prospect = Prospect(-0.1, 1.1, variance, seen, seen, 0.8)
    wealth = np.full((2, len(CANDIDATES)), log_wealth)
    return Position(
        CANDIDATES, wealth, null_variance(CANDIDATES, prospect, clock), prospect, clock, 100.0, 0.05
    )


@given(
    st.sampled_from(RULES), st.floats(-600, 10), st.integers(0, 300), st.floats(1e-9, 1e3), st.floats(0, 0.2)
)
def test_stakes_are_finite_and_never_negative(
    rule: BetRule, log_wealth: float, count: int, variance: float, seen: float
) -> None:
    stakes = rule.stakes(position(log_wealth, count, variance, seen))
    assert stakes.shape == (2, len(CANDIDATES))
    assert np.isfinite(stakes).all()
    assert (stakes >= 0).all()


def test_deadline_bets_grow_as_wealth_falls_behind() -> None:
    rich, poor = (DeadlineBets(0.025).stakes(position(wealth)) for wealth in (2.0, -2.0))
    assert (poor > rich).all()


def test_deadline_bets_stop_once_the_account_has_won() -> None:
    won = DeadlineBets(0.025).stakes(position(np.log(1 / 0.025) + 1))
    assert won.max() < 1e-3 * DeadlineBets(0.025).stakes(position(0.0)).min()


def test_kelly_is_eps_over_the_variance_of_the_increment() -> None:
    here = position(variance=0.5)
    assert KellyBets().stakes(here) == pytest.approx(0.05 / (here.null_variance * 0.5))


def test_the_null_variance_scales_as_a_bernoulli_with_the_mean_that_the_unseen_would_have() -> None:
    here = position(seen=0.1)
    unseen_means = (CANDIDATES[2:8] - 0.1) / 0.8
    expected = unseen_means * (1 - unseen_means)
    scaled = here.null_variance[0, 2:8]
    assert scaled / scaled[0] == pytest.approx(expected / expected[0])


def test_where_scores_are_counted_the_mean_of_the_unseen_states_the_variance() -> None:
    prospect, clock = Prospect(0.1, 0.9, 0.16, 0.1, 0.1, 0.8), Information(counts=True)
    clock.add(0.9, 0.25)
    found = null_variance(np.array([0.3, 0.5, 0.9]), prospect, clock) * prospect.variance
    means = np.array([0.25, 0.5, 1.0])
    assert found[:, :2] == pytest.approx(np.tile(0.64 * means * (1 - means), (2, 1))[:, :2])
    assert (found[:, 2] > 0).all()


def test_the_quick_slope_is_the_exact_one_to_a_thousandth() -> None:
    log_chance = -np.geomspace(0.01, 69, 2_000)
    assert np.allclose(quick_slope(log_chance), exact_slope(log_chance), rtol=1e-3, atol=0)


def test_an_account_that_has_won_or_is_ruined_bets_as_at_the_last_chance_that_counts() -> None:
    beyond = np.array([5.0, 0.0, -1e-9, -80.0, -1e4])
    won, ruined = quick_slope(beyond)[:3], quick_slope(beyond)[3:]
    assert (won < 1e-4).all()
    assert np.allclose(ruined, exact_slope(beyond)[3:], rtol=1e-3)


COIN = Chance(np.array([-1.0, 1.0]), np.array([0.5, 0.5]), lowest=-1.0, highest=1.0)


def power(draws: int, away: float, alpha: float) -> float:
    """Of the most powerful test, which draws lots on its boundary, that the mean of +-1 is `away` where it is 0."""
    heads = np.arange(draws + 1)
    under_null, under_truth = binom.pmf(heads, draws, (1 + away) / 2), binom.pmf(heads, draws, 0.5)
    boundary = int(np.searchsorted(np.cumsum(under_null), alpha))
    lots = (alpha - under_null[:boundary].sum()) / under_null[boundary]
    return float(under_truth[:boundary].sum() + lots * under_truth[boundary])


@pytest.mark.parametrize(("draws", "away", "alpha"), [(60, 0.2, 0.025), (60, 0.2, 0.04), (200, 0.1, 0.025)])
@pytest.mark.parametrize("side", [1, -1])
def test_best_bets_on_a_coin_are_nearly_the_most_powerful_test(draws, away, alpha, side):
    best = power(draws, away, alpha)
    assert 0.95 * best < win([COIN] * draws, side * away, alpha) <= best + 1e-3


def test_an_even_chance_takes_as_many_draws_as_that_test():
    found = even_chance([COIN] * 150, 0.2, 0.025)
    assert power(round(0.95 * found), 0.2, 0.025) < 0.5 <= power(round(1.02 * found), 0.2, 0.025)


def test_too_few_draws_are_said_to_be():
    assert even_chance([COIN] * 30, 0.1, 0.025) == float("inf")
