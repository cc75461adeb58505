"""`replay`: a session on known scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.populations import clusters
from hypothesis import given, settings
from hypothesis import strategies as st

from cereval import replay
from cereval.errors import InvalidInput
from cereval.forecasts.pool import Pool
from cereval.questions.compare.goal import Sign
from cereval.questions.mean.goal import Estimate, Threshold
from cereval.questions.mean.session import Session
from cereval.questions.replay import drive

POPULATION = clusters(np.random.default_rng(2), size=600)


@pytest.mark.parametrize(
    "side",
    [
        {},
        {"embeddings": POPULATION.embeddings},
        {"groups": POPULATION.groups},
        {"target": "expected"},
        {"weights": np.arange(600)},
    ],
)
def test_the_batch_does_not_matter(side: dict[str, Any]) -> None:
    results = {
        replay(POPULATION.scores, goal=Estimate(0.08), batch=batch, **side) for batch in (1, 7, 64, 999)
    }
    assert len(results) == 1


def test_recorded_rates_are_tossed_where_answers_are_fresh() -> None:
    """Told as they are, rates of one half would have no variance left, and 30 questions take next to no answers."""
    rates = np.full(30, 0.5)
    results = [replay(rates, goal=Estimate(0.05), target="expected", seed=seed) for seed in range(3)]
    assert all(one.n_evaluated > 380 and one.lower <= 0.5 <= one.upper for one in results)
    compared = replay(
        {"a": rates, "b": rates}, goal=Sign(tie=0.05), target="expected", seed=1, batch=8, budget=2000
    )
    assert compared.decision not in ("first", "second")
    assert compared.n_evaluated > 300


def test_replay_is_a_session_told_the_scores() -> None:
    session = Session(600, goal=Estimate(0.08), seed=3)
    assert drive(session, POPULATION.scores) == replay(POPULATION.scores, goal=Estimate(0.08), seed=3)


def test_missing_scores_are_not_part_of_the_pool() -> None:
    scores = POPULATION.scores.copy()
    scores[::3] = np.nan
    kept = ~np.isnan(scores)
    side = {"embeddings": POPULATION.embeddings, "groups": POPULATION.groups, "weights": np.arange(600.0)}
    whole = replay(scores, goal=Estimate(0.08), **side)
    assert whole.n_items == 400
    assert whole == replay(
        scores[kept], goal=Estimate(0.08), **{key: part[kept] for key, part in side.items()}
    )


@pytest.mark.parametrize(
    ("side", "target", "method"),
    [
        ({}, "benchmark", "uniform"),
        ({"groups": POPULATION.groups}, "benchmark", "active"),
        ({"groups": POPULATION.groups}, "population", "uniform"),
        ({"weights": np.ones(600)}, "benchmark", "uniform"),
    ],
)
def test_auto_is_active_where_there_is_side_information(side: Any, target: str, method: str) -> None:
    result = replay(POPULATION.scores, goal=Estimate(0.2), target=target, **side)
    assert result.method == method
    assert result.target == ("weighted" if "weights" in side else target)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.sampled_from([0.0, 0.2, 1.0]), min_size=1, max_size=30),
    st.sampled_from(["uniform", "active", "hedged"]),
    st.sampled_from([Estimate(0.01), Estimate(0.2), Threshold(0.5), Threshold(0.05)]),
    st.integers(0, 5),
)
def test_small_pools_end_with_an_answer(scores: list[float], method: str, goal: Any, seed: int) -> None:
    result = replay(scores, goal=goal, method=method, seed=seed, confidence=1 - 1e-9)
    mean = float(np.mean(scores))
    assert result.stopped == "goal"
    assert result.lower - 1e-9 <= mean <= result.upper + 1e-9
    if isinstance(goal, Threshold):
        assert result.decision == ("above" if mean >= goal.value - 1e-12 else "below")


@pytest.mark.parametrize("score", [0.0, 0.4, 1.0])
def test_scores_that_are_all_the_same(score: float) -> None:
    result = replay(np.full(2000, score), goal=Estimate(0.05))
    assert result.stopped == "goal"
    assert result.lower <= score <= result.upper
    assert result.n_evaluated < 400


@pytest.mark.parametrize("heaviest", [1e3, 1e9, 1e15])
def test_one_item_that_outweighs_all_others(heaviest: float) -> None:
    weights = np.ones(300)
    weights[17] = heaviest
    scores = np.arange(300) % 2.0
    for method in ("uniform", "active"):
        result = replay(scores, goal=Estimate(0.02), weights=weights, method=method)
        exact = float(np.average(scores, weights=weights))
        assert result.lower - 1e-12 <= exact <= result.upper + 1e-12
        assert result.half_width <= 0.02


def test_items_without_weight_do_not_count() -> None:
    weights = np.where(np.arange(100) < 10, 1.0, 0.0)
    scores = np.where(weights > 0, 1.0, 0.0)
    result = replay(scores, goal=Estimate(0.01), weights=weights)
    assert (result.n_evaluated, result.lower, result.upper) == (10, 1.0, 1.0)


def test_a_masked_score_is_a_missing_one() -> None:
    scores = np.ma.masked_array(np.tile([0.0, 1.0], 50), mask=np.arange(100) < 20)
    history = np.ma.masked_array(np.ones((100, 1)), mask=np.ones((100, 1), dtype=bool))
    assert replay(scores, goal=Estimate(0.01)).n_items == 80
    assert np.isnan(Pool.build(100, history=history).history).all()


@pytest.mark.parametrize("field", ["weights", "groups", "history"])
def test_what_is_known_of_items_in_another_order_is_refused(field: str) -> None:
    pd = pytest.importorskip("pandas")
    scores = pd.Series([1.0, 0.0, 1.0], index=["a", "b", "c"])
    known = pd.Series([1, 2, 3], index=["a", "b", "c"])
    values = known.to_frame() if field == "history" else known
    assert replay(scores, **{field: values / 3}).n_items == 3
    with pytest.raises(
        InvalidInput, match=rf"{field} must be in the order of the others \(row 0 is 'a' there\)"
    ):
        replay(scores, **{field: values[::-1]})


def test_texts_of_a_series_are_taken_by_their_places() -> None:
    scores = pd.Series([1.0, 0.0] * 30, index=[f"i{n}" for n in range(60)])
    texts = pd.Series([f"question {n}" for n in range(60)], index=scores.index)
    assert replay(scores, texts=texts, goal=Estimate(0.3), seed=1).stopped == "goal"
    numbered = pd.Series([1.0, 0.0] * 30)
    with pytest.raises(
        InvalidInput, match=r"texts must be in the order of the others \(row 0 is 0 there\), got 59"
    ):
        replay(numbered, texts=texts.reset_index(drop=True)[::-1])
