"""Draw weights against the brute-force optimum, the power law against errors it should learn, and clipped forecasts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cereval.forecasts.draw_weights import (
    FREE_REACH,
    MIN_REACH,
    RANGE_COST,
    VARIANCE_COST,
    PowerLaw,
    clip_forecasts,
    draw_weights,
    expected_errors,
    expected_level,
    fit_power_law,
    grading,
)

Floats = NDArray[np.float64]


Vector = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40)


def filled(spread: Floats, floor: Floats, part: Floats) -> Floats:
    """Slow and obvious: bisection on the level of max(c spread, floor)."""
    low, high = 0.0, 1.0 / float(part @ spread)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if part @ np.maximum(middle * spread, floor) < 1 else (low, middle)
    return np.maximum(high * spread, floor)


@given(Vector, st.integers(0, 2**16), st.sampled_from([None, 0.005, 0.02, 0.1]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_weights_have_mean_one_and_a_bounded_range(
    means: list[float], seed: int, eps: float | None, equal: bool
) -> None:
    rng = np.random.default_rng(seed)
    mean, spread = np.array(means), rng.uniform(0.01, 0.5, size=len(means))
    shares = None if equal else rng.uniform(0.1, 1.0, size=len(means))
    weights = draw_weights(mean, spread, eps, shares)
    part = np.full(len(means), 1 / len(means)) if shares is None else shares / shares.sum()
    assert (weights > 0).all()
    assert part @ weights == pytest.approx(1.0)
    longest = float((np.maximum(mean, 1 - mean) / weights).max())
    variance = float(part @ (spread**2 / weights))
    assert variance <= float(part @ spread**2) * (1 + 1e-9) or longest <= MIN_REACH + 1e-9


@given(Vector, st.integers(0, 2**16))
@settings(max_examples=100, deadline=None)
def test_filling_agrees_with_bisection(means: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    mean, spread = np.array(means), rng.uniform(0.01, 0.5, size=len(means))
    part = np.full(len(means), 1 / len(means))
    floor = np.maximum(mean, 1 - mean) / 2.0
    np.testing.assert_allclose(draw_weights(mean, spread, None), filled(spread, floor, part), rtol=1e-6)


def test_a_small_eps_allows_the_variance_optimum() -> None:
    mean, spread = np.array([0.5, 0.9, 0.98]), np.array([0.5, 0.3, 0.14])
    np.testing.assert_allclose(draw_weights(mean, spread, 1e-4), spread / spread.mean())


def test_a_large_eps_keeps_the_range_short() -> None:
    mean, spread = np.full(100, 0.02), np.full(100, 0.02)
    mean[:10], spread[:10] = 0.5, 0.5
    weights = draw_weights(mean, spread, 0.1)
    assert (np.maximum(mean, 1 - mean) / weights).max() <= MIN_REACH + 1e-9


@pytest.mark.parametrize(("level", "power"), [(0.0, 1.0), (-1.0, 0.0), (-0.5, 1.5)])
def test_the_power_law_is_learnt(level: float, power: float) -> None:
    rng = np.random.default_rng(0)
    means = rng.uniform(0.02, 0.98, size=3000)
    truth = np.exp(level) * (means * (1 - means)) ** power
    law = fit_power_law(means, truth * rng.chisquare(1, size=3000), PowerLaw())
    assert law.level == pytest.approx(level, abs=0.2)
    assert law.power == pytest.approx(power, abs=0.15)


@given(st.integers(1, 200), st.floats(0.0, 1.0), st.integers(0, 2**16))
@settings(max_examples=60, deadline=None)
def test_the_power_law_survives_any_errors(count: int, error: float, seed: int) -> None:
    means = np.random.default_rng(seed).uniform(0, 1, size=count)
    for start in (PowerLaw(), PowerLaw(-3.0, 0.0)):
        variance = fit_power_law(means, np.full(count, error**2), start).variance(np.linspace(0, 1, 5))
        assert np.isfinite(variance).all()
        assert (variance > 0).all()


@given(st.lists(st.floats(0.0, 1.0), max_size=30))
def test_grading_is_a_share_and_one_for_scores_of_0_and_1(scores: list[float]) -> None:
    assert 0.0 <= grading(np.array(scores)) <= 1.0
    assert grading(np.round(scores)) == 1.0


@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_the_expected_level_is_the_variance_of_the_increments(spread: float) -> None:
    rng = np.random.default_rng(1)
    size = 400
    mean = rng.beta(0.5, 0.5, size=size)
    shares, weights = np.full(size, 1 / size), 0.3 + rng.random(size)
    stated = np.full(size, 0.5) + spread * rng.random(size)
    squares = expected_errors(mean, np.full(size, 0.4), 1.0)
    chance = weights / weights.sum()
    drawn = rng.choice(size, size=200_000, p=chance)
    scores = rng.random(len(drawn)) < mean[drawn]
    increments = (scores - 0.4) * shares[drawn] / chance[drawn]
    stated_variance = weights.sum() * (shares**2 / weights) @ stated**2
    level = expected_level(squares, stated, shares, weights)
    assert level == pytest.approx(np.mean(increments**2) / stated_variance, rel=0.02)


SHARES = np.full(50, 0.02)


def forecasts(seed: int, level: float) -> np.ndarray:
    return np.random.default_rng(seed).beta(5 * level, 5 * (1 - level), size=50)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), level=st.floats(0.02, 0.98), eps=st.floats(1e-4, 0.3))
def test_forecasts_stay_between_the_mean_and_themselves(seed: int, level: float, eps: float) -> None:
    mean, spread = forecasts(seed, level), np.full(50, 0.3)
    held = clip_forecasts(mean, spread, eps, SHARES)
    centre = mean.mean()
    assert 0.0 <= held.low <= centre + 1e-12
    assert centre - 1e-12 <= held.high <= 1.0
    assert (np.abs(held.mean - centre) <= np.abs(mean - centre) + 1e-12).all()
    assert ((held.spread >= spread) & (held.spread <= 0.5)).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), level=st.floats(0.02, 0.98), eps=st.floats(0.005, 0.2))
def test_the_cost_is_never_higher_than_without(seed: int, level: float, eps: float) -> None:
    mean = forecasts(seed, level)
    held = clip_forecasts(mean, np.full(50, 0.3), eps, SHARES)

    def cost(limit: float) -> float:
        lost = np.mean(np.maximum(mean - limit, 0.0) ** 2)
        beyond = max(limit - FREE_REACH * 0.3**2 / eps, 0.0)
        return float(VARIANCE_COST * lost / eps**2 + RANGE_COST * beyond / eps)

    assert cost(held.high) <= cost(float(mean.max())) + 1e-9


@pytest.mark.parametrize("level", [0.05, 0.5, 0.9])
def test_small_eps_and_no_eps_leave_forecasts_alone(level: float) -> None:
    mean, spread = forecasts(1, level), np.full(50, 0.3)
    for eps in (1e-5, None):
        held = clip_forecasts(mean, spread, eps, SHARES)
        np.testing.assert_allclose(held.mean, mean, atol=1e-12)
        np.testing.assert_allclose(held.spread, spread, atol=1e-12)


def test_drawn_items_have_no_say() -> None:
    mean = np.array([0.99] * 5 + [0.1] * 45)
    shares = np.where(np.arange(50) < 5, 0.0, 0.02)
    held = clip_forecasts(mean, np.full(50, 0.1), 0.05, shares)
    assert held.high == pytest.approx(0.1)
    assert clip_forecasts(mean, np.full(50, 0.3), 0.05, np.zeros(50)).high == 1.0
