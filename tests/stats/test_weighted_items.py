"""Known weights as a target: coverage, no price for equal weights, the effective size and forecasts of calls."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.coverage import most_misses
from benchmarks.shift import CASES, SIZE, Weighted, mild, watch
from hypothesis import given, settings
from hypothesis import strategies as st

from cereval.errors import InvalidInput
from cereval.forecasts.pool import mix_weights, parsed_mix
from cereval.questions.log import Log, replayed
from cereval.questions.mean.goal import Estimate, Threshold
from cereval.questions.mean.session import Session
from cereval.stats.planning import Scenario
from cereval.stats.weights import effective_size, shift_of, weighted_calls

RUNS = 6
CONFIDENCE = 0.8


@pytest.mark.slow
def test_weighted_targets_cover() -> None:
    """Easy, skewed, extreme and adversarial weights; the bound (99%, binomial) is that of all runs together."""
    outcomes = [
        watch(make(np.random.default_rng([seed, 3])), seed, eps=0.08, confidence=CONFIDENCE)
        for number, make in enumerate(CASES.values())
        for seed in range(number * RUNS, (number + 1) * RUNS)
    ]
    assert sum(one.missed for one in outcomes) <= most_misses(len(outcomes), 1 - CONFIDENCE)


@pytest.mark.parametrize("learns", [False, True])
def test_equal_weights_ask_exactly_the_same_questions(learns: bool) -> None:
    case = mild(np.random.default_rng(1))
    history = case.scores[:, None] if learns else None
    equal = Weighted(case.scores, np.full(SIZE, 0.3), history)
    outcome = watch(equal, seed=4)
    assert outcome.same_draws
    assert outcome.calls == outcome.without


def test_the_notes_tell_the_effective_size_and_the_price_of_extreme_weights() -> None:
    mildly = Session(1000, weights=np.arange(1000) + 500.0, goal=Estimate(0.05)).result()
    assert mildly.notes == ("weights: the 1,000 items are worth 923 equally weighted ones (Kish)",)
    heavy = np.append(np.full(990, 1.0), np.full(10, 1000.0))
    for goal in (Estimate(0.05), Threshold(0.5)):
        note, warning = Session(1000, weights=heavy, goal=goal).result().notes
        assert "worth 12 equally weighted ones" in note
        assert "extreme for this pool" in warning
        assert "calls (about" in warning
    assert Session(1000, weights=np.ones(1000)).result().notes == ()


def test_a_weighted_session_that_is_told_its_log_is_the_same() -> None:
    case = mild(np.random.default_rng(2))
    session = Session(SIZE, weights=case.weights, seed=3)
    for draw in session.ask(40):
        session.tell(draw, float(case.scores[draw.item]))
    draws = {draw.index: draw for draw, _ in session.log}
    again = Session(SIZE, weights=case.weights, seed=3)
    replayed(again, Log({draw.index: scores for draw, scores in session.log}, len(draws), draws=draws))
    assert again.result() == session.result()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5000), st.floats(1.0, 1e5))
def test_equal_shares_take_what_the_finite_pool_says(size: int, independent: float) -> None:
    calls = Scenario(size).calls(independent)
    assert weighted_calls(np.ones(size), independent) == pytest.approx(calls, abs=1.01, rel=0.01)


def test_forecast_calls_are_those_of_the_race() -> None:
    """Against a simulation: draw in proportion to the weights until the information suffices."""
    rng = np.random.default_rng(5)
    weights = np.exp(1.5 * rng.normal(size=800))
    shares = weights / weights.sum()
    counts = []
    for _ in range(40):
        order = np.argsort(rng.standard_exponential(800) / shares)
        unseen = np.maximum(1 - np.append(0, np.cumsum(shares[order])[:-1]), 1e-12)
        counts.append(int(np.searchsorted(np.cumsum(unseen**-2.0), 400.0)) + 1)
    assert weighted_calls(weights, 400.0) == pytest.approx(np.mean(counts), rel=0.03)


def test_many_different_weights_are_put_into_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.random.default_rng(0).lognormal(size=3000)
    classed = weighted_calls(weights, 1500.0)
    monkeypatch.setattr("cereval.stats.weights.MOST_CLASSES", 10_000)
    assert classed == pytest.approx(weighted_calls(weights, 1500.0), abs=1)
    assert effective_size(weights) == pytest.approx(weights.sum() ** 2 / (weights**2).sum())


def test_a_shift_names_what_the_pool_is_worth_as_a_sample() -> None:
    shift = shift_of(np.append(np.full(900, 1.0), np.full(100, 9.0)), 0.05, 0.05)
    assert not shift.extreme
    assert shift.effective == pytest.approx(1800**2 / (900 + 8100))
    assert shift.sample_radius == pytest.approx(1.96 * 0.5 / np.sqrt(360), rel=1e-3)
    assert shift.calls < shift.calls_without


@pytest.mark.parametrize("text", ["", "law", "law=x", "law=1,law=2", "=1", "law=-1", "law=nan"])
def test_a_mix_that_cannot_be_read(text: str) -> None:
    with pytest.raises(InvalidInput, match="mix"):
        parsed_mix(text)


def test_a_mix_gives_each_category_its_share() -> None:
    groups = ["a"] * 10 + ["b"] * 90 + ["c"] * 5
    weights = mix_weights(groups, {"a": 3, "b": 1})
    assert weights[:10].sum() == pytest.approx(0.75)
    assert weights[100:].sum() == 0
    with pytest.raises(InvalidInput, match="categories"):
        mix_weights(groups, {"d": 1})
    with pytest.raises(InvalidInput, match="at least one"):
        mix_weights(groups, {"a": 0})
