"""`evaluate`: the same result however the score function is called, and nothing lost when it misbehaves."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.waiting import turns

import cereval
from cereval.errors import CallError, InvalidInput
from cereval.questions.evaluate import HOPELESS, EvaluationInterrupted
from cereval.questions.session import unit_score

ITEMS = [f"question {i}" for i in range(600)]
GOAL = cereval.Estimate(0.1)


def truth(item: str) -> float:
    return float(int(item.split()[1]) % 4 > 0)


async def later(item: str) -> float:
    """Right answers come first: the order of completion is informative."""
    await turns(1 if truth(item) else 50)
    return truth(item)


def flaky(item: str) -> float:
    if int(item.split()[1]) % 10 == 3:
        raise TimeoutError(f"no answer to {item}")
    return truth(item)


async def flaky_later(item: str) -> float:
    await turns(0 if truth(item) else 3)
    return flaky(item)


def test_it_is_a_replay_of_what_the_function_says() -> None:
    result = cereval.evaluate_scores(ITEMS, truth, goal=GOAL, seed=4)
    assert result == cereval.replay([truth(item) for item in ITEMS], goal=GOAL, seed=4)


@pytest.mark.parametrize("method", ["uniform", "active"])
def test_the_result_does_not_depend_on_how_the_calls_are_made(method: str) -> None:
    plan: dict[str, Any] = {"goal": GOAL, "method": method, "seed": 2, "groups": np.arange(600) % 4}
    expected = cereval.evaluate_scores(ITEMS, truth, **plan)
    for connections in (1, 3, 32):
        assert cereval.evaluate_scores(ITEMS, truth, max_connections=connections, **plan) == expected
        assert cereval.evaluate_scores(ITEMS, later, max_connections=connections, **plan) == expected


def test_failures_too_do_not_depend_on_how_the_calls_are_made() -> None:
    expected = cereval.evaluate_scores(ITEMS, flaky, goal=cereval.Estimate(0.15), seed=2)
    assert expected.failures > 0
    for connections in (2, 16):
        told = cereval.evaluate_scores(
            ITEMS, flaky_later, goal=cereval.Estimate(0.15), seed=2, max_connections=connections
        )
        assert told == expected


def test_a_failed_call_widens_and_is_told_in_the_notes() -> None:
    result = cereval.evaluate_scores(ITEMS, flaky, goal=cereval.Estimate(0.2))
    clean = cereval.evaluate_scores(ITEMS, truth, goal=cereval.Estimate(0.2), budget=result.n_evaluated)
    assert result.n_evaluated >= clean.n_evaluated
    assert result.lower <= 0.75 <= result.upper
    assert f"{result.failures} of {result.n_evaluated} calls failed" in result.notes[-1]
    assert "TimeoutError: no answer to question" in result.notes[-1]


@pytest.mark.parametrize("connections", [None, 1, 8])
def test_a_function_that_only_fails_is_not_asked_about_every_item(connections: int | None) -> None:
    asked: list[str] = []

    def broken(item: str) -> float:
        asked.append(item)
        raise KeyError("answer")

    with pytest.raises(CallError, match=r"failed on every item so far; .*KeyError: 'answer'"):
        cereval.evaluate_scores(ITEMS, broken, max_connections=connections)
    assert HOPELESS <= len(asked) <= HOPELESS + 2 * (connections or 1)


@pytest.mark.parametrize("size", [1, 3])
def test_a_small_pool_of_failures_only_is_an_error_too(size: int) -> None:
    with pytest.raises(CallError, match="ZeroDivisionError"):
        cereval.evaluate_scores(ITEMS[:size], lambda _: 1 / 0)


@pytest.mark.parametrize("bad", [float("nan"), 1.5, -0.1, None, "1", 1j, [1.0], np.array([1.0])])
def test_a_bad_score_names_its_item(bad: Any) -> None:
    with pytest.raises(
        InvalidInput, match=r"score must be a number in \[0, 1\] \(item \d+: 'question \d+'\)"
    ):
        cereval.evaluate_scores(ITEMS, lambda _: bad)


def test_the_same_bad_score_is_met_whatever_the_order_of_completion() -> None:
    async def sometimes_bad(item: str) -> float:
        number = int(item.split()[1])
        await turns(0 if number % 2 else 5)
        return 7 if number % 20 == 1 else truth(item)

    messages = set()
    for connections in (1, 4, 32):
        with pytest.raises(InvalidInput) as caught:
            cereval.evaluate_scores(ITEMS, sometimes_bad, max_connections=connections)
        messages.add(str(caught.value))
    assert len(messages) == 1


@pytest.mark.parametrize(
    ("value", "number"),
    [(True, 1.0), (np.bool_(False), 0.0), (np.float32(0.5), 0.5), (np.array(0.25), 0.25), (1, 1.0)],
)
def test_what_counts_as_a_number(value: object, number: float) -> None:
    assert unit_score(value) == number


@pytest.mark.parametrize("value", [10**400, -(10**400), float("nan"), "1", 1.5])
def test_what_is_no_score_is_refused_however_large(value: object) -> None:
    with pytest.raises(InvalidInput, match="score"):
        unit_score(value)


def test_calls_in_flight_and_calls_too_many_are_bounded() -> None:
    state = {"flying": 0, "most": 0, "made": 0}

    async def counted(item: str) -> float:
        state["flying"] += 1
        state["made"] += 1
        state["most"] = max(state["most"], state["flying"])
        try:
            return await later(item)
        finally:
            state["flying"] -= 1

    result = cereval.evaluate_scores(ITEMS, counted, goal=GOAL, max_connections=5)
    assert state["most"] == 5
    assert result.n_evaluated <= state["made"] <= result.n_evaluated + 5
    assert state["flying"] == 0


def test_a_plain_function_stays_in_this_thread_unless_told_otherwise() -> None:
    threads: set[int] = set()
    four = threading.Event()

    def where(item: str) -> float:
        threads.add(threading.get_ident())
        return truth(item)

    def where_four_are(item: str) -> float:
        score = where(item)
        if len(threads) == 4:
            four.set()
        if not four.wait(60):
            four.set()  # nobody waits in vain a second time
        return score

    cereval.evaluate_scores(ITEMS[:40], where, goal=GOAL)
    assert threads == {threading.get_ident()}
    threads.clear()
    cereval.evaluate_scores(ITEMS[:40], where_four_are, goal=GOAL, max_connections=4)
    assert len(threads) == 4
    assert threading.get_ident() not in threads


def test_async_callables_of_every_kind() -> None:
    class Scorer:
        async def __call__(self, item: str) -> float:
            return truth(item)

    async def with_setting(setting: int, item: str) -> float:  # noqa: ARG001
        return truth(item)

    expected = cereval.evaluate_scores(ITEMS, truth, goal=GOAL)
    assert cereval.evaluate_scores(ITEMS, Scorer(), goal=GOAL) == expected
    assert cereval.evaluate_scores(ITEMS, functools.partial(with_setting, 1), goal=GOAL) == expected


@pytest.mark.parametrize("connections", [1, 4])
def test_a_coroutine_from_a_plain_function_is_explained(connections: int) -> None:
    with pytest.raises(InvalidInput, match="async def"):
        cereval.evaluate_scores(ITEMS, lambda item: later(item), max_connections=connections)


def test_inside_a_running_loop() -> None:
    async def notebook() -> list[cereval.Result]:
        return [
            cereval.evaluate_scores(ITEMS, later, goal=GOAL),
            cereval.evaluate_scores(ITEMS, truth, goal=GOAL, max_connections=3),
            await cereval.evaluate_scores_async(ITEMS, later, goal=GOAL),
            await cereval.evaluate_scores_async(ITEMS, truth, goal=GOAL),
        ]

    assert len(set(asyncio.run(notebook()))) == 1


def test_a_cancelled_evaluation_leaves_no_call_behind() -> None:
    open_calls: set[str] = set()

    async def slow(item: str) -> float:
        open_calls.add(item)
        try:
            await asyncio.Event().wait()
        finally:
            open_calls.discard(item)
        return 0.0

    async def run() -> None:
        task = asyncio.ensure_future(cereval.evaluate_scores_async(ITEMS, slow))
        while len(open_calls) < 8:
            await asyncio.sleep(0)
        await turns(50)
        assert len(open_calls) == 8
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert not open_calls


def interrupting(score: Callable[[str], Any], after: int) -> Callable[[str], Any]:
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1
        if calls == after:
            os.kill(os.getpid(), signal.SIGINT)

    if asyncio.iscoroutinefunction(score):

        async def counted_async(item: str) -> float:
            count()
            return float(await score(item))

        return counted_async

    def counted(item: str) -> float:
        count()
        return float(score(item))

    return counted


@pytest.mark.parametrize("score", [truth, later])
def test_ctrl_c_hands_over_what_is_known(score: Callable[[str], Any]) -> None:
    with pytest.raises(EvaluationInterrupted, match="certified so far") as caught:
        cereval.evaluate_scores(ITEMS, interrupting(score, after=60), goal=cereval.Estimate(0.01))
    result = caught.value.result
    assert 40 <= result.n_evaluated <= 60
    assert result.stopped == "running"
    assert result.lower <= 0.75 <= result.upper
    assert result.upper - result.lower < 1


def test_ctrl_c_inside_a_running_loop() -> None:
    """As in a notebook: the loop is not `asyncio.run`'s, which would take the signal for itself."""

    async def cell() -> cereval.Result:
        with pytest.raises(EvaluationInterrupted) as caught:
            cereval.evaluate_scores(ITEMS, interrupting(later, after=60), goal=cereval.Estimate(0.01))
        return caught.value.result

    loop = asyncio.new_event_loop()
    try:
        assert loop.run_until_complete(cell()).n_evaluated >= 40
    finally:
        loop.close()


