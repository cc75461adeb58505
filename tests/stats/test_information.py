"""The clock against numpy's weighted moments."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cereval.stats.information import (
    LARGEST_SQUARE,
    LEVEL_WEIGHT,
    MISLED,
    PRIOR_WEIGHT,
    Information,
    information_ahead,
)

RESULTS = st.lists(st.tuples(st.floats(-1, 2), st.floats(0.01, 10)), min_size=1, max_size=40)


@given(RESULTS)
def test_mean_total_and_variance_equal_the_two_pass_formulas(results: list[tuple[float, float]]) -> None:
    clock = Information()
    for value, relative in results:
        clock.add(value, relative)
    values, weights = np.array([v for v, _ in results]), np.array([1 / r for _, r in results])
    mean = float(np.average(values, weights=weights))
    squares = float(weights @ (values - mean) ** 2)
    assert clock.total == pytest.approx(weights.sum())
    assert clock.mean == pytest.approx(mean, abs=1e-9)
    expected = (squares + PRIOR_WEIGHT * LARGEST_SQUARE / 4) / (len(results) + PRIOR_WEIGHT)
    assert clock.variance == pytest.approx(expected, abs=1e-7)


@given(RESULTS, st.floats(0, 3))
def test_caution_only_adds(results: list[tuple[float, float]], caution: float) -> None:
    clock = Information()
    for value, relative in results:
        clock.add(value, relative)
    assert clock.cautious_variance(caution) >= clock.variance


def seen(values: list[float], level: float) -> Information:
    clock = Information()
    for value in values:
        clock.add(value, 1.0, level=level)
    return clock


def test_an_expected_variance_counts_for_so_many_results() -> None:
    values = [0.4, 0.6] * 50
    own = seen(values, 0.0).squares
    expected = (own + LEVEL_WEIGHT * 0.02 + PRIOR_WEIGHT * LARGEST_SQUARE / 4) / (
        100 + LEVEL_WEIGHT + PRIOR_WEIGHT
    )
    assert seen(values, 0.02).variance == pytest.approx(expected)
    assert seen(values, 0.01).cautious_variance(1.0) < seen(values, 0.0).cautious_variance(1.0)


def test_increments_that_vary_more_than_expected_are_believed() -> None:
    clock = seen([0.0, 1.0] * 200, 0.01)
    assert clock.variance == pytest.approx(MISLED * 0.25, rel=0.05)


def test_uniform_draws_give_the_finite_population_correction() -> None:
    size, calls = 400, 100
    clock = Information()
    for step in range(calls):
        clock.add(0.5, (1 - step / size) ** 2)
    assert clock.total == pytest.approx(calls / (1 - calls / size), rel=0.01)
    assert clock.total == pytest.approx(information_ahead(calls, 1.0, size), rel=0.01)


def test_with_replacement_information_is_the_number_of_calls() -> None:
    assert information_ahead(50, 0.5, None) == 100.0


def test_before_any_result_nothing_is_known() -> None:
    assert Information().standard_error == 0.5
