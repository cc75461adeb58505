"""Forecasts of a difference: what both models find hard cancels out, and nothing is used before it is given."""

from __future__ import annotations

import numpy as np

from cereval.forecasts.pool import Pool
from cereval.forecasts.predictors import PairPredictor

SIZE = 400


def fitted(shift: float, seen: int = 200) -> tuple[PairPredictor, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    skill = rng.beta(0.6, 0.6, size=SIZE)
    past = (rng.random((SIZE, 10)) < skill[:, None]).astype(float)
    first, second = ((rng.random(SIZE) < skill + gap).astype(float) for gap in (shift, 0.0))
    pair = PairPredictor(Pool.build(SIZE, history=past))
    for item in range(SIZE):
        pair.tell(item, first[item], second[item])
    y = (1 + first - second) / 2
    for upto in (0, seen // 2, seen):
        items = np.arange(upto)
        forecast = pair.fit(items, y[:upto], np.ones(upto))
    return pair, forecast.mean, forecast.spread


def test_models_that_are_alike_have_a_flat_forecast_and_hard_items_no_surprise() -> None:
    _, mean, spread = fitted(0.0)
    assert abs(mean.mean() - 0.5) < 0.08
    assert mean.std() < 0.1
    assert spread.max() > 1.5 * spread.min()
    assert ((spread > 0) & (spread <= 0.5)).all()


def test_a_better_first_model_is_forecast_above_a_half() -> None:
    assert fitted(0.3)[1].mean() > 0.56


def test_scores_that_were_told_are_not_used_before_a_fit_is_given_the_item() -> None:
    rng = np.random.default_rng(5)
    pool = Pool.build(SIZE, history=rng.random((SIZE, 3)))
    items, scores = np.arange(50), np.full(50, 0.5)
    one, other = PairPredictor(pool), PairPredictor(pool)
    for pair in (one, other):
        for item in range(50):
            pair.tell(item, 0.5, 0.5)
    for item in range(50, SIZE):
        other.tell(item, 1.0, 0.0)
    assert np.array_equal(
        one.fit(items, scores, np.ones(50)).mean, other.fit(items, scores, np.ones(50)).mean
    )
