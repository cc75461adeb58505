"""Bets along a race: fair whatever the scores are, never below 0, and the audit's are the same."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from benchmarks.coverage import most_misses
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cereval.forecasts import draw_weights
from cereval.methods.drawing import draw_without_replacement
from cereval.questions.rank.audit import SlowRace, SlowRacedGame, expected_squares, levels_of
from cereval.stats.means import RacedMeanGames
from cereval.stats.pairs import PairTuning, RacedPairGames
from cereval.stats.race import Race

Floats = NDArray[np.float64]
LEVEL = np.array([0.7, 1.0, 1.4, 2.0])


def drawn(weights: Floats, expected: Floats, seed: int) -> Race:
    order, _ = draw_without_replacement(np.random.default_rng(seed), weights, len(weights))
    return Race.along(order, weights, expected)


def raced(levels: list[int], order: list[int] | None = None) -> Race:
    weights = LEVEL[levels]
    places = np.arange(len(levels)) if order is None else np.array(order)
    return Race.along(places, weights, np.ones(len(levels)))


@pytest.mark.slow
@given(
    levels=st.lists(st.integers(0, 3), min_size=2, max_size=9),
    scores=st.lists(st.sampled_from([-1.0, -0.5, 0.0, 1.0]), min_size=9, max_size=9),
    asked=st.integers(0, 7),
    null=st.sampled_from([0.0, -0.1]),
    share=st.floats(0.0, 1.0),
)
@settings(max_examples=150, deadline=None)
def test_the_mean_payoff_is_that_of_the_theorem(
    levels: list[int], scores: list[float], asked: int, null: float, share: float
) -> None:
    """Whatever the differences: sum_U q e = 1 + L (Delta - m), and no e is below 0."""
    items = len(levels)
    asked = min(asked, items - 1)
    owed = np.array(null - sum(scores[:asked]) / items)
    place = np.array(asked)
    stake = share * raced(levels).largest_stakes(place, owed, 0.7)
    mean = 0.0
    for drawn in range(asked, items):
        rest = [item for item in range(asked, items) if item != drawn]
        race = raced(levels, [*range(asked), drawn, *rest])
        assert race.payoffs(place, stake, owed, np.array(-1.0)) >= -1e-9
        mean += float(race.chances[asked] * race.payoffs(place, stake, owed, np.array(scores[drawn])))
    found = sum(scores[:items]) / items
    assert mean == pytest.approx(1 + float(stake) * (found - null), abs=1e-9 * max(1.0, float(stake)))


def played(differences: dict[int, list[float]], seed: int, pairs: int) -> RacedPairGames:
    """Pairs that all have these differences on the items of each level, placed at random within it."""
    rng = np.random.default_rng(seed)
    levels = np.repeat(list(differences), [len(found) for found in differences.values()])
    race = drawn(LEVEL[levels], LEVEL[levels] ** 2, seed)
    table = np.empty((len(levels), pairs))
    for level, found in differences.items():
        table[levels == level] = rng.permuted(np.tile(np.array(found)[:, None], (1, pairs)), axis=0)
    games = RacedPairGames(race, pairs=pairs, nulls=(0.0,), alpha=0.05, floor=0.05)
    for item in race.order:
        games.play(np.arange(pairs), table[item], table[item])
    return games


MISLED = {0: [-1.0] * 20 + [0.0] * 20, 1: [0.0] * 20, 3: [1.0] * 20 + [0.0] * 20}
"""The past says that items matter on which the first model only wins; where it loses, items come late."""


@pytest.mark.slow
@pytest.mark.parametrize("differences", [MISLED, {0: [1.0, -1.0] * 25, 3: [1.0, -1.0] * 20 + [0.0] * 10}])
def test_equal_means_are_claimed_at_most_alpha(differences: dict[int, list[float]]) -> None:
    """100 races of 20 pairs at alpha .05, both directions, seeds 0 to 99; the bound is the binomial .999 quantile."""
    claims = sum((played(differences, seed, 20).evidence[0] >= log(20)).sum(axis=1) for seed in range(100))
    assert most_misses(2000, 0.05, certainty=0.999) == 131
    assert (claims <= 131).all(), claims


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.05, 0.5, 0.9])
def test_intervals_of_means_cover(mean: float) -> None:
    """40 races of 20 models at alpha .025 on each side, scores that rise with the weight; binomial .999 quantile."""
    missed = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        levels = np.repeat([0, 1, 2, 3], 30)
        race = drawn(LEVEL[levels], LEVEL[levels] ** 2, seed)
        chance = np.clip(mean * LEVEL[levels] / LEVEL[levels].mean(), 0, 1)
        table = (rng.uniform(size=(120, 20)) < chance[:, None]).astype(float)
        games = RacedMeanGames(race, models=20, alpha=0.025)
        ever = np.zeros(20, dtype=bool)
        for place, item in enumerate(race.order):
            games.play(np.arange(20), table[item], table[item])
            if place % 10 == 9:
                lower, upper = games.limits()
                truth = table.mean(axis=0)
                ever |= (lower > truth + 1e-9) | (upper < truth - 1e-9)
        missed += int(ever.sum())
    assert missed <= most_misses(800, 0.05, certainty=0.999) == 60


@pytest.mark.slow
@given(
    st.lists(st.sampled_from([-1.0, 0.0, 0.25, 1.0]), min_size=1, max_size=50),
    st.sampled_from([0.0, -0.05]),
    st.floats(0.0, 1.0),
    st.integers(0, 9),
)
@settings(max_examples=25, deadline=None)
def test_the_fast_games_are_the_slow_ones(
    differences: list[float], null: float, unknown: float, seed: int
) -> None:
    past = (np.random.default_rng(seed).uniform(size=(60, 4)) < 0.7).astype(float)
    squares = draw_weights.expected_squares(past)
    slowly = SlowRace.of(past.tolist(), np.random.default_rng(seed))
    if squares is None or slowly is None:
        pytest.fail("past models that differ tell items apart")
    noise = draw_weights.NOISE
    race = drawn(draw_weights.race_weights(squares), noise + (1 - noise) * squares, seed)
    assert race.order.tolist() == slowly.order
    fast = RacedPairGames(race, pairs=1, nulls=(null,), alpha=0.001, floor=0.02)
    slow, best = SlowRacedGame(slowly, null, 0.001, 0.02, PairTuning()), 0.0
    for number, value in enumerate(differences):
        width = unknown if number % 7 == 3 else 0.0
        low, high = max(value - width, -1.0), value
        fast.play(np.array([0]), np.array([low]), np.array([high]))
        best = max(best, slow.play(low, (low + high) / 2))
    assert fast.evidence[0, 0, 0] == pytest.approx(best, abs=1e-7)


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_the_past_is_read_alike_twice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    past = np.where(rng.uniform(size=(40, 5)) < 0.3, np.nan, rng.uniform(size=(40, 5)).round(1))
    fast, slow = draw_weights.expected_squares(past), expected_squares(past.tolist())
    assert fast is not None
    assert slow is not None
    assert fast == pytest.approx(slow)
    assert draw_weights.race_weights(fast) == pytest.approx(levels_of(slow))


@pytest.mark.parametrize(
    "past", [None, np.ones((5, 3)), np.full((5, 3), np.nan), np.zeros((5, 0)), np.arange(5.0)[:, None] / 5]
)
def test_a_past_without_disagreement_tells_no_items_apart(past: Floats | None) -> None:
    assert draw_weights.expected_squares(past) is None
    assert past is None or expected_squares(past.tolist()) is None
