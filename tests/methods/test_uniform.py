"""`uniform` and the successive sample that it and `active` draw with."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from cereval.forecasts.pool import Pool
from cereval.methods.base import Aim, Setting, Target
from cereval.methods.drawing import draw_without_replacement
from cereval.methods.uniform import CHUNK, Uniform


def made(pool: Pool, target: Target = "benchmark", seed: int = 0) -> Uniform:
    return Uniform(Setting(pool, target, 0.05, seed, Aim(eps=0.1)))


@pytest.mark.parametrize("count", [2, 3])
def test_successive_samples_come_with_the_chances_of_drawing_one_after_the_other(count: int) -> None:
    weights = np.array([1.0, 2.0, 0.0, 4.0])
    rng = np.random.default_rng(5)
    orders = list(permutations([0, 1, 3], count))
    found = dict.fromkeys(orders, 0)
    runs = 20_000
    for _ in range(runs):
        items, _ = draw_without_replacement(rng, weights, count)
        found[tuple(items.tolist())] += 1
    exact = [_chance(weights, order) for order in orders]
    assert sum(exact) == pytest.approx(1)
    assert chisquare([found[order] for order in orders], np.array(exact) * runs).pvalue > 0.001


def _chance(weights: np.ndarray, order: tuple[int, ...]) -> float:
    left, chance = float(weights.sum()), 1.0
    for item in order:
        chance *= weights[item] / left
        left -= weights[item]
    return chance


@given(
    st.lists(st.sampled_from([0.0, 1e-9, 0.5, 1.0, 1e6]), min_size=1, max_size=12).filter(any),
    st.integers(1, 14),
    st.integers(0, 99),
)
def test_the_stated_chances_are_weight_over_weight_left(weights: list[float], count: int, seed: int) -> None:
    array = np.array(weights)
    items, chances = draw_without_replacement(np.random.default_rng(seed), array, count)
    assert len(items) == min(count, np.count_nonzero(array))
    assert len(set(items.tolist())) == len(items)
    left = array.copy()
    for item, chance in zip(items, chances, strict=True):
        assert chance == pytest.approx(left[item] / left.sum(), rel=1e-6)
        left[item] = 0.0


def test_every_item_is_drawn_once_and_then_none() -> None:
    method = made(Pool.build(20))
    draws = [method.next_draw() for _ in range(21)]
    assert draws[-1] is None
    assert sorted(draw.item for draw in draws[:-1] if draw) == list(range(20))
    assert [draw.probability for draw in draws[:-1] if draw] == [1 / left for left in range(20, 0, -1)]


def test_items_without_weight_are_never_drawn() -> None:
    for target in ("benchmark", "expected"):
        method = made(Pool.build(4, weights=[0, 1, 0, 3]), target)
        drawn = [method.next_draw() for _ in range(2)]
        assert {draw.item for draw in drawn if draw} <= {1, 3}


def test_expected_draws_follow_the_shares_across_chunks() -> None:
    method = made(Pool.build(3, weights=[1, 0, 3]), "expected")
    draws = [method.next_draw() for _ in range(5 * CHUNK)]
    items = [draw.item for draw in draws if draw]
    assert [draw.index for draw in draws if draw] == list(range(5 * CHUNK))
    assert chisquare([items.count(0), items.count(2)], [5 * CHUNK / 4, 15 * CHUNK / 4]).pvalue > 0.001


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 12), st.data())
def test_a_full_pass_ends_at_the_exact_weighted_mean(size: int, data: st.DataObject) -> None:
    weights = data.draw(
        st.lists(st.sampled_from([0.0, 1e-8, 1.0, 1000.0]), min_size=size, max_size=size).filter(any)
    )
    scores = data.draw(st.lists(st.floats(0, 1), min_size=size, max_size=size))
    method = made(Pool.build(size, weights=weights))
    while (draw := method.next_draw()) is not None:
        method.observe(draw, scores[draw.item], scores[draw.item])
        interval = method.interval
        assert 0 <= interval.lower <= interval.upper <= 1
    exact = float(np.average(scores, weights=weights))
    assert method.interval.lower == method.interval.upper == pytest.approx(exact, abs=1e-14)


@pytest.mark.parametrize("size", range(1, 40))
def test_the_mean_of_all_items_is_rounded_correctly(size: int) -> None:
    for ones in range(size + 1):
        method = made(Pool.build(size), seed=ones)
        for index in range(size):
            draw = method.next_draw()
            assert draw is not None
            score = float(index < ones)
            method.tally.settle(draw.item, score, score)
            method.consumed += 1
            method._scores.append((1 / size, score, score))
        assert method.logical.lower == method.logical.upper == ones / size


def test_the_population_target_keeps_an_interval_after_a_full_pass() -> None:
    method = made(Pool.build(50), "population")
    while (draw := method.next_draw()) is not None:
        method.observe(draw, 1.0, 1.0)
    assert method.interval.lower < method.interval.upper == 1.0
