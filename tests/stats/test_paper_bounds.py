"""The paper's radii and theorems: reference counts, monotony, and coverage on a fixed seed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from cereval.errors import InvalidInput
from cereval.stats.paper_bounds import (
    adaptive_hoeffding,
    adaptive_hoeffding_items,
    check_partition,
    group_items,
    group_radius,
    group_slope,
    hoeffding,
    hoeffding_items,
    iterated_log,
    partition_items,
    sequential_bounds,
    worst_variance,
)

Floats = NDArray[np.float64]

deltas = st.floats(1e-6, 0.5)
counts = st.integers(1, 10**7)
variances = st.floats(0, 0.25)


def adaptive_bernstein(n: ArrayLike, variance: float, delta: float) -> Floats:
    """eps_n of lemma B.5: P(exists n: mean_n - R >= eps_n) <= delta/2 when the variance is *known*.

    The lemma's v_2n, the summed variance of 2n draws, is 2 n `variance` for identically distributed draws.
    """
    u, summed = iterated_log(n, math.log(4 / delta)), 2.0 * np.asarray(n) * variance
    return np.asarray((u + np.sqrt(u**2 + 18.0 * summed * u)) / (3.0 * np.asarray(n)))


def test_reference_counts() -> None:
    assert adaptive_hoeffding_items(0.05, 0.05) == 3799
    assert hoeffding_items(0.05, 0.05) == 738
    assert group_items(0.02, 0.05) == 5723
    assert adaptive_hoeffding_items(0.02, 0.05) > 5000


def test_one_sided_radius_is_the_papers_eps_star() -> None:
    assert float(hoeffding(5000, 0.05, two_sided=False)) == pytest.approx(np.sqrt(np.log(20) / 10_000))


@given(n=counts, delta=deltas)
def test_adaptive_hoeffding_falls_and_is_wider_than_fixed_n(n: int, delta: float) -> None:
    assert adaptive_hoeffding(n + 1, delta) < adaptive_hoeffding(n, delta)
    assert adaptive_hoeffding(n, delta) > hoeffding(n, delta)


@given(eps=st.floats(1e-4, 0.9), delta=deltas)
def test_stopping_time_is_the_first_count_that_reaches_eps(eps: float, delta: float) -> None:
    n = adaptive_hoeffding_items(eps, delta)
    assert adaptive_hoeffding(n, delta) <= eps
    assert n == 1 or adaptive_hoeffding(n - 1, delta) > eps


@given(n=st.integers(10, 10**6), v=variances, k=st.integers(1, 20), delta=deltas)
def test_slope_is_the_derivative_of_the_radius(n: int, v: float, k: int, delta: float) -> None:
    radius = float(group_radius(n, v, k, delta))
    if radius < 1:
        step = n * 1e-4
        numeric = (group_radius(n - step, v, k, delta) - group_radius(n + step, v, k, delta)) / (2 * step)
        if float(group_radius(n - step, v, k, delta)) < 1:
            assert float(group_slope(n, v, k, delta)) == pytest.approx(float(numeric), rel=1e-3)


@given(n=counts, v=variances, k=st.integers(1, 20), delta=deltas)
def test_group_radius_grows_with_variance_and_groups_not_with_draws(
    n: int, v: float, k: int, delta: float
) -> None:
    radius = group_radius(n, v, k, delta)
    assert 0 < radius <= 1
    assert radius >= group_radius(n, 0.0, k, delta)
    assert radius <= group_radius(n, v, k + 1, delta)
    assert radius >= group_radius(n + 1, v, k, delta)


def test_no_draws_mean_radius_one_and_infinite_slope() -> None:
    assert float(group_radius(0, 0.1, 3, 0.05)) == 1.0
    assert float(group_slope(0, 0.1, 3, 0.05)) == np.inf


@given(
    known=st.lists(st.floats(0, 1), max_size=6),
    lost=st.lists(st.floats(0, 1), min_size=0, max_size=4),
)
def test_worst_variance_bounds_every_completion(known: list[float], lost: list[float]) -> None:
    values = np.array(known + lost)
    if len(values):
        total, squares = float(np.sum(known)), float(np.sum(np.square(known)))
        worst = float(worst_variance(len(values), total, squares, len(lost)))
        assert worst >= values.var() - 1e-12
        assert lost or worst == pytest.approx(values.var(), abs=1e-12)


def test_adaptive_radii_hold_at_all_times_without_replacement() -> None:
    """400 runs, two-sided: at most .83 delta; a binomial with p = .05 exceeds 38 with probability 1e-4."""
    rng = np.random.default_rng(5)
    times = np.arange(1, 501)
    misses = dict.fromkeys(("hoeffding", "bernstein", "group"), 0)
    for _ in range(400):
        population = (rng.uniform(size=500) < 0.3).astype(float)
        running = np.cumsum(rng.permutation(population)) / times
        off = np.abs(running - population.mean())
        variance = running * (1 - running)
        misses["hoeffding"] += bool((off > adaptive_hoeffding(times, 0.05)).any())
        misses["bernstein"] += bool((off > adaptive_bernstein(times, population.var(), 0.05)).any())
        misses["group"] += bool((off > group_radius(times, variance, 1, 0.05)).any())
    assert max(misses.values()) <= 38


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, float("nan")])
def test_a_delta_outside_zero_one_is_refused(delta: float) -> None:
    with pytest.raises(InvalidInput, match="delta"):
        adaptive_hoeffding(10, delta)


@pytest.mark.parametrize("eps", [0.0, 1.0, float("nan")])
def test_an_eps_outside_zero_one_is_refused(eps: float) -> None:
    with pytest.raises(InvalidInput, match="eps"):
        hoeffding_items(eps, 0.05)


@given(eps=st.floats(1e-3, 0.3), delta=st.floats(1e-6, 0.5))
def test_the_proofs_bound_covers_seq(eps: float, delta: float) -> None:
    bounds = sequential_bounds(eps, delta)
    assert bounds.fixed_n < bounds.stopping_time <= bounds.upper
    assert bounds.order < bounds.upper


@given(masses=st.lists(st.floats(0.01, 1), min_size=1, max_size=8), eps=st.floats(1e-3, 0.3), data=st.data())
def test_a_benign_partition_never_promises_more_than_all(
    masses: list[float], eps: float, data: st.DataObject
) -> None:
    variances = data.draw(st.lists(st.floats(0, 0.25), min_size=len(masses), max_size=len(masses)))
    check = check_partition(np.array(masses) / np.sum(masses), variances, eps)
    assert check.rho == pytest.approx(
        math.log(len(masses) + 1) * sum(max(v, eps ** (2 / 3)) for v in variances)
    )
    if check.benign:
        assert check.rho <= 1 + 1e-9
        assert len(masses) * math.log(len(masses) + 1) * eps ** (2 / 3) <= 1 + 1e-9


def test_the_example_is_benign_where_the_corollary_says_so() -> None:
    """Example 5.4: K levels of equal size with losses uniform on [(k - 1)/K, k/K]; corollary 5.3: K <= eps^(-1/3)."""
    for eps in (0.02, 1e-3, 1e-5):
        levels = math.floor(round(eps ** (-1 / 3), 9))
        equal, variances = np.full(levels, 1 / levels), np.full(levels, 1 / (12 * levels**2))
        assert check_partition(equal, variances, eps).benign


def test_partition_items_matches_a_greedy_run_of_algorithm_2() -> None:
    masses, variances = np.array([0.7, 0.3]), np.array([0.02, 0.2])
    n = np.array([50.0, 50.0])
    while masses @ group_radius(n, variances, 2, 0.05) > 0.1:
        gain = masses * (group_radius(n, variances, 2, 0.05) - group_radius(n + 1, variances, 2, 0.05))
        n[np.argmax(gain)] += 1
    assert partition_items(masses, variances, 0.1, 0.05) == pytest.approx(n.sum(), abs=2)


def test_true_groups_cost_more_than_none_with_the_printed_constants() -> None:
    """S2 at eps = .05: three groups add their radii, so knowing the partition does not pay."""
    assert partition_items([1 / 3] * 3, [0.049] * 3, 0.05, 0.05) > partition_items([1.0], [0.08], 0.05, 0.05)


@pytest.mark.parametrize(
    ("masses", "variances"),
    [([0.5, 0.6], [0, 0]), ([1.0], [0.3]), ([1.0], [0.1, 0.1]), ([-0.5, 1.5], [0, 0])],
)
def test_bad_groups_are_refused(masses: list[float], variances: list[float]) -> None:
    with pytest.raises(InvalidInput):
        check_partition(masses, variances, 0.1)
