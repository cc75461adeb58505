"""Limits of servers: the turnstile by itself, and across processes through the driver's door."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.model_server import FaultyModel, Handler, serve_locally

from cereval.fleet.limits import MINUTE_S, TURN_S, Door, ServerLimits, Turnstile, Visitor, kept
from cereval.models import gate
from cereval.models.base import Messages, last_text
from cereval.models.openai_model import OpenAIModel, open_openai
from cereval.models.retries import FaultError


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def pace(limits: ServerLimits, calls: int, tokens: int = 1, takes_s: float = 0.0) -> list[float]:
    """When each of many calls passes, one after the other."""
    clock, passed = Clock(), []
    turnstile = Turnstile(limits, clock)
    for _ in range(calls):
        while pause := turnstile.pause(tokens):
            clock.now += pause
        record = turnstile.enter(tokens)
        passed.append(clock.now)
        clock.now += takes_s
        turnstile.leave(record, tokens)
    return passed


def test_no_more_requests_than_allowed_in_any_minute() -> None:
    passed = pace(ServerLimits(requests_per_minute=30), 200, takes_s=0.7)
    for start in passed:
        assert sum(start <= at < start + MINUTE_S for at in passed) <= 30
    assert passed[-1] < 200 / 30 * MINUTE_S, "and no fewer than that"


def test_no_more_tokens_than_allowed_in_any_minute() -> None:
    passed = pace(ServerLimits(tokens_per_minute=1000), 50, tokens=90)
    for start in passed:
        assert sum(90 for at in passed if start <= at < start + MINUTE_S) <= 1000


def test_a_call_larger_than_the_limit_goes_alone() -> None:
    assert pace(ServerLimits(tokens_per_minute=10), 3, tokens=50) == [0, MINUTE_S, 2 * MINUTE_S]


def test_what_a_call_took_in_truth_replaces_what_was_expected() -> None:
    turnstile = Turnstile(ServerLimits(tokens_per_minute=100), Clock())
    record = turnstile.enter(80)
    assert turnstile.pause(50) == MINUTE_S
    turnstile.leave(record, 20)
    assert turnstile.pause(50) == 0


def test_connections() -> None:
    turnstile = Turnstile(ServerLimits(connections=2), Clock())
    records = [turnstile.enter(1), turnstile.enter(1)]
    assert turnstile.pause(1) is None
    turnstile.leave(records[0], None)
    assert turnstile.pause(1) == 0


def visit(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 120))


def test_many_visitors_share_the_connections() -> None:
    """Four visitors with eight calls at a time each, some of them cancelled: never more than three pass at once."""
    rng, inside, most = random.Random(0), 0, 0

    async def call(visitor: Visitor) -> None:
        nonlocal inside, most
        leave = await visitor.enter("http://h/v1/", 10)
        assert leave is not None
        inside += 1
        most = max(most, inside)
        try:
            await asyncio.sleep(rng.random() / 1000)
        finally:  # as `passing` does, wherever a call is cancelled
            inside -= 1
            await visitor.leave(leave, 5)

    async def all_calls(door: Door) -> None:
        visitors = [Visitor(door) for _ in range(4)]
        tasks = [asyncio.create_task(call(visitor)) for visitor in visitors for _ in range(30)]
        await asyncio.sleep(0.01)
        for task in tasks[5::7]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # What was cancelled left nothing behind: three more pass at once.
        leaves = [await visitors[0].enter("http://h/v1", 1) for _ in range(3)]
        assert None not in leaves

    with kept({"*": ServerLimits(connections=3)}) as door:
        assert door is not None
        visit(all_calls(door))
    assert 1 < most <= 3


def test_a_run_passes_its_leave_on_for_a_turn_and_no_longer() -> None:
    """With one connection and one run that always has a next call, another run still gets its turn.

    Its wait is counted in calls, which take a time of their own, and not in seconds, which a loaded machine takes too.
    """
    calls, takes_s = 0, 0.002

    async def greedy(visitor: Visitor, over: asyncio.Event) -> None:
        nonlocal calls
        while not over.is_set():
            leave = await visitor.enter("s", 1)
            assert leave is not None
            await asyncio.sleep(takes_s)
            visitor.answered(leave)
            await visitor.leave(leave, 1)
            calls += 1

    async def all_calls(door: Door) -> int:
        over, first, second = asyncio.Event(), Visitor(door), Visitor(door)
        tasks = [asyncio.create_task(greedy(first, over)) for _ in range(3)]
        while calls <= 10:
            await asyncio.sleep(0.01)
        before = calls
        assert await second.enter("s", 1) is not None
        waited = calls - before
        over.set()
        (await second._writer()).transport.abort()
        await asyncio.gather(*tasks)
        return waited

    with kept({"s": ServerLimits(connections=1)}) as door:
        assert door is not None
        waited = visit(all_calls(door))
    assert waited * takes_s < 20 * TURN_S


def test_the_next_call_goes_out_before_an_answer_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer stands back until the next call is there, not for a time that may be too short."""
    happened: list[str] = []
    wait = asyncio.sleep

    async def until_the_next_call(_: float) -> None:
        while len(happened) < 2:
            await wait(0.01)

    monkeypatch.setattr(gate, "asyncio", SimpleNamespace(sleep=until_the_next_call, timeout=asyncio.timeout))

    class Noting(Handler):
        async def _completion(self, request: dict[str, Any], messages: Messages) -> bytes | None:
            happened.append(f"asked {last_text(messages)}")
            return await super()._completion(request, messages)

    async def ask(model: OpenAIModel, question: str) -> None:
        await model.answer([{"role": "user", "content": question}])
        happened.append(f"read {question}")

    async def both(door: Door) -> None:
        mark = gate.GATE.set(Visitor(door))
        async with serve_locally(Noting(FaultyModel({"1": "1", "2": "2"}))) as url:
            model = open_openai("m", base_url=url)
            await asyncio.gather(ask(model, "1"), ask(model, "2"))
            await model.close()
        gate.GATE.reset(mark)

    with kept({"*": ServerLimits(connections=1)}) as door:
        assert door is not None
        visit(both(door))
    assert [one.split()[0] for one in happened] == ["asked", "asked", "read", "read"]


