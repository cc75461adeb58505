"""The paper's theorems as code."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cereval.errors import InvalidInput
from cereval.stats.paper_bounds import (
    check_groups,
    check_partition,
    equal_difficulty,
    group_radius,
    largest_benign,
    partition_items,
    sequential_bounds,
    super_gaussian,
)


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
        assert len(masses) <= largest_benign(eps)


def test_super_gaussian_promises_the_corollarys_ratio() -> None:
    found = super_gaussian(1.0, math.inf, 1e-6)
    assert (found.smallest, found.largest) == (1, 100)
    assert found.rho == pytest.approx(math.log(101) / 100)
    assert not super_gaussian(0.01, 0.1, 0.01).applies


def test_the_example_is_benign_where_the_corollary_says_so() -> None:
    for eps in (0.02, 1e-3, 1e-5):
        assert equal_difficulty(super_gaussian(1.0, math.inf, eps).largest, eps).benign


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


def test_groups_of_data() -> None:
    check = check_groups([1.0, 1.0, 0.0, 1.0], [0, 0, 1, 1], 0.1)
    assert [group.variance for group in check.groups] == [0.0, 0.25]
    assert [group.mass for group in check.groups] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("masses", "variances"),
    [([0.5, 0.6], [0, 0]), ([1.0], [0.3]), ([1.0], [0.1, 0.1]), ([-0.5, 1.5], [0, 0])],
)
def test_bad_groups_are_refused(masses: list[float], variances: list[float]) -> None:
    with pytest.raises(InvalidInput):
        check_partition(masses, variances, 0.1)
