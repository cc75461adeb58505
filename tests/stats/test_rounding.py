"""Rounding may only widen: slacks grow with the number of items, and a mean is right to its last digit."""

from __future__ import annotations

from fractions import Fraction
from math import fsum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cereval.forecasts.pool import Pool
from cereval.methods.base import Aim, Setting
from cereval.methods.uniform import Uniform
from cereval.stats.increments import Tally
from cereval.stats.means import MeanGames
from cereval.stats.rounding import SUM_SLACK, RunningSum, mean_of, sum_slack

MANY = 100_000


def method_after(scores: np.ndarray, asked: int) -> Uniform:
    """A method whose tally has the first scores; no bet is played, so that the logical limits are all there is."""
    method = Uniform(Setting(Pool.build(len(scores)), "benchmark", 0.05, 0, Aim(eps=0.1)))
    for item in range(asked):
        method.tally.settle(item, float(scores[item]), float(scores[item]))
    return method


@pytest.mark.slow
@pytest.mark.parametrize("asked", [MANY // 2, MANY - 1])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_limits_of_many_equal_scores_hold_their_mean(value: float, asked: int) -> None:
    logical = method_after(np.full(MANY, value), asked).logical
    assert logical.lower <= value <= logical.upper


@pytest.mark.slow
def test_limits_of_many_scores_hold_what_exact_sums_allow() -> None:
    scores = np.random.default_rng(0).uniform(size=MANY)
    method = method_after(scores, MANY - 10)
    low = sum(map(Fraction, scores[: MANY - 10].tolist())) / MANY
    assert Fraction(method.logical.lower) <= low
    assert Fraction(method.logical.upper) >= low + Fraction(10, MANY)


@pytest.mark.slow
def test_the_range_of_an_increment_holds_it_to_the_end() -> None:
    tally = Tally(np.full(MANY, 1 / MANY), replacement=False)
    for item in range(MANY):
        prospect = tally.prospect()
        increment = tally.settle(item, 1.0, 1.0)
        assert prospect.floor <= increment.low <= increment.high <= prospect.ceiling


def test_small_pools_keep_the_slack_that_they_had() -> None:
    assert {sum_slack(terms) for terms in (1, 100, 2000)} == {SUM_SLACK}
    assert sum_slack(MANY) == pytest.approx(4.44e-11, rel=0.01)


@pytest.mark.slow
def test_the_means_of_many_models_hold_them() -> None:
    games = MeanGames(5000, models=1, alpha=0.01)
    scores = np.random.default_rng(1).uniform(size=5000)
    for score in scores:
        games.play(np.array([0]), low=np.array([score]), high=np.array([score]))
    (lower,), (upper,) = games.limits()
    exact = sum(map(Fraction, scores.tolist())) / 5000
    assert Fraction(lower) <= exact <= Fraction(upper)


@pytest.mark.slow
@given(st.floats(0, 1), st.integers(1, 300))
def test_the_mean_of_equal_numbers_is_that_number(value: float, count: int) -> None:
    assert mean_of([value] * count) == value


@pytest.mark.slow
@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_a_mean_is_right_to_its_last_digit(values: list[float]) -> None:
    exact = sum(map(Fraction, values)) / len(values)
    found = mean_of(values)
    assert abs(Fraction(found) - exact) <= Fraction(np.spacing(found))


@pytest.mark.slow
@given(st.lists(st.floats(-1e300, 1e300) | st.floats(0, 1), max_size=60))
def test_a_running_sum_is_that_of_all_terms(terms: list[float]) -> None:
    total = RunningSum()
    for count, term in enumerate(terms, start=1):
        total.add(term)
        assert total.value == fsum(terms[:count])
