"""Tempered forecasts: never beyond the given ones, never crossing, and only where the range is worth it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cereval.forecasts.draw_weights import FREE_REACH, RANGE_COST, VARIANCE_COST, temper

SHARES = np.full(50, 0.02)


def forecasts(seed: int, level: float) -> np.ndarray:
    return np.random.default_rng(seed).beta(5 * level, 5 * (1 - level), size=50)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), level=st.floats(0.02, 0.98), eps=st.floats(1e-4, 0.3))
def test_forecasts_stay_between_the_mean_and_themselves(seed: int, level: float, eps: float) -> None:
    mean, spread = forecasts(seed, level), np.full(50, 0.3)
    held = temper(mean, spread, eps, SHARES)
    centre = mean.mean()
    assert 0.0 <= held.low <= centre + 1e-12
    assert centre - 1e-12 <= held.high <= 1.0
    assert (np.abs(held.mean - centre) <= np.abs(mean - centre) + 1e-12).all()
    assert ((held.spread >= spread) & (held.spread <= 0.5)).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), level=st.floats(0.02, 0.98), eps=st.floats(0.005, 0.2))
def test_the_cost_is_never_higher_than_without(seed: int, level: float, eps: float) -> None:
    mean = forecasts(seed, level)
    held = temper(mean, np.full(50, 0.3), eps, SHARES)

    def cost(limit: float) -> float:
        lost = np.mean(np.maximum(mean - limit, 0.0) ** 2)
        beyond = max(limit - FREE_REACH * 0.3**2 / eps, 0.0)
        return float(VARIANCE_COST * lost / eps**2 + RANGE_COST * beyond / eps)

    assert cost(held.high) <= cost(float(mean.max())) + 1e-9


@pytest.mark.parametrize("level", [0.05, 0.5, 0.9])
def test_small_eps_and_no_eps_leave_forecasts_alone(level: float) -> None:
    mean, spread = forecasts(1, level), np.full(50, 0.3)
    for eps in (1e-5, None):
        held = temper(mean, spread, eps, SHARES)
        np.testing.assert_allclose(held.mean, mean, atol=1e-12)
        np.testing.assert_allclose(held.spread, spread, atol=1e-12)


def test_drawn_items_have_no_say() -> None:
    mean = np.array([0.99] * 5 + [0.1] * 45)
    shares = np.where(np.arange(50) < 5, 0.0, 0.02)
    held = temper(mean, np.full(50, 0.1), 0.05, shares)
    assert held.high == pytest.approx(0.1)
    assert temper(mean, np.full(50, 0.3), 0.05, np.zeros(50)).high == 1.0