def test_where_calls_are_counted_a_leave_is_good_for_one() -> None:
    assert ServerLimits(connections=4).turn_s == TURN_S
    assert ServerLimits(4, requests_per_minute=60).turn_s == 0
    assert ServerLimits(4, tokens_per_minute=60).turn_s == 0

    async def many(door: Door) -> None:
        visitor = Visitor(door)
        leaves = [await visitor.enter("s", 1) for _ in range(3)]
        for leave in leaves:
            assert leave is not None
            visitor.answered(leave)
            await visitor.leave(leave, 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(visitor.enter("s", 1), 0.2)

    with kept({"s": ServerLimits(requests_per_minute=3)}) as door:
        assert door is not None
        visit(many(door))


def test_whoever_is_killed_gives_its_leaves_back() -> None:
    async def die_and_follow(door: Door) -> None:
        first, second = Visitor(door), Visitor(door)
        await first.enter("s", 1)
        waiting = asyncio.create_task(second.enter("s", 1))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        (await first._writer()).transport.abort()
        assert await waiting is not None

    with kept({"s": ServerLimits(connections=1)}) as door:
        assert door is not None
        visit(die_and_follow(door))


def test_servers_without_limits_need_no_leave() -> None:
    door = Door("127.0.0.1", 1, "key", ("http://limited/v1",))
    assert visit(Visitor(door).enter("http://other/v1", 1)) is None
    with kept({}) as none:
        assert none is None


def test_a_fleet_that_has_ended_ends_the_calls() -> None:
    with kept({"s": ServerLimits(connections=1)}) as door:
        assert door is not None
    with pytest.raises(FaultError, match="the fleet that this run belongs to has ended"):
        visit(Visitor(door).enter("s", 1))


def test_strangers_are_not_let_in() -> None:
    async def knock(door: Door) -> None:
        stranger = Visitor(Door(door.host, door.port, "guess", door.servers))
        with pytest.raises(FaultError):
            await stranger.enter("s", 1)

    with kept({"s": ServerLimits(connections=1)}) as door:
        assert door is not None
        visit(knock(door))
