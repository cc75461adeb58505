"""The increments against their definition, by enumeration over tiny pools."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cereval.stats.increments import Increment, Outlook, Tally

Floats = NDArray[np.float64]

UNIT = st.floats(0, 1, allow_nan=False)
SIZES = st.integers(1, 5)


def several(size: int, elements: st.SearchStrategy[float]) -> st.SearchStrategy[Floats]:
    return st.lists(elements, min_size=size, max_size=size).map(np.array)


@st.composite
def pools(draw: st.DrawFn) -> tuple[Floats, Floats, Outlook]:
    """Scores, target shares (some zero) and an outlook whose weights are positive where the shares are."""
    size = draw(SIZES)
    raw = draw(several(size, st.sampled_from([0.0, 0.01, 1.0, 3.0, 50.0])).filter(lambda w: w.sum() > 0))
    tilt = draw(several(size, st.floats(0.05, 20)))
    outlook = Outlook(draw(several(size, UNIT)), draw(several(size, st.floats(0.01, 1))), raw * tilt)
    return draw(several(size, UNIT)), raw / raw.sum(), outlook


def looking(shares: Floats, outlook: Outlook, *, replacement: bool = False) -> Tally:
    tally = Tally(shares, replacement=replacement)
    tally.turn_to(outlook)
    return tally


def after(shares: Floats, outlook: Outlook, scores: Floats, path: tuple[int, ...]) -> Tally:
    tally = looking(shares, outlook)
    for item in path:
        tally.settle(item, scores[item], scores[item])
    return tally


def chances(weights: Floats, left: list[int]) -> Floats:
    return weights[left] / weights[left].sum()


def drawable(shares: Floats) -> list[int]:
    return [int(item) for item in np.flatnonzero(shares > 0)]


@given(pools(), st.integers(0, 3))
def test_the_mean_of_the_next_increment_is_the_target_after_any_path(
    pool: tuple[Floats, Floats, Outlook], steps: int
) -> None:
    scores, shares, outlook = pool
    items = drawable(shares)
    for path in list(permutations(items, min(steps, len(items) - 1)))[:12]:
        left = [item for item in items if item not in path]
        increments = [
            after(shares, outlook, scores, path).settle(item, scores[item], scores[item]).low for item in left
        ]
        assert chances(outlook.weights, left) @ increments == pytest.approx(shares @ scores, abs=1e-9)


@given(pools())
def test_with_replacement_the_mean_stays_the_target(pool: tuple[Floats, Floats, Outlook]) -> None:
    scores, shares, outlook = pool
    items = drawable(shares)
    tally = looking(shares, outlook, replacement=True)
    for _ in range(2):
        increments = [tally.settle(item, scores[item], scores[item]).high for item in items]
        assert chances(outlook.weights, items) @ increments == pytest.approx(shares @ scores, abs=1e-9)


@given(pools(), st.data())
def test_failed_calls_move_the_means_outwards_by_exactly_their_share(
    pool: tuple[Floats, Floats, Outlook], data: st.DataObject
) -> None:
    scores, shares, outlook = pool
    failed = np.array(data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores))))
    low, high = np.where(failed, 0.0, scores), np.where(failed, 1.0, scores)
    items = drawable(shares)
    first, rest = items[0], items[1:] or items
    fresh = [_settled(shares, outlook, first, low, high, item, replacement=len(items) == 1) for item in rest]
    share = chances(outlook.weights, rest)
    assert share @ [one.low for one in fresh] == pytest.approx(shares @ low, abs=1e-9)
    assert share @ [one.high for one in fresh] == pytest.approx(shares @ high, abs=1e-9)


def _settled(
    shares: Floats, outlook: Outlook, first: int, low: Floats, high: Floats, item: int, *, replacement: bool
) -> Increment:
    tally = looking(shares, outlook, replacement=replacement)
    tally.settle(first, low[first], high[first])
    return tally.settle(item, low[item], high[item])


@given(pools(), st.data())
def test_every_increment_lies_in_the_range_stated_before_it(
    pool: tuple[Floats, Floats, Outlook], data: st.DataObject
) -> None:
    scores, shares, outlook = pool
    tally = looking(shares, outlook)
    for item in data.draw(st.permutations(drawable(shares))):
        low, high = data.draw(st.sampled_from([(0.0, 1.0), (scores[item], scores[item])]))
        prospect = tally.prospect()
        increment = tally.settle(item, low, high)
        assert prospect.floor <= increment.low + 1e-15
        assert increment.high <= prospect.ceiling + 1e-15
        assert increment.low <= increment.high


@given(pools(), st.data())
def test_the_running_sums_equal_those_of_a_fresh_look(
    pool: tuple[Floats, Floats, Outlook], data: st.DataObject
) -> None:
    scores, shares, outlook = pool
    order = data.draw(st.permutations(drawable(shares)))
    tally = after(shares, outlook, scores, tuple(order[: len(order) // 2]))
    running = tally.prospect()
    tally.turn_to(outlook)
    fresh = tally.prospect()
    assert running.variance == pytest.approx(fresh.variance, rel=1e-9)
    assert running.unseen == pytest.approx(fresh.unseen, rel=1e-9)
    assert running.floor <= fresh.floor + 1e-12
    assert running.ceiling >= fresh.ceiling - 1e-12


def test_uniform_increments_equal_their_rational_values() -> None:
    scores, order = [1, 0, 1, 1, 0], [3, 0, 4, 1, 2]
    tally = Tally(np.full(5, 0.2), replacement=False)
    seen = 0
    for step, item in enumerate(order):
        left = 5 - step
        exact = Fraction(seen, 5) + Fraction(scores[item] * left, 5)
        assert tally.settle(item, scores[item], scores[item]).low == pytest.approx(float(exact), abs=1e-15)
        seen += scores[item]


@pytest.mark.parametrize("spread", [1e-3, 1e-9, 1e-15])
def test_the_light_items_left_by_a_heavy_one_keep_their_digits(spread: float) -> None:
    """Subtracting a weight of 1 from a sum of 1 + tiny leaves noise unless the sum is taken anew."""
    weights = np.append(1.0, np.full(50, spread / 50))
    shares = weights / weights.sum()
    tally = Tally(shares, replacement=False)
    tally.settle(0, 1.0, 1.0)
    prospect = tally.prospect()
    assert prospect.unseen == pytest.approx(shares[1:].sum(), rel=1e-9, abs=0)


def test_the_sums_of_a_long_pool_keep_their_digits_to_the_last_item() -> None:
    size = 200_000
    tally = Tally(np.full(size, 1 / size), replacement=False)
    for item in range(size - 1):
        tally.settle(item, 1.0, 1.0)
    assert tally.prospect().unseen == pytest.approx(1 / size, rel=1e-9, abs=0)
