"""The loop: stored before asked, told in draw order, stopped in time, resumed without loss."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.model_server import Faults, FaultyModel
from tests.runner.runs import Recorded, begin, data, finish, go, key, model_for, plan_for, stored
from tests.waiting import turns

from cereval import Estimate, replay
from cereval.certificate.verify import verify
from cereval.errors import CallError, InvalidInput, StoreError
from cereval.models.base import EndpointError, Messages, Reply
from cereval.plan import DRAWN, candidate_spec
from cereval.questions.log import Change
from cereval.runner.finding import left_behind, planned
from cereval.runner.progress import Progress, Silent
from cereval.runner.run import Outcome


def truth(model: Recorded) -> float:
    assert isinstance(model.inner, FaultyModel)
    return model.inner.true_accuracy()


def estimate(eps: float) -> dict[str, Any]:
    return {"goal": "estimate", "eps": eps}


def test_a_run_reaches_its_goal_and_its_certificate_is_valid(tmp_path: Path) -> None:
    pool, store = data(), stored(tmp_path)
    model = model_for(pool)
    outcome = finish(pool, store, model)
    result = outcome.result
    assert (result.stopped, result.failures) == ("goal", 0)
    assert result.lower <= truth(model) <= result.upper
    assert outcome.calls == len(set(model.asked)) == len(model.asked)
    assert verify(outcome.certificate).valid
    assert store.certificates(outcome.run_id) == (json.loads(json.dumps(outcome.certificate)),)
    assert store.run(outcome.run_id).status == "finished"


def test_draws_are_stored_before_their_calls_go_out(tmp_path: Path) -> None:
    pool, store = data(), stored(tmp_path)
    plan = plan_for(pool)

    async def check(question: str, _: int) -> None:
        assert question in {pool.items[draw.item].text for draw in store.draws(plan.run_id)}

    model = model_for(pool)
    model.before = check
    assert finish(pool, store, model).result.stopped == "goal"


@pytest.mark.parametrize(("connections", "slowest"), [(1, 0), (3, 9), (16, 0), (40, 99)])
def test_at_most_as_many_calls_too_many_as_connections(
    tmp_path: Path, connections: int, slowest: int
) -> None:
    pool, store = data(1500), stored(tmp_path)
    rng = random.Random(connections)

    async def wait(_: str, __: int) -> None:
        await turns(rng.randint(0, slowest))

    model = model_for(pool)
    model.before = wait
    outcome = finish(pool, store, model, connections=connections, goal=estimate(0.06))
    assert outcome.result.stopped == "goal"
    assert 0 <= outcome.surplus <= connections
    assert len(model.asked) == outcome.calls


def test_faults_and_telling_delays_bias_nothing(tmp_path: Path) -> None:
    """A run is what a replay of the model's scores is, so whatever was proven of the one holds of the other."""
    pool, misses = data(), 0
    for seed in range(10):
        model = model_for(pool, seed=seed, faults=Faults(0.3), slow_when_wrong_s=0.003)
        outcome = finish(pool, stored(tmp_path, str(seed)), model, seed=seed, connections=16)
        misses += not outcome.result.lower <= truth(model) <= outcome.result.upper
        assert isinstance(model.inner, FaultyModel)
        scores = [float(model.inner.is_right(item.text)) for item in pool.items]
        if not outcome.result.failures:
            assert outcome.result == replay(scores, goal=Estimate(0.1), seed=seed)
    # More than 2 misses in 10 have probability .012 at 95%, and the seeds are fixed.
    assert misses <= 2


def test_a_failed_call_widens_and_is_stored(tmp_path: Path) -> None:
    pool, store = data(), stored(tmp_path)

    async def fail(question: str, _: int) -> None:
        if question.startswith(("3", "7")):
            raise CallError("this question breaks the server")

    model = model_for(pool, accuracy=1.0)
    model.before = fail
    outcome = finish(pool, store, model, goal=estimate(0.25))
    failures = [answer for answer in store.answers(outcome.run_id) if answer.failure]
    assert outcome.result.failures > 0
    assert len(failures) >= outcome.result.failures
    assert outcome.result.lower < 1.0 - outcome.result.failures / 400
    assert verify(outcome.certificate).valid


