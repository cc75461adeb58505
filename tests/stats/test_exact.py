"""Exact intervals against integer arithmetic, and their coverage counted rather than simulated."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cereval.errors import InvalidInput
from cereval.records import Interval
from cereval.stats.exact import (
    SLACK,
    clopper_pearson,
    clopper_pearson_items,
    exact_test_items,
    hypergeometric_interval,
    hypergeometric_items,
)


def chance(count: int, n: int, size: int, ones: int) -> Fraction:
    """P(X = count), in whole numbers."""
    return Fraction(math.comb(ones, count) * math.comb(size - ones, n - count), math.comb(size, n))


def slow_interval(right: int, n: int, size: int, delta: float) -> Interval:
    """Values whose tails exceed delta/2, each counted as larger by SLACK: so one that equals it is kept."""
    tail, kept = Fraction(delta) / 2 / (1 + Fraction(SLACK)), []
    for ones in range(right, size - n + right + 1):
        at_least = sum((chance(x, n, size, ones) for x in range(right, n + 1)), Fraction(0))
        at_most = sum((chance(x, n, size, ones) for x in range(right + 1)), Fraction(0))
        if at_least > tail and at_most > tail:
            kept.append(ones)
    return Interval(kept[0] / size, kept[-1] / size)


@st.composite
def samples(draw: st.DrawFn) -> tuple[int, int, int]:
    size = draw(st.integers(1, 60))
    n = draw(st.integers(1, size))
    return draw(st.integers(0, n)), n, size


@example(sample=(0, 1, 4), delta=0.5)  # with 3 ones of 4 the lower tail is exactly delta/2
@given(sample=samples(), delta=st.floats(0.001, 0.6))
def test_the_fast_interval_is_the_slow_one(sample: tuple[int, int, int], delta: float) -> None:
    assert hypergeometric_interval(*sample, delta) == slow_interval(*sample, delta)


def test_a_tail_of_exactly_half_delta_is_kept() -> None:
    assert hypergeometric_interval(0, 1, 4, 0.5) == Interval(0.0, 0.75)


@given(size=st.integers(1, 25), delta=st.floats(0.01, 0.4), data=st.data())
def test_the_interval_covers_with_the_stated_probability(
    size: int, delta: float, data: st.DataObject
) -> None:
    n = data.draw(st.integers(1, size))
    ones = data.draw(st.integers(0, size))
    covered = sum(
        chance(x, n, size, ones)
        for x in range(max(0, n + ones - size), min(n, ones) + 1)
        if ones / size in hypergeometric_interval(x, n, size, delta)
    )
    assert covered >= 1 - Fraction(delta)


@given(n=st.integers(1, 300), share=st.floats(0, 1), delta=st.floats(0.001, 0.5))
def test_clopper_pearson_solves_its_two_equations(n: int, share: float, delta: float) -> None:
    right = round(share * n)
    interval = clopper_pearson(right, n, delta)

    def at_least(count: int, p: float) -> float:
        terms = (math.comb(n, x) * p**x * (1 - p) ** (n - x) for x in range(count, n + 1))
        return math.fsum(terms)

    assert interval.lower == 0 if right == 0 else at_least(right, interval.lower) <= delta / 2 + 1e-9
    assert interval.upper == 1 if right == n else 1 - at_least(right + 1, interval.upper) <= delta / 2 + 1e-9
    assert right / n in interval


def test_a_large_pool_is_as_good_as_endless() -> None:
    finite, endless = hypergeometric_interval(30, 200, 10**7, 0.05), clopper_pearson(30, 200, 0.05)
    assert finite.lower == pytest.approx(endless.lower, abs=1e-4)
    assert finite.upper == pytest.approx(endless.upper, abs=1e-4)


def test_a_cut_tail_never_makes_the_interval_narrower() -> None:
    """A count of 40,000 draws: the tail is cut, and still agrees with the normal limit where that is good."""
    interval = hypergeometric_interval(20_000, 40_000, 10**6, 0.05)
    normal = 1.959964 * 0.5 / math.sqrt(40_000) * math.sqrt(1 - 0.04)
    assert normal < interval.half_width < 1.02 * normal


@pytest.mark.parametrize(("mean", "reference"), [(0.5, 1640), (0.1, 765), (0.03, 310)])
def test_items_agree_with_the_reference_figures(mean: float, reference: int) -> None:
    """The reference rounds the count n * mean; ours weighs both neighbours: within 1.5% of each other."""
    ours = hypergeometric_items(mean, 0.02, 0.05, 5000)
    assert ours == pytest.approx(reference, rel=0.015)
    near = [
        n
        for n in range(int(0.9 * reference), int(1.1 * reference))
        if hypergeometric_interval(math.floor(n * mean + 1e-9), n, 5000, 0.05).half_width <= 0.02 + 1e-12
    ]
    assert min(near) <= ours <= max(near)


@given(mean=st.floats(0, 1), eps=st.floats(0.02, 0.4), size=st.integers(1, 400))
def test_items_never_exceed_the_pool_and_reach_eps(mean: float, eps: float, size: int) -> None:
    n = hypergeometric_items(mean, eps, 0.05, size)
    assert 1 <= n <= size
    neighbours = {math.floor(n * mean), math.ceil(n * mean)}
    widths = [hypergeometric_interval(right, n, size, 0.05).half_width for right in neighbours]
    assert n == size or min(widths) <= eps + 1e-9


def test_items_fall_with_eps_and_with_skew() -> None:
    counts = [clopper_pearson_items(mean, 0.05, 0.05) for mean in (0.5, 0.2, 0.05, 0.0)]
    assert counts == sorted(counts, reverse=True)
    assert clopper_pearson_items(0.5, 0.1, 0.05) < counts[0]
    assert hypergeometric_items(0.5, 0.05, 0.05, 1000) < counts[0]


def test_the_threshold_test_is_symmetric_and_ends_with_the_pool() -> None:
    assert exact_test_items(0.85, 0.8, 0.05, 2000) == exact_test_items(0.15, 0.2, 0.05, 2000)
    assert exact_test_items(0.8, 0.8, 0.05, 2000) is None
    assert exact_test_items(0.801, 0.8, 0.05, 100) == 100
    endless, finite = exact_test_items(0.85, 0.8, 0.05, None), exact_test_items(0.85, 0.8, 0.05, 2000)
    assert endless is not None
    assert finite is not None
    assert endless > finite


@pytest.mark.parametrize(
    ("right", "n", "size", "field"),
    [(1, 0, 5, "n must"), (1, 6, 5, "n must"), (6, 5, 5, "right"), (-1, 5, 5, "right")],
)
def test_impossible_counts_are_refused(right: int, n: int, size: int, field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        hypergeometric_interval(right, n, size, 0.05)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_mean_outside_zero_one_is_refused(value: float) -> None:
    with pytest.raises(InvalidInput, match="mean"):
        hypergeometric_items(value, 0.1, 0.05, 100)


def test_intervals_are_finite_and_inside_for_extremes() -> None:
    for right, n, size in ((0, 1, 1), (1, 1, 1), (0, 1, 10**6), (10**5, 10**5, 10**6)):
        interval = hypergeometric_interval(right, n, size, 1e-6)
        assert 0 <= interval.lower <= interval.upper <= 1
        assert np.isfinite([interval.lower, interval.upper]).all()
