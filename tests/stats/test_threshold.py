"""Threshold tests, and the correction for their number."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cereval.errors import InvalidInput
from cereval.stats.increments import Tally
from cereval.stats.information import Information
from cereval.stats.threshold import ThresholdTest, holm

E_VALUES = st.lists(st.floats(0, 500), min_size=1, max_size=6)


def played(scores: list[float], order: tuple[int, ...], threshold: float) -> ThresholdTest:
    test = ThresholdTest(threshold, 0.05)
    tally, clock = Tally(np.full(len(scores), 1 / len(scores)), replacement=False), Information()
    for item in order:
        prospect = tally.prospect()
        test.stake(prospect, clock)
        increment = tally.settle(item, scores[item], scores[item])
        test.settle(increment)
        clock.add(increment.low, prospect.variance)
    return test


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.sampled_from([0.0, 0.4, 1.0]), min_size=2, max_size=5).filter(lambda z: 0 < np.mean(z) < 1)
)
def test_both_wealths_are_martingales_when_the_mean_is_the_threshold(scores: list[float]) -> None:
    tests = [played(scores, order, float(np.mean(scores))) for order in permutations(range(len(scores)))]
    wealth = np.mean([np.exp(np.logaddexp.reduce(test._wealth, axis=1)) for test in tests], axis=0)
    assert wealth == pytest.approx([1.0, 1.0], rel=1e-6)


@pytest.mark.parametrize(("threshold", "above"), [(0.3, True), (0.7, False)])
def test_a_full_pass_decides_on_the_right_side(threshold: float, above: bool) -> None:
    test = played([1.0, 0.0] * 200, tuple(range(400)), threshold)
    assert (test.above, test.below) == (above, not above)


def test_a_certified_answer_is_not_taken_back() -> None:
    test = played([1.0] * 40 + [0.0] * 360, tuple(range(400)), 0.5)
    assert test.above
    assert test.below


def test_nothing_is_certified_before_the_first_result() -> None:
    test = ThresholdTest(0.5, 0.05)
    assert not test.above
    assert not test.below


@given(E_VALUES, st.floats(0.01, 0.5))
def test_holm_equals_the_closed_test_of_bonferroni_tests(values: list[float], delta: float) -> None:
    """A null is rejected when every set that holds it is: some e-value of the set >= its size / delta."""
    nulls = range(len(values))
    sets = [set(s) for size in range(1, len(values) + 1) for s in combinations(nulls, size)]
    local = [max(values[i] for i in s) >= len(s) / delta for s in sets]
    closed = tuple(all(out for s, out in zip(sets, local, strict=True) if i in s) for i in nulls)
    assert holm(values, delta) == closed


@pytest.mark.parametrize("values", [[], [-1.0], [float("nan")], [[1.0]]])
def test_e_values_are_checked(values: list[float]) -> None:
    with pytest.raises(InvalidInput, match="e_values"):
        holm(values, 0.05)
