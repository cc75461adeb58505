"""The loop with several models: money is kept to, each fails for itself, what could not be written is not dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.model_server import FaultyModel
from tests.runner.runs import begin, callers_for, data, go, key, several, stored
from tests.waiting import turns

from cereval.errors import CallError
from cereval.models.base import Messages, Reply
from cereval.questions.rank.goal import Order
from cereval.runner.limits import Limits
from cereval.runner.listing import listed
from cereval.runner.loop import Loop
from cereval.runner.progress import Silent
from cereval.store.base import Store
from cereval.store.writer import AnswerWriter

POOL = data(60)


@dataclass
class Made:
    """Costs `usd` a call, and fails on the calls whose numbers, from 1, are in `fails`."""

    name: str
    accuracy: float = 0.5
    usd: float = 0.01
    fails: Sequence[int] = ()
    asked: int = 0

    def __post_init__(self) -> None:
        self.inner = FaultyModel(key(POOL), self.accuracy)

    async def answer(self, messages: Messages, **_: int) -> Reply:
        self.asked += 1
        number = self.asked
        await turns(2)
        if number in self.fails:
            raise CallError("server error")
        return replace(await self.inner.answer(messages), cost_usd=self.usd)

    async def close(self) -> None:
        pass


def ranked(
    store: Store,
    models: Sequence[Made],
    connections: int = 8,
    budget: int | None = None,
    tie: float = 0.2,
    **limits: Any,
) -> Loop:
    names = [model.name for model in models]
    plan = several(POOL, "rank", Order(tie=tie).spec(), names, method="pairs", max_calls=budget)

    async def go() -> Loop:
        async with AnswerWriter(store) as writer:
            begun = begin(POOL, store, plan)
            loop = Loop(begun, callers_for(POOL, models), writer, Limits(connections, **limits), Silent())
            await loop.run()
        return loop

    return asyncio.run(go())


def kept(store: Store) -> dict[str, tuple[int, int]]:
    parts = [run for run in store.runs() if run.plan["goal"] == {"goal": "ranked"}]
    return {run.model: (run.answers, run.failures) for run in parts}


def test_money_is_not_overspent(tmp_path: Path) -> None:
    models = [Made(f"m{i}") for i in range(20)]
    loop = ranked(stored(tmp_path), models, max_usd=0.5)
    assert loop.end == "usd"
    assert sum(model.asked for model in models) == 50
    assert loop.spending.cost_usd == pytest.approx(0.5)


@pytest.mark.parametrize("connections", [1, 8, 64])
def test_calls_are_not_overspent_for_idle_connections(tmp_path: Path, connections: int) -> None:
    models = [Made("good", 0.95), Made("fair", 0.6), Made("alike", 0.55), Made("poor", 0.1)]
    loop = ranked(stored(tmp_path), models, connections, budget=60)
    assert loop.session.result().stopped == "budget"
    assert sum(model.asked for model in models) == 60


def test_a_cheap_model_says_nothing_about_the_price_of_a_dear_one(tmp_path: Path) -> None:
    models = [Made("cheap", usd=0.001), Made("dear", usd=0.1), Made("free", usd=0.0)]
    loop = ranked(stored(tmp_path), models, max_usd=0.5)
    assert loop.end == "usd"
    assert loop.spending.cost_usd is not None
    assert 0.3 < loop.spending.cost_usd <= 0.5 + 1e-9


def test_free_failures_tell_no_price(tmp_path: Path) -> None:
    models = [Made("a", fails=[1, 2], usd=0.1), Made("b", usd=0.1)]
    loop = ranked(stored(tmp_path), models, max_usd=0.35)
    assert loop.spending.cost_usd == pytest.approx(0.3)


def test_a_dead_model_stops_the_ranking_and_none_of_its_failures_is_final(tmp_path: Path) -> None:
    store = stored(tmp_path)
    with pytest.raises(CallError, match="dead: the last 8 calls all failed"):
        ranked(store, [Made("dead", fails=range(1, 1000)), Made("good", 0.9), Made("poor", 0.1)])
    assert kept(store)["dead"] == (0, 0)
    assert kept(store)["good"][0] > 0
    loop = ranked(store, [Made("dead"), Made("good", 0.9), Made("poor", 0.1)])
    assert (loop.session.result().stopped, loop.session.result().failures) == ("goal", 0)


def test_with_many_connections_a_dead_model_is_found_before_the_others_run_ahead(tmp_path: Path) -> None:
    store = stored(tmp_path)
    with pytest.raises(CallError, match="dead: the last 8 calls all failed"):
        ranked(store, [Made("good", 0.9), Made("dead", fails=range(1, 1000))], connections=32)
    assert kept(store)["dead"] == (0, 0)
    assert kept(store)["good"][1] == 0
    assert 8 <= kept(store)["good"][0] <= 8 + 2 * 32, (
        "a round, and at most twice as many ahead of it as connections"
    )


def test_a_model_that_dies_on_the_way_stops_the_ranking_although_rounds_are_short(tmp_path: Path) -> None:
    store = stored(tmp_path)
    with pytest.raises(CallError, match="dying: the last 8 calls all failed"):
        ranked(store, [Made("dying", 0.6, fails=range(9, 1000)), Made("other", 0.5)], tie=0.01)
    assert kept(store)["dying"][1] < 8


def test_single_failures_of_a_model_that_answers_are_final(tmp_path: Path) -> None:
    store = stored(tmp_path)
    loop = ranked(store, [Made("a", 0.9, fails=[3, 8]), Made("b", 0.1)])
    assert (loop.session.result().stopped, kept(store)["a"][1]) == ("goal", 2)


def test_what_another_ranking_adds_to_a_shared_model_is_not_counted_twice(tmp_path: Path) -> None:
    """Rankings of the same items keep a model's answers in one place, and lists show what each of them took."""
    store = stored(tmp_path)

    def listed_after(tie: float, *models: Made) -> dict[str, Any]:
        plan = several(POOL, "rank", Order(tie=tie).spec(), [one.name for one in models], method="pairs")
        found = asyncio.run(go(begin(POOL, store, plan), POOL, store, models))
        return {run["run_id"]: run["calls"] for run in listed(store)} | {"now": (found.run_id, found.calls)}

    first = listed_after(0.2, Made("shared", 0.9), Made("worse", 0.2))
    second = listed_after(0.1, Made("shared", 0.9), Made("close", 0.8))
    (one, calls), (other, more) = first["now"], second["now"]
    assert first[one] == second[one] == calls
    assert second[other] == more > calls