# -- stopping and going on ---------------------------------------------------------


def test_fewer_connections_go_on_where_more_left_gaps(tmp_path: Path) -> None:
    pool, store = data(), stored(tmp_path)

    all_out = asyncio.Event()

    async def crash(_: str, number: int) -> None:
        if number == 32:
            all_out.set()
        if number == 1:
            await all_out.wait()
            raise EndpointError("the server is gone")

    model = model_for(pool)
    model.before = crash
    with pytest.raises(EndpointError):
        finish(pool, store, model, connections=32, goal=estimate(0.05))
    assert finish(pool, store, model_for(pool), connections=1, goal=estimate(0.05)).result.stopped == "goal"


def test_a_broken_endpoint_stops_the_run_and_spoils_no_question(tmp_path: Path) -> None:
    pool, store = data(), stored(tmp_path)

    async def fail(_: str, __: int) -> None:
        raise CallError("cannot reach the model")

    model = model_for(pool)
    model.before = fail
    with pytest.raises(CallError, match=r"the last 8 calls all failed.*cereval resume .*cannot reach"):
        finish(pool, store, model, connections=4)
    (run,) = store.runs()
    assert (run.status, run.answers) == ("failed", 0)
    assert len(store.draws(run.run_id)) >= 8
    outcome = finish(pool, store, model_for(pool))
    assert (outcome.run_id, outcome.result.failures) == (run.run_id, 0)


def test_an_endpoint_that_breaks_on_the_way_stops_the_run(tmp_path: Path) -> None:
    pool, store = data(), stored(tmp_path)

    async def fail(_: str, number: int) -> None:
        if number > 20:
            raise CallError("server error")

    model = model_for(pool)
    model.before = fail
    with pytest.raises(CallError, match="the last 10 calls all failed"):
        finish(pool, store, model, connections=10)
    assert store.runs()[0].failures == 0
    assert store.runs()[0].answers >= 10


def test_a_small_pool_on_which_every_call_fails_is_an_error_not_an_interval(tmp_path: Path) -> None:
    pool, store = data(3), stored(tmp_path)

    async def fail(_: str, __: int) -> None:
        raise CallError("no")

    model = model_for(pool)
    model.before = fail
    with pytest.raises(CallError, match="the last 3 calls all failed"):
        finish(pool, store, model, connections=4)


def test_the_last_calls_of_a_pool_may_fail(tmp_path: Path) -> None:
    pool, store = data(12), stored(tmp_path)

    async def fail(_: str, number: int) -> None:
        if number > 9:
            raise CallError("no")

    model = model_for(pool)
    model.before = fail
    outcome = finish(pool, store, model, connections=2, goal=estimate(0.01))
    assert (outcome.result.stopped, outcome.result.failures) == ("exhausted", 3)
    assert verify(outcome.certificate).valid


@pytest.mark.parametrize("connections", [1, 8])
def test_a_store_that_breaks_loses_nothing_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connections: int
) -> None:
    pool, store = data(), stored(tmp_path)
    kept = type(store).add_answers
    written = []

    def add(self: Any, run_id: str, answers: Any) -> None:
        if len(written) >= 10:
            raise StoreError("the disk is full; free some space and resume")
        kept(self, run_id, answers)
        written.extend(answers)

    monkeypatch.setattr(type(store), "add_answers", add)
    with pytest.raises(StoreError, match="disk is full"):
        finish(pool, store, model_for(pool), connections=connections)
    monkeypatch.setattr(type(store), "add_answers", kept)
    assert store.runs()[0].answers == len(written) >= 10
    assert finish(pool, store, model_for(pool)).result.stopped == "goal"


