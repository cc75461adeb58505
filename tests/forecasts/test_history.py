"""Factors of past results, and what many past models are like: missing entries, copies and adversaries do no harm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from cereval.forecasts.features import designs
from cereval.forecasts.history import (
    FEWEST,
    MAX_RANK,
    MAX_RELATIVES,
    PRECEDENTS,
    history_designs,
    summarise,
    with_learnt_prior,
)
from cereval.forecasts.logistic import Design, expit
from cereval.forecasts.pool import Pool
from cereval.forecasts.predictors import LogisticRidge, build_predictor

Floats = NDArray[np.float64]


def past(items: int, models: int, observed: float = 1.0, seed: int = 0) -> tuple[Floats, Floats]:
    """0/1 scores from one difficulty per item and one skill per model, and the easiness they came from."""
    rng = np.random.default_rng(seed)
    easiness = rng.normal(0.5, 1.5, size=items)
    chance = 1.0 / (1.0 + np.exp(-(easiness[:, None] + rng.normal(size=models))))
    table = (rng.random((items, models)) < chance).astype(np.float64)
    table[rng.random(table.shape) >= observed] = np.nan
    return table, easiness


def agreement(left: Floats, right: Floats) -> float:
    return float(np.corrcoef(left, right)[0, 1])


@given(
    arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 20)), elements=st.floats(0.0, 1.0)),
    st.floats(0.0, 1.0),
    st.integers(0, 2**16),
)
@settings(max_examples=80, deadline=None)
def test_any_table_gives_finite_traits_and_the_same_twice(table: Floats, holes: float, seed: int) -> None:
    table[np.random.default_rng(seed).random(table.shape) < holes] = np.nan
    before = table.copy()
    traits, again = summarise(table), summarise(table)
    assert traits.easiness.shape == (len(table),)
    assert traits.factors.shape[0] == len(table)
    assert traits.factors.shape[1] <= MAX_RANK
    assert np.isfinite(traits.easiness).all()
    assert np.isfinite(traits.factors).all()
    np.testing.assert_array_equal(traits.easiness, again.easiness)
    np.testing.assert_array_equal(traits.factors, again.factors)
    assert np.isfinite(traits.relatives).all()
    np.testing.assert_array_equal(traits.relatives, again.relatives)
    np.testing.assert_array_equal(table, before)


@pytest.mark.parametrize(
    ("models", "observed", "least"), [(1, 1.0, 0.4), (10, 1.0, 0.85), (100, 0.1, 0.75), (500, 0.02, 0.7)]
)
def test_easiness_is_recovered_from_few_or_sparse_models(models: int, observed: float, least: float) -> None:
    table, easiness = past(1500, models, observed)
    assert agreement(summarise(table).easiness, easiness) > least


def test_an_item_that_nobody_saw_is_an_average_item() -> None:
    table, _ = past(400, 20)
    table[7] = np.nan
    traits = summarise(table)
    assert np.abs(traits.factors[7]).max() < 1e-9
    assert abs(traits.easiness[7] - np.median(traits.easiness)) < 1.0


def test_copies_of_one_model_count_once() -> None:
    table, easiness = past(800, 20)
    copied = np.hstack([table, np.repeat(table[:, :1], 60, axis=1)])
    alone, crowded = summarise(table), summarise(copied)
    assert agreement(alone.easiness, crowded.easiness) > 0.98
    assert agreement(crowded.easiness, easiness) > 0.85


@pytest.mark.parametrize("kind", ["constant", "guessing", "inverted"])
def test_adversarial_past_models_leave_the_easiness_in_place(kind: str) -> None:
    table, easiness = past(800, 20)
    rng = np.random.default_rng(1)
    bad = {
        "constant": np.tile([0.0, 1.0], (800, 10)),
        "guessing": rng.integers(0, 2, (800, 60)).astype(np.float64),
        "inverted": 1.0 - table[:, :6],
    }[kind]
    traits = summarise(np.hstack([table, bad]))
    assert agreement(traits.easiness, easiness) > agreement(summarise(table).easiness, easiness) - 0.05


def test_constant_history_says_nothing() -> None:
    traits = summarise(np.ones((50, 3)))
    assert traits.easiness.std() < 1e-12
    assert not traits.factors.any()


def test_an_empty_history_says_nothing() -> None:
    traits = summarise(np.full((5, 2), np.nan))
    assert not traits.easiness.any()
    assert traits.factors.shape == (5, 0)


def test_second_factor_finds_a_specialist_direction() -> None:
    """Half the models are good at even items, half at odd ones: the mean score cannot show it."""
    rng = np.random.default_rng(3)
    even = np.arange(1000) % 2 == 0
    chance = np.where(even[:, None] == (np.arange(30) < 15), 0.9, 0.4)
    factors = summarise((rng.random((1000, 30)) < chance).astype(np.float64)).factors
    assert max(abs(agreement(column, even.astype(np.float64))) for column in factors.T[:2]) > 0.9


def test_many_past_models_keep_what_most_of_them_share() -> None:
    table, _ = past(300, 250)
    relatives, centred = summarise(table).relatives, table - table.mean(axis=0)
    assert relatives.shape == (300, MAX_RELATIVES)
    assert (relatives**2).sum() > 0.6 * (centred**2).sum()


def test_a_relative_tells_more_than_the_factors() -> None:
    """A new model that answers like one past model, which is unlike the others."""
    rng = np.random.default_rng(5)
    table, _ = past(800, 60)
    loner = rng.integers(2, size=800).astype(np.float64)
    scores = np.where(rng.random(800) < 0.1, 1 - loner, loner)
    designs = history_designs(np.column_stack([table, loner]))
    seen, rest = np.arange(200), np.arange(200, 800)
    error = {
        name: float(np.mean((scores - LogisticRidge(designs[name]).fit(seen, scores[seen]))[rest] ** 2))
        for name in ("factors", "relatives")
    }
    assert error["relatives"] < 0.8 * error["factors"]


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
        learnt = with_learnt_prior(design, table, np.ones(table.shape[1]))
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
