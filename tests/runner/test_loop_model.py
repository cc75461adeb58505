"""The loop's invariant under any order of answers, failures for good, delays and writes, for one and several models.

Whatever has happened: a run that has not ended waits for a call or for a write. It never has nothing in flight,
nothing being written and nothing that it will send; and whoever answers what is asked brings it to its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.runner.runs import data, plan_for, several

from cereval.errors import CallError
from cereval.plan import Plan
from cereval.questions.compare.goal import Sign
from cereval.questions.rank.goal import Order
from cereval.questions.tasks.goal import Macro
from cereval.records import Draw
from cereval.runner.limits import Limits
from cereval.runner.loop import Loop
from cereval.runner.progress import Silent
from cereval.runner.start import start
from cereval.store.base import Answer, open_store

POOLS = {size: data(size, categories=True) for size in (3, 60)}
PLANS: dict[str, Callable[[Any], Plan]] = {
    "estimate": lambda pool: plan_for(pool, goal={"goal": "estimate", "eps": 0.05}),
    "threshold": lambda pool: plan_for(pool, goal={"goal": "threshold", "value": 0.5}),
    "expected": lambda pool: plan_for(pool, target="expected", max_calls=60),
    "tasks": lambda pool: plan_for(
        pool, kind="tasks", goal=Macro(0.05).spec(), tasks=("a", "b", "c"), side_information=("groups",)
    ),
    "compare": lambda pool: several(pool, "compare", Sign(0.05).spec(), ["x", "y"]),
    "rank": lambda pool: several(pool, "rank", Order(tie=0.05).spec(), ["x", "y", "z"], method="pairs"),
}


class Calls:
    """An executor whose calls wait until the test answers them."""

    def __init__(self) -> None:
        self.open: list[tuple[int, asyncio.Future[Answer]]] = []

    async def answer(self, draw: Draw, model: int, place: int) -> Answer:  # noqa: ARG002
        call = place, asyncio.get_running_loop().create_future()
        self.open.append(call)
        return await call[1]

    def answered_before(self, model: int) -> None: ...

    def notices(self) -> list[str]:
        return []

    async def close(self) -> None: ...


class Writes:
    """A writer in place of the store's, whose writes may wait until the test lets them through."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []
        self.slow = False

    async def add(self, run_id: str, answer: Answer) -> None:  # noqa: ARG002
        await self._written()

    async def add_draws(self, run_id: str, draws: Any) -> None:  # noqa: ARG002
        await self._written()

    async def _written(self) -> None:
        if self.slow:
            self.waiting.append(asyncio.get_running_loop().create_future())
            await self.waiting[-1]


class Machine(RuleBasedStateMachine):
    """Drives one run; every rule is something that the world may do, and the loop settles after each."""

    def __init__(self) -> None:
        super().__init__()
        self.events = asyncio.new_event_loop()
        self.task: asyncio.Task[None] | None = None

    @initialize(
        kind=st.sampled_from(sorted(PLANS)),
        size=st.sampled_from(sorted(POOLS)),
        connections=st.sampled_from((1, 2, 3, 8)),
        seed=st.integers(0, 3),
    )
    def begin(self, kind: str, size: int, connections: int, seed: int) -> None:
        pool = POOLS[size]
        self.store = open_store("sqlite://")
        begun = start(replace(PLANS[kind](pool), seed=seed), pool.items, self.store)
        self.calls, self.writes = Calls(), Writes()
        self.events.run_until_complete(self._begin(begun, connections))

    async def _begin(self, begun: Any, connections: int) -> None:
        self.loop = Loop(begun, self.calls, self.writes, Limits(connections), Silent())  # type: ignore[arg-type]
        self.task = asyncio.create_task(self.loop.run())
        await self._settled()

    async def _settled(self) -> None:
        """Let everything happen that happens by itself."""
        still = 0
        before: object = None
        while still < 12:
            await asyncio.sleep(0)
            now = (
                len(self.calls.open),
                len(self.writes.waiting),
                self.loop.session.n_evaluated,
                self.loop.end,
            )
            still, before = (still + 1, now) if now == before else (0, now)

    def settle(self) -> None:
        self.events.run_until_complete(self._settled())

    def _come_back(self, which: int, score: float | None) -> None:
        place, future = self.calls.open.pop(which % len(self.calls.open))
        failure = None if score is not None else "for good"
        if not future.done():
            future.set_result(Answer(place, text="x", score=score, failure=failure))
        self.settle()

    def _going_on(self) -> bool:
        return self.task is not None and self.loop.end is None and bool(self.calls.open)

    @precondition(_going_on)
    @rule(which=st.integers(-1, 7), score=st.sampled_from((0.0, 0.5, 1.0)))
    def answer(self, which: int, score: float) -> None:
        """Some call comes back, the newest (-1) or one of the oldest."""
        self._come_back(which, score)

    @precondition(_going_on)
    @rule(which=st.integers(-1, 7))
    def fail(self, which: int) -> None:
        """Some call fails for good."""
        self._come_back(which, None)

    @precondition(_going_on)
    @rule(failing=st.integers(0, 3), score=st.sampled_from((0.0, 1.0)))
    def all_newest_first(self, failing: int, score: float) -> None:
        """All calls that are out come back, the newest first, and some of these fail."""
        for number in range(len(self.calls.open)):
            if self.calls.open:
                self._come_back(-1, None if number < failing else score)

    @rule(slow=st.booleans())
    def disk(self, slow: bool) -> None:
        """The disk is slow, or has caught up."""
        self.writes.slow = slow
        if not slow:
            self._write_all()

    @precondition(lambda self: self.task is not None and bool(self.writes.waiting))
    @rule(which=st.integers(0, 5))
    def write(self, which: int) -> None:
        """One write comes through, not always the oldest."""
        self.writes.waiting.pop(which % len(self.writes.waiting)).set_result(None)
        self.settle()

    def _write_all(self) -> None:
        while self.writes.waiting:
            self.writes.waiting.pop(0).set_result(None)
            self.settle()

    @invariant()
    def something_can_happen(self) -> None:
        if self.task is None:
            return
        waits = bool(self.calls.open or self.writes.waiting)
        assert self.loop.end is not None or waits, "nothing in flight, nothing written, not finished"
        # Too many failures in a row are a broken endpoint; anything else would be a bug of the loop.
        assert self.loop.error is None or isinstance(self.loop.error, CallError), self.loop.error

    def teardown(self) -> None:
        if self.task is not None:
            self.writes.slow = False
            self._write_all()
            steps = 0
            while self.loop.end is None:
                assert self.calls.open, "nobody is asked, and the run has not ended"
                self._come_back(0, float(steps % 3 > 0))
                steps += 1
                assert steps < 2000
            self.task.cancel()
            self.events.run_until_complete(asyncio.gather(self.task, return_exceptions=True))
            self.store.close()
        self.events.close()


Machine.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    # Not made smaller: a loop that hangs takes minutes of that, and the steps are printed as they are.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
TestLoop = Machine.TestCase
