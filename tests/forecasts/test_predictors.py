"""Forecasts: well-formed, deterministic, better with good side information, never much worse with bad."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cereval.forecasts.draw_weights import draw_weights
from cereval.forecasts.features import designs
from cereval.forecasts.logistic import Design, posterior_mode
from cereval.forecasts.pool import Pool
from cereval.forecasts.predictors import Forecast, LogisticRidge, PairPredictor, build_predictor

Floats = NDArray[np.float64]


SHARED = Path(__file__).parents[3] / "shared" / "data"


def calls(scores: Floats, pool: Pool, eps: float, seed: int) -> float:
    """Draws until the information sum 1 / Var(X) that a fixed-n normal test needs; Var from the true scores.

    A stand-in for the certified engine that isolates the forecasts: no betting noise, same drawing rule.
    """
    rng, size = np.random.default_rng(seed), len(scores)
    predictor, goal, gained = build_predictor(pool), (1.96 / eps) ** 2, 0.0
    unseen, items, chances = np.ones(size, dtype=bool), np.zeros(0, dtype=np.int64), np.zeros(0)
    while unseen.any():
        forecast = predictor.fit(items, scores[items], chances)
        left = np.flatnonzero(unseen)
        weights = draw_weights(forecast.mean[left], forecast.spread[left], eps)
        errors = scores[left] - forecast.mean[left]
        variance = ((errors**2 / weights).mean() - errors.mean() ** 2) * (len(left) / size) ** 2
        block = min(max(24, len(items) // 10), len(left))
        if gained + block / variance >= goal:
            return len(items) + (goal - gained) * variance
        gained += block / variance
        first = np.argsort(rng.exponential(size=len(left)) / weights, kind="stable")[:block]
        items = np.concatenate([items, left[first]])
        chances = np.concatenate([chances, weights[first]])
        unseen[left[first]] = False
    return float(size)


def mean_calls(scores: Floats, pool: Pool, eps: float, seeds: int = 5) -> float:
    return float(np.mean([calls(scores, pool, eps, seed) for seed in range(seeds)]))


def population(seed: int, size: int = 2000, models: int = 12) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    easiness = rng.normal(1.0, 2.0, size=size)
    chance = 1.0 / (1.0 + np.exp(-(easiness[:, None] + rng.normal(size=models + 1))))
    table = (rng.random(chance.shape) < chance).astype(np.float64)
    return table[:, 0], table[:, 1:]


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    size = draw(st.integers(2, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    history = rng.choice([0.0, 0.3, 1.0, np.nan], size=(size, draw(st.integers(1, 5))))
    return Pool.build(
        size,
        weights=rng.uniform(0.1, 1.0, size) if draw(st.booleans()) else None,
        history=history if draw(st.booleans()) else None,
        groups=rng.integers(0, 4, size) if draw(st.booleans()) else None,
        embeddings=rng.normal(size=(size, 3)) if draw(st.booleans()) else None,
    )


def prefixes(pool: Pool, scores: Floats, cuts: list[int]) -> list[Forecast]:
    predictor, order = build_predictor(pool), np.random.default_rng(0).permutation(pool.size)
    return [predictor.fit(order[:n], scores[order[:n]], np.ones(n)) for n in cuts]


@given(pools(), st.sampled_from(["zeros", "ones", "coins", "graded"]), st.integers(0, 2**16))
@settings(max_examples=80, deadline=None)
def test_forecasts_are_well_formed_and_repeatable(pool: Pool, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = {
        "zeros": np.zeros(pool.size),
        "ones": np.ones(pool.size),
        "coins": rng.integers(0, 2, pool.size).astype(np.float64),
        "graded": rng.random(pool.size),
    }[kind]
    cuts = sorted({0, 1, pool.size // 2, pool.size})
    for forecast, again in zip(prefixes(pool, scores, cuts), prefixes(pool, scores, cuts), strict=True):
        assert ((forecast.mean >= 0) & (forecast.mean <= 1)).all()
        assert (forecast.spread > 0).all()
        assert (forecast.spread <= 0.5 + 1e-12).all()
        np.testing.assert_array_equal(forecast.mean, again.mean)
        np.testing.assert_array_equal(forecast.spread, again.spread)


def test_a_pool_without_side_information_gets_the_constant() -> None:
    forecast = prefixes(Pool.build(10), np.ones(10), [0, 4])[-1]
    np.testing.assert_allclose(forecast.mean, 0.9)
    assert np.ptp(forecast.spread) == 0.0
    assert forecast.notes == ()


def test_notes_name_what_helped() -> None:
    scores, history = population(0)
    forecast = prefixes(Pool.build(len(scores), history=history), scores, [0, 100, 400, 800])[-1]
    assert 0.2 < forecast.explained < 0.8
    assert "forecasts explained" in forecast.notes[0]


def test_the_posterior_mode_has_no_slope() -> None:
    rng = np.random.default_rng(0)
    prior = Design(rng.normal(size=(60, 4)), np.array([0.0, 1.0, 0.0, 0.0]), np.array([0.1, 2.0, 4.0, 4.0]))
    scores = rng.random(60)
    at = posterior_mode(prior.columns, scores, prior, prior.mean)
    fitted = 1.0 / (1.0 + np.exp(-prior.columns @ at))
    slope = prior.columns.T @ (fitted - scores) + prior.precision * (at - prior.mean)
    assert np.abs(slope).max() < 1e-2


def test_a_warm_start_reaches_the_cold_answer() -> None:
    scores, history = population(1, size=500)
    design = designs(Pool.build(500, history=history))["bent factors"]
    order, warm = np.random.default_rng(0).permutation(500), LogisticRidge(design)
    for n in (0, 30, 60, 200):
        last = warm.fit(order[:n], scores[order[:n]])
    np.testing.assert_allclose(last, LogisticRidge(design).fit(order[:200], scores[order[:200]]), atol=1e-3)


def test_history_saves_a_fifth_of_the_calls() -> None:
    scores, history = population(0)
    plain = mean_calls(scores, Pool.build(len(scores)), 0.02, seeds=3)
    assert mean_calls(scores, Pool.build(len(scores), history=history), 0.02, seeds=3) < 0.8 * plain


def test_embeddings_groups_and_neighbourhoods_save_calls() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 3000)
    scores = (rng.random(3000) < np.array([0.95, 0.5, 0.05])[group]).astype(np.float64)
    corners = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    plain = mean_calls(scores, Pool.build(3000), 0.03)
    assert mean_calls(scores, Pool.build(3000, groups=group), 0.03) < 0.6 * plain
    positions = corners[group] + rng.normal(size=(3000, 2)) * 0.5
    assert mean_calls(scores, Pool.build(3000, embeddings=positions), 0.03) < 0.65 * plain


def test_the_core_of_the_counterexample_is_found() -> None:
    rng = np.random.default_rng(0)
    core = np.arange(3000) % 10 == 0
    positions = rng.normal(size=(3000, 50)) * np.where(core, np.sqrt(0.1), 1.0)[:, None]
    scores = (~core).astype(np.float64)
    plain = mean_calls(scores, Pool.build(3000), 0.03, seeds=2)
    assert mean_calls(scores, Pool.build(3000, embeddings=positions), 0.03, seeds=2) < 0.4 * plain


@pytest.mark.parametrize("mean", [0.1, 0.5])
@pytest.mark.parametrize("kind", ["guessing", "noise", "random groups", "confident"])
def test_useless_side_information_costs_at_most_five_percent(mean: float, kind: str) -> None:
    rng = np.random.default_rng(2)
    scores = (rng.random(2000) < mean).astype(np.float64)
    pool = {
        "guessing": Pool.build(2000, history=rng.integers(0, 2, (2000, 20))),
        "noise": Pool.build(2000, embeddings=rng.normal(size=(2000, 64))),
        "random groups": Pool.build(2000, groups=rng.integers(0, 50, 2000)),
        "confident": Pool.build(2000, history=np.tile(rng.integers(0, 2, (2000, 1)), (1, 8))),
    }[kind]
    plain = mean_calls(scores, Pool.build(2000), 0.03, seeds=3)
    assert mean_calls(scores, pool, 0.03, seeds=3) <= 1.05 * plain


def test_an_inverted_history_is_as_good_as_the_history() -> None:
    scores, history = population(0)
    straight = mean_calls(scores, Pool.build(len(scores), history=history), 0.02, seeds=2)
    turned = mean_calls(scores, Pool.build(len(scores), history=1.0 - history), 0.02, seeds=2)
    assert turned < 1.1 * straight


@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.exists(), reason="needs the per-item results in ../shared/data")
@pytest.mark.parametrize(
    ("folder", "model", "share"),
    [
        ("mmlu", "helm/openai_gpt-4o-2024-05-13", 0.105),
        ("mmlu", "helm/meta_llama-3-70b", 0.15),
        ("mmlu", "routellm/mistralai/Mixtral-8x7B-Instruct-v0.1", 0.25),
        ("zeroeval_math_l5", "gpt-4o-2024-05-13", 0.26),
        ("zeroeval_gsm8k", "Meta-Llama-3-8B-Instruct", 0.24),
    ],
)
def test_real_history_saves_what_was_measured(folder: str, model: str, share: float) -> None:
    import pandas as pd

    table = pd.read_parquet(SHARED / folder / "scores.parquet").drop(columns="item")
    kept = table[model].notna().to_numpy()
    scores = table[model].to_numpy()[kept]
    pool = Pool.build(len(scores), history=table.drop(columns=model).to_numpy()[kept])
    eps = float(np.sqrt(np.log(20) / (2 * len(scores))))
    assert mean_calls(scores, pool, eps, seeds=1) <= share * len(scores)


SIZE = 400


def fitted(shift: float, seen: int = 200) -> tuple[PairPredictor, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    skill = rng.beta(0.6, 0.6, size=SIZE)
    past = (rng.random((SIZE, 10)) < skill[:, None]).astype(float)
    first, second = ((rng.random(SIZE) < skill + gap).astype(float) for gap in (shift, 0.0))
    pair = PairPredictor(Pool.build(SIZE, history=past))
    for item in range(SIZE):
        pair.tell(first[item], second[item])
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
        for _ in range(50):
            pair.tell(0.5, 0.5)
    for _ in range(50, SIZE):
        other.tell(1.0, 0.0)
    assert np.array_equal(
        one.fit(items, scores, np.ones(50)).mean, other.fit(items, scores, np.ones(50)).mean
    )
