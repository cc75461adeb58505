"""What many past models are like: a prior that helps where a new one is like them, and is harmless elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cereval.forecasts.features import designs
from cereval.forecasts.history import FEWEST, PRECEDENTS, history_designs, precedented
from cereval.forecasts.logistic import Design, expit
from cereval.forecasts.pool import Pool
from cereval.forecasts.predictors import LogisticRidge, build_predictor

Floats = NDArray[np.float64]


def chances(models: int, items: int = 400) -> Floats:
    """Expected scores of models of which the abler tell easy items from hard ones more sharply, items x models."""
    rng = np.random.default_rng(0)
    ability = rng.normal(-2.0, 1.0, size=models)
    return expit(ability + rng.normal(scale=1.5, size=(items, 1)) * (1.0 + 0.6 * (ability + 2.0)))


def kindred(models: int, items: int = 400) -> Floats:
    """Draw scores of such models, 0 or 1."""
    expected = chances(models, items)
    return (np.random.default_rng(1).random(expected.shape) < expected).astype(np.float64)


def checkpoints(models: int) -> Floats:
    """Copies of one model, each with one answer in fifty at random."""
    rng = np.random.default_rng(3)
    one = (rng.random((400, 1)) < 0.7).astype(np.float64)
    return np.where(rng.random((400, models)) < 0.02, rng.integers(2, size=(400, models)), one)


def left_over(design_name: str, models: int, first: int) -> float:
    """The mean squared distance of forecasts from what each of the first models is expected to score, after 20
    results."""
    table, expected, errors = kindred(models), chances(models), []
    for model in range(first):
        items = np.random.default_rng(model).permutation(len(table))[:20]
        design = history_designs(np.delete(table, model, axis=1), precedents=True)[design_name]
        forecast = LogisticRidge(design).fit(items, table[items, model])
        errors.append(((expected[:, model] - forecast) ** 2).mean())
    return float(np.mean(errors))


@pytest.mark.slow
def test_a_model_of_their_kind_is_known_sooner() -> None:
    assert left_over(PRECEDENTS, 60, 30) < 0.9 * left_over("bent factors", 60, 30)


@pytest.mark.parametrize(
    "past",
    [
        kindred(int(FEWEST) - 1),
        np.tile(kindred(1), 80),
        checkpoints(80),
        np.ones((400, 80)),
        np.zeros((400, 0)),
    ],
)
def test_few_models_copies_and_constants_set_no_precedent(past: Floats) -> None:
    assert PRECEDENTS not in history_designs(past, precedents=True)


def test_none_are_sought_unless_asked_for() -> None:
    assert PRECEDENTS not in history_designs(kindred(60))


def test_models_that_were_hardly_asked_change_little() -> None:
    """Of forty more past models two results each are known: on the same columns, forecasts stay nearly what they
    were; all results of the forty, which are twice as able, would change them."""
    columns = np.column_stack([np.ones(400), np.linspace(-2.0, 2.0, 400)])
    design, rng = Design.of(columns, 0.5), np.random.default_rng(2)
    past = (rng.random((400, 80)) < expit(columns @ [[-1.0] * 40 + [2.0] * 40, [1.0] * 80])).astype(
        np.float64
    )
    hardly = past.copy()
    hardly[2:, 40:] = np.nan

    def forecast(table: Floats) -> Floats:
        learnt = precedented(design, table, np.ones(table.shape[1]))
        assert learnt is not None
        return LogisticRidge(learnt).fit(np.array([100, 300]), np.array([0.0, 1.0]))

    few, some, every = (forecast(table) for table in (past[:, :40], hardly, past))
    assert np.abs(some - few).mean() < 0.25 * np.abs(every - few).mean()


@given(
    rows=st.integers(1, 80), models=st.integers(24, 60), holes=st.floats(0.0, 1.0), seed=st.integers(0, 2**16)
)
@example(rows=80, models=60, holes=0.0, seed=0)
@settings(max_examples=60, deadline=None)
def test_any_past_gives_finite_forecasts(rows: int, models: int, holes: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.beta(0.2, rng.uniform(0.1, 5.0, size=models), size=(rows, models)).round(rng.integers(4))
    table[rng.random(table.shape) < holes] = np.nan
    pool = Pool.build(rows, history=table)
    predictor = build_predictor(pool, designs(pool, precedents=True))
    forecast = predictor.fit(np.array([0]), np.array([1.0]), np.array([1.0]))
    assert np.isfinite(forecast.mean).all()
    assert np.isfinite(forecast.spread).all()