def test_the_whole_plan_reaches_the_session() -> None:
    weights = np.ones(600)
    weights[0] = 30.0
    result = cereval.evaluate_scores(
        ITEMS, truth, goal=GOAL, confidence=0.8, method="uniform", weights=weights, budget=12, seed=9
    )
    assert (result.confidence, result.method, result.target, result.seed) == (0.8, "uniform", "weighted", 9)
    assert (result.stopped, result.n_evaluated) == ("budget", 12)
    assert cereval.evaluate_scores(ITEMS, truth, goal=GOAL, texts=ITEMS).method == "active"
    assert cereval.evaluate_scores(ITEMS, truth, goal=GOAL, history=np.zeros((600, 1))).method == "active"
    assert cereval.evaluate_scores(ITEMS, truth, goal=GOAL, embeddings=np.eye(600)[:, :3]).method == "active"
    planned = cereval.evaluate_scores(ITEMS, truth, method="static", options={"planned": 10}, budget=10)
    assert planned.half_width < 1
    assert replace(planned, seed=1) != planned


@pytest.mark.parametrize(
    ("items", "score", "connections", "field"),
    [
        ([], truth, None, "items must be at least one item"),
        ("abc", truth, None, "items must be a list of items"),
        (5, truth, None, "items must be a list of items"),
        (
            pd.DataFrame({"a": [1, 2]}),
            truth,
            None,
            "items must be a list of items, say frame",
        ),
        (ITEMS, 5, None, "score must be a function"),
        (ITEMS, truth, 0, "max_connections must be a whole number >= 1, got 0"),
        (ITEMS, truth, 2.5, "max_connections"),
    ],
)
def test_bad_input_is_named(items: Any, score: Any, connections: Any, field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        cereval.evaluate_scores(items, score, max_connections=connections)


def test_any_iterable_of_items_will_do() -> None:
    expected = cereval.evaluate_scores(ITEMS, truth, goal=GOAL)
    assert cereval.evaluate_scores((item for item in ITEMS), truth, goal=GOAL) == expected
    assert cereval.evaluate_scores(np.array(ITEMS), truth, goal=GOAL) == expected


def test_functions_are_not_hidden_by_the_modules_they_live_in() -> None:
    import cereval.questions.evaluate
    import cereval.questions.replay

    assert callable(cereval.evaluate_scores)
    assert callable(cereval.replay)


@pytest.mark.parametrize("field", ["weights", "groups", "history", "texts"])
def test_what_is_known_of_items_in_another_order_is_refused(field: str) -> None:
    """They were taken by their places: reversed weights certified .104 of a true .893."""
    items = pd.Series([f"q{n}" for n in range(50)], index=[f"i{n}" for n in range(50)])
    known = {
        "weights": pd.Series(np.linspace(0.1, 1, 50), index=items.index),
        "groups": pd.Series([n % 2 for n in range(50)], index=items.index),
        "history": pd.DataFrame({"m": np.linspace(0, 1, 50)}, index=items.index),
        "texts": items,
    }[field]
    with pytest.raises(
        InvalidInput, match=rf"{field} must be in the order of the others \(row 0 is 'i0' there\)"
    ):
        cereval.evaluate_scores(items, lambda _: 1.0, **{field: known[::-1]})