@pytest.mark.parametrize("cancellations", [1, 3])
def test_a_cancelled_run_keeps_what_has_arrived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cancellations: int
) -> None:
    pool, store = data(), stored(tmp_path)
    add, answered, is_cancelled = type(store).add_answers, [], threading.Event()

    def slow_add(self: Any, run_id: str, answers: Any) -> None:
        if len(answered) == 20:
            is_cancelled.wait(60)
        add(self, run_id, answers)

    async def cancelled() -> None:
        all_in, never = asyncio.Event(), asyncio.Event()

        async def note(_: str, number: int) -> None:
            if number > 20:
                await never.wait()
            answered.append(number)
            if len(answered) == 20:
                all_in.set()

        model = model_for(pool)
        model.before = note
        task = asyncio.create_task(go(begin(pool, store, plan_for(pool)), pool, store, model, connections=12))
        await all_in.wait()
        for _ in range(cancellations):
            task.cancel()
            await turns(20)
        is_cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    monkeypatch.setattr(type(store), "add_answers", slow_add)
    asyncio.run(cancelled())
    assert store.runs()[0].answers == len(answered) == 20


def test_the_first_stop_waits_for_calls_in_flight_and_the_second_does_not(tmp_path: Path) -> None:
    pool = data()

    async def stopped(store: Any, times: int) -> tuple[Outcome, Recorded]:
        from cereval.runner import run as module

        loops: list[Any] = []
        original, at_last, never = module.Loop, asyncio.Event(), asyncio.Event()

        def remembered(*arguments: Any) -> Any:
            loops.append(original(*arguments))
            return loops[-1]

        async def slow(_: str, number: int) -> None:
            if number == 20:
                for _ in range(times):
                    asyncio.get_running_loop().call_soon(loops[0].stop)
                asyncio.get_running_loop().call_soon(at_last.set)
            if number >= 15:
                await (at_last if times == 1 else never).wait()

        model = model_for(pool)
        model.before = slow
        module.Loop = remembered  # type: ignore[assignment, misc]
        try:
            outcome = await go(begin(pool, store, plan_for(pool, goal=estimate(0.05))), pool, store, model)
        finally:
            module.Loop = original  # type: ignore[misc]
        return outcome, model

    first, asked = asyncio.run(stopped(stored(tmp_path, "one"), 1))
    assert first.interrupted
    assert first.calls == len(asked.asked)
    assert verify(first.certificate).valid
    second, asked = asyncio.run(stopped(stored(tmp_path, "two"), 2))
    assert second.calls < len(asked.asked)
    store = stored(tmp_path, "one")
    assert store.runs()[0].status == "interrupted"
    assert finish(pool, store, model_for(pool), goal=estimate(0.05)).result.stopped == "goal"


# -- budgets and changes ---------------------------------------------------------


class Priced:
    """Costs one cent a call."""

    name = "priced"

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:
        from dataclasses import replace

        return replace(await self.inner.answer(messages, top_logprobs=top_logprobs), cost_usd=0.01)

    async def close(self) -> None:
        pass


def test_money_is_not_overspent(tmp_path: Path) -> None:
    pool, store = data(), stored(tmp_path)
    outcome = finish(pool, store, Priced(model_for(pool)), limits={"max_usd": 0.25})
    assert outcome.result.stopped == "budget"
    assert outcome.cost_usd is not None
    assert 0.15 <= outcome.cost_usd <= 0.25 + 1e-9
    assert verify(outcome.certificate).valid


def test_money_cannot_be_limited_where_prices_are_unknown(tmp_path: Path) -> None:
    pool, store = data(), stored(tmp_path)
    free = Priced(model_for(pool))

    async def unknown(_: Messages, **__: int) -> Reply:
        return Reply("x", cost_usd=None)

    free.answer = unknown  # type: ignore[method-assign]
    with pytest.raises(InvalidInput, match="--price-in"):
        finish(pool, store, free, limits={"max_usd": 0.25})


