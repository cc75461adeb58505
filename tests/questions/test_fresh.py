"""Rankings and tasks of models that never answer the same twice: what is certified is about fresh answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.coverage import most_misses
from numpy.typing import NDArray

from cereval.errors import InvalidInput
from cereval.questions.rank.audit import SlowGame
from cereval.questions.rank.goal import Order, Top
from cereval.questions.rank.session import Ranking, RankSession
from cereval.questions.tasks.goal import AllAtLeast, EachWithin, Macro, WhichFail
from cereval.questions.tasks.session import TaskSession, TasksResult
from cereval.stats.pairs import FreshPairGames, PairTuning

Floats = NDArray[np.float64]

DELTA = 0.3
"""More errors are allowed than usual, so that a few runs suffice to see too many of them: a miss rate of DELTA exceeds
the bounds with probability at most 1%, and in 40 runs one twice as high with 93%."""

THIRTY = np.array([1.0] * 13 + [0.0] * 9 + [0.9, 0.8, 0.7, 0.6, 0.5, 0.5, 0.4, 0.3])


def ranked(rates: Floats, seed: int, **asked: Any) -> Ranking:
    rng = np.random.default_rng([seed, 55])
    names = [f"m{number}" for number in range(rates.shape[1])]
    session = RankSession(len(rates), names, target="expected", seed=seed, confidence=1 - DELTA, **asked)
    while not session.done:
        for draw in session.ask(16):
            session.tell(draw, float(rng.random() < rates[draw.item, draw.model]))
    return session.result()


def tasked(rates: Floats, seed: int, **asked: Any) -> TasksResult:
    rng = np.random.default_rng([seed, 56])
    groups = ["abc"[item % 3] for item in range(len(rates))]
    session = TaskSession(groups, target="expected", seed=seed, confidence=1 - DELTA, **asked)
    while not session.done:
        for draw in session.ask(16):
            session.tell(draw, float(rng.random() < rates[draw.item]))
    return session.result()


@pytest.mark.slow
def test_of_equal_models_that_toss_none_is_above() -> None:
    """On these very answers eight of ten such rankings would name one."""
    runs, wrong = 40, 0
    for seed in range(runs):
        goal = Top(1, 0.02) if seed % 2 else Order(0.05)
        ranking = ranked(np.full((30, 3), 0.8), seed, goal=goal, budget=400)
        truth = all(one.lower <= 0.8 <= one.upper for one in ranking.intervals.values())
        wrong += bool(ranking.order) or not truth
    assert wrong <= most_misses(runs, DELTA) == 19


@pytest.mark.slow
def test_rankings_hold_where_forecasts_remember() -> None:
    rates = np.stack([THIRTY, np.roll(THIRTY, 3) * 0.9, THIRTY * 0.7], axis=1)
    truth, runs, wrong, named = rates.mean(axis=0), 20, 0, 0
    for seed in range(runs):
        ranking = ranked(rates, seed, goal=Order(0.05), budget=1200)
        named += len(ranking.order)
        above = [(int(one[1]), int(other[1])) for one, other in ranking.order]
        inside = all(
            one.lower <= mean <= one.upper
            for one, mean in zip(ranking.intervals.values(), truth, strict=True)
        )
        wrong += not inside or any(truth[one] < truth[other] for one, other in above)
    assert wrong <= most_misses(runs, DELTA)
    assert named > runs


@pytest.mark.slow
def test_tasks_hold_all_at_once() -> None:
    truth = {name: float(THIRTY[place::3].mean()) for place, name in enumerate("abc")}
    goals: list[Any] = [Macro(0.06), EachWithin(0.15), AllAtLeast(0.3), WhichFail(0.5)]
    runs, wrong = 40, 0
    for seed in range(runs):
        goal = goals[seed % 4]
        result = tasked(THIRTY, seed, goal=goal, budget=600)
        held = all(one.lower <= truth[name] <= one.upper for name, one in result.tasks.items())
        held &= result.macro.lower <= np.mean(list(truth.values())) <= result.macro.upper
        named = {name for name, one in result.tasks.items() if one.verdict == "fail"}
        wrong += not held or any(truth[name] >= goal.value for name in named)
    assert wrong <= most_misses(runs, DELTA) == 19


def test_a_forecast_shifts_differences_by_nothing_on_average_and_never_out_of_reach() -> None:
    rng = np.random.default_rng(4)
    h = rng.normal(size=50)
    h -= h.mean()
    pairs: dict[str, Any] = {"nulls": (0.0,), "alpha": 0.01, "floor": 0.05}
    games = FreshPairGames(pairs=1, **pairs)
    slow = SlowGame(float("inf"), 0.0, 0.01, 0.05, PairTuning())
    reach = np.array([[h.max()], [-h.min()]])
    best = 0.0
    for item in rng.integers(50, size=300):
        low = np.array([float(np.sign(h[item]) * (rng.random() < 0.7))])
        games.play_hinted(np.array([0]), low, low, h[[item]], reach)
        best = max(best, slow.play_hinted(low[0], low[0], h[item], h.max()))
        assert np.isfinite(games._wealth).all()
    assert best == pytest.approx(float(games.evidence[0, 0, 0]))
    assert abs(float(h.mean())) < 1e-12


def test_scheduling_and_timing_change_nothing() -> None:
    rates, results = np.stack([THIRTY, THIRTY * 0.6], axis=1), []
    for batch in (1, 50):
        answers = np.random.default_rng(2).random((4000, 2))
        session = RankSession(30, ("a", "b"), target="expected", goal=Order(0.05), budget=800, seed=3)
        while not session.done:
            for draw in session.ask(batch)[:: -1 if batch > 1 else 1]:
                place = session.place(draw)
                session.tell(draw, float(answers[place, draw.model] < rates[draw.item, draw.model]))
            session.result()
        results.append(session.result())
    assert results[0] == results[1]


def test_all_answers_of_fresh_ones_there_are_not() -> None:
    with pytest.raises(InvalidInput, match="target"):
        RankSession(10, ("a", "b"), method="all", target="expected")
    with pytest.raises(InvalidInput, match="target"):
        TaskSession(["a"] * 4, method="all", target="expected")
