"""Limits of servers: the parts that the driver lends, and the calls of one run within its part."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.model_server import FaultyModel, Handler, serve_locally
from tests.waiting import turns

from cereval.fleet.limits import ALL, MINUTE_S, Lane, PartGate, Parts, ServerLimits
from cereval.models import speed
from cereval.models.base import Messages, last_text
from cereval.models.openai_model import OpenAIModel, open_openai


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def passes(limits: ServerLimits, calls: int, clock: Clock, tokens: int = 1) -> list[float]:
    """When each of many calls of one run passes, one after the other."""
    lane, passed = Lane(limits, clock), []
    for _ in range(calls):
        clock.now += lane.pause()
        lane.use(tokens)
        passed.append(clock.now)
    return passed


def test_no_more_requests_than_allowed_in_any_minute_whoever_sends_them() -> None:
    """Run after run takes over the part of the one before."""
    clock, limits = Clock(), ServerLimits(requests_per_minute=30)
    passed = [at for _ in range(20) for at in passes(limits, 10, clock)]
    for start in passed:
        assert sum(start <= at < start + MINUTE_S for at in passed) <= 30
    assert passed[-1] <= 200 / 30 * MINUTE_S, "and no fewer than that"


def test_no_more_tokens_than_allowed_in_any_minute() -> None:
    passed = passes(ServerLimits(tokens_per_minute=1000), 50, Clock(), tokens=90)
    for start in passed:
        assert sum(90 for at in passed if start <= at < start + MINUTE_S) <= 1000


def test_a_call_larger_than_the_limit_goes_alone() -> None:
    assert passes(ServerLimits(tokens_per_minute=10), 3, Clock(), tokens=50) == [0, MINUTE_S, 2 * MINUTE_S]


def test_what_a_call_took_in_truth_replaces_what_was_expected() -> None:
    lane = Lane(ServerLimits(tokens_per_minute=100), Clock())
    lane.use(50)
    assert lane.pause() == MINUTE_S
    lane.use(20, instead_of=50)
    assert lane.pause() == MINUTE_S * 20 / 80


def test_the_parts_are_never_more_than_the_whole() -> None:
    rng, most = random.Random(0), ServerLimits(7, requests_per_minute=11)
    parts, lent = Parts({ALL: most, "slow": ServerLimits(2)}), dict[int, dict[str, ServerLimits]]()
    for number in range(500):
        if lent and rng.random() < 0.5:
            ended = rng.choice(list(lent))
            parts.take_back(ended)
            del lent[ended]
        servers = rng.sample(["a", "b", "slow"], rng.randint(1, 3))
        if parts.is_left(servers):
            lent[number] = parts.lend(number, servers, rng.randint(1, 5))
            assert all(part.least >= 1 for part in lent[number].values())
        for server, limit in (("a", 7), ("b", 7), ("slow", 2)):
            assert sum(one[server].connections or 0 for one in lent.values() if server in one) <= limit
    for number in lent:
        parts.take_back(number)
    assert parts.left(["a", "slow"]) == {"a": most, "slow": ServerLimits(2)}


def test_servers_without_limits_have_no_part() -> None:
    parts = Parts({"http://limited/v1": ServerLimits(1)})
    assert parts.lend(0, ["http://other/v1"], 1) == {}
    assert asyncio.run(PartGate({}).enter("http://other/v1", 1)) is None


def test_no_more_calls_at_a_time_than_the_part_has_connections() -> None:
    """Thirty calls, some of them cancelled: never more than three pass at once."""
    rng, inside, most = random.Random(0), 0, 0
    door = PartGate({"http://h/v1": ServerLimits(connections=3)})

    async def call() -> None:
        nonlocal inside, most
        leave = await door.enter("http://h/v1/", 10)
        assert leave is not None
        inside += 1
        most = max(most, inside)
        try:
            await turns(rng.randint(0, 9))
        finally:  # as `Passing` does, wherever a call is cancelled
            inside -= 1
            door.answered(leave)
            await door.leave(leave, 5)

    async def all_calls() -> None:
        tasks = [asyncio.create_task(call()) for _ in range(30)]
        await asyncio.sleep(0)
        for task in tasks[5::7]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # What was cancelled left nothing behind: three more pass at once.
        assert None not in [await door.enter("http://h/v1", 1) for _ in range(3)]

    asyncio.run(asyncio.wait_for(all_calls(), 120))
    assert 1 < most <= 3


def test_the_next_call_goes_out_before_an_answer_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer stands back until the next call is there, not for a time that may be too short."""
    happened: list[str] = []
    wait = asyncio.sleep

    async def until_the_next_call(_: float) -> None:
        while len(happened) < 2:
            await wait(0.01)

    monkeypatch.setattr(speed, "asyncio", SimpleNamespace(sleep=until_the_next_call, timeout=asyncio.timeout))

    class Noting(Handler):
        async def _completion(self, request: dict[str, Any], messages: Messages) -> bytes | None:
            happened.append(f"asked {last_text(messages)}")
            return await super()._completion(request, messages)

    async def ask(model: OpenAIModel, question: str) -> None:
        await model.answer([{"role": "user", "content": question}])
        happened.append(f"read {question}")

    async def both() -> None:
        async with serve_locally(Noting(FaultyModel({"1": "1", "2": "2"}))) as url:
            mark = speed.GATE.set(PartGate({url: ServerLimits(connections=1)}))
            model = open_openai("m", base_url=url)
            await asyncio.gather(ask(model, "1"), ask(model, "2"))
            await model.close()
        speed.GATE.reset(mark)

    asyncio.run(asyncio.wait_for(both(), 120))
    assert [one.split()[0] for one in happened] == ["asked", "asked", "read", "read"]