def test_a_smaller_eps_later_is_recorded_and_verified(tmp_path: Path) -> None:
    pool, store = data(categories=True), stored(tmp_path)
    first = finish(pool, store, model_for(pool))
    drawn = len(store.draws(first.run_id))
    change = Change(first.result.n_evaluated, drawn, estimate(0.06), None)
    begun = begin(pool, store, plan_for(pool), change=change)
    model = model_for(pool)
    second = asyncio.run(go(begun, pool, store, model, 5))
    assert second.result.half_width <= 0.06
    assert second.calls == first.calls + len(model.asked)
    assert verify(second.certificate).valid
    again = begin(pool, store, plan_for(pool))
    assert again.session.result() == second.result


# -- what earlier runs teach ---------------------------------------------------------


def test_past_runs_are_history_frozen_at_the_start(tmp_path: Path) -> None:
    pool, store = data(800), stored(tmp_path)
    first = finish(pool, store, model_for(pool), name="first", goal=estimate(0.02))
    second = finish(pool, store, model_for(pool), name="second", goal=estimate(0.05))
    alone = finish(pool, stored(tmp_path, "alone"), model_for(pool), name="second", goal=estimate(0.05))
    assert second.result.method == "active"
    assert second.result.n_evaluated < 0.8 * alone.result.n_evaluated
    assert list(second.certificate["plan"]["history"]) == [first.run_id]
    assert verify(second.certificate).valid
    begun = begin(pool, store, plan_for(pool, candidates=(candidate_spec("second"),), goal=estimate(0.05)))
    assert begun.session.result() == second.result
    assert any("an earlier run" in note for note in begun.notes)


def test_a_killed_run_is_gone_on_with_unless_its_answers_may_be_of_another_day(tmp_path: Path) -> None:
    """What is to be fresh does not rest on answers of a run that was killed, whoever answered it then."""
    pool, store, before = data(), stored(tmp_path), time.time() - 1
    plan = plan_for(pool, seed_source=DRAWN)
    begun = begin(pool, store, plan)
    store.mark(plan.run_id, "running")
    assert store.run(plan.run_id).status == "interrupted", "nobody works on it"

    def again(**how: Any) -> str:
        return planned(plan, pool.items, store, history=False, **how).run_id

    assert again() == again(since=before) == begun.plan.run_id
    assert begun.plan.run_id not in (again(fresh=True), again(since=time.time() + 1))
    left = left_behind(planned(plan, pool.items, store, history=False, fresh=True), store)
    assert left is not None
    assert left.run_id == begun.plan.run_id
    named = replace(plan, seed_source="")
    begin(pool, store, named)
    store.mark(named.run_id, "running")
    assert planned(named, pool.items, store, history=False, fresh=True).run_id == named.run_id, (
        "the same command"
    )


def test_history_can_be_left_out(tmp_path: Path) -> None:
    pool, store = data(), stored(tmp_path)
    finish(pool, store, model_for(pool), name="first")
    assert not begin(
        pool, store, plan_for(pool, candidates=(candidate_spec("second"),)), history=False
    ).plan.history


def test_progress_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cereval.runner.loop.TICK_S", 0.001)
    pool, store = data(), stored(tmp_path)
    seen: list[Progress] = []

    class Watcher(Silent):
        def on_progress(self, progress: Progress) -> None:
            seen.append(progress)

    outcome = asyncio.run(go(begin(pool, store, plan_for(pool)), pool, store, model_for(pool), 8, Watcher()))
    assert len(seen) > 1
    assert seen[-1].consumed == outcome.result.n_evaluated
    assert [one.consumed for one in seen] == sorted(one.consumed for one in seen)
    assert all(one.in_flight <= 8 for one in seen)
    assert key(pool)
