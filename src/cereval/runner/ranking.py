"""A ranking of models that are asked: draws are stored, then put to the models; answers are stored, then told.

Each model has a run of its own in the store: its answers along the order of the items, which the seed decides. Neither
the other models nor the goal are part of it. So a ranking that is repeated after a crash, given another goal or
extended by a model asks nothing again that was paid for. A call keeps its connection until its answer is written: a
`kill -9` loses at most as many answers as there are connections, and the failures that are held back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from cereval.datasets.base import Item
from cereval.errors import CallError, StoreError
from cereval.plan import Plan
from cereval.rank.session import RankDraw, RankSession
from cereval.records import Draw
from cereval.runner.caller import Caller
from cereval.runner.limits import Limits, Spending
from cereval.runner.waiting import Bell
from cereval.store.base import Answer, Store

HOPELESS = 8
"""So many failures of one model and not one answer between them say that its endpoint is broken."""

Booked = list[tuple[RankDraw, Answer]]
End = Literal["usd", "minutes", "interrupted"]


@dataclass(slots=True)
class Voice:
    """One model: its run in the store, how it is asked, what it has answered, and how many draws are stored."""

    run_id: str
    caller: Caller
    results: dict[int, float | None]
    drawn: int
    spent: tuple[Answer, ...] = ()
    held: Booked = field(default_factory=list)
    """Failures since the last success of this round: the next success makes them final."""
    due: Booked = field(default_factory=list)
    """To be written, also after a write that failed."""
    failing: int = 0
    """Failures since the last success, also those of earlier rounds."""
    priced: bool = field(init=False)
    """Whether it has answered, so that what its calls cost is known."""

    def __post_init__(self) -> None:
        self.priced = any(score is not None for score in self.results.values())

    def arrived(self, draw: RankDraw, answer: Answer) -> None:
        """Failures are held back until this model answers: if it never does, its endpoint failed, not the items."""
        self.held.append((draw, answer))
        self.failing += 1
        if answer.failure is None:
            self.failing, self.priced = 0, True
            self.let_go()

    def let_go(self) -> None:
        self.due, self.held = [*self.due, *self.held], []


def ranked_plan(plan: Plan) -> Plan:
    """A model's plan without anything that belongs to one ranking: what is left decides its answers."""
    bare = Plan(goal={"goal": "ranked"}, data_hash="", n_items=1, model={})
    kept = {name: getattr(bare, name) for name in ("goal", "confidence", "max_calls", "history", "weights")}
    return replace(plan, method="pairs", target="benchmark", side_information=(), **kept)


def voice(plan: Plan, items: Sequence[Item], caller: Caller, store: Store, order: Sequence[int]) -> Voice:
    """Creates a model's run, or recalls what it has answered."""
    store.add_items(plan.data_hash, (item.as_dict() for item in items))
    store.create_run(plan.run_id, plan.as_dict(), plan.data_hash, plan.model_name)
    draws, answers = store.draws(plan.run_id), store.answers(plan.run_id, texts=False)
    if [draw.item for draw in draws] != list(order[: len(draws)]):
        raise StoreError(
            f"the draws of run {plan.run_id} cannot be decided again: it was made by another version of "
            "cereval, or its database was changed; start anew (another --seed)"
        )
    results = {answer.draw: answer.score for answer in answers}
    return Voice(plan.run_id, caller, results, len(draws), answers)


class RankingLoop:
    """Drives a rank session round by round; what is in the store is told, not asked."""

    def __init__(
        self,
        session: RankSession,
        voices: Sequence[Voice],
        store: Store,
        limits: Limits,
        on_round: Callable[[RankSession], None] = lambda _: None,
    ) -> None:
        self.session, self.voices, self.store, self.limits = session, voices, store, limits
        self.spending = Spending()
        self.end: End | None = None
        for one in voices:
            for answer in one.spent:
                self.spending.add(answer.cost_usd, failed=answer.failure is not None)
        self.recalled = self.spending.calls
        self._on_round = on_round
        self._error: Exception | None = None
        self._pending = 0
        self._news = Bell()
        self._slots = asyncio.Semaphore(limits.connections)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="cereval-store")
        self._started = time.monotonic()

    async def run(self) -> None:
        """Returns when the session has ended, a limit is reached or `stop` was called; raises what broke."""
        try:
            while not (self.session.done or self.end or self._error):
                await self._round(self.session.ask(self.session.n_items * len(self.voices)))
                self._on_round(self.session)
        finally:
            await self._write_what_is_due()
            self._writer.shutdown()
        if self._error is not None:
            raise self._error

    def stop(self, end: End = "interrupted") -> None:
        """No further calls; those in flight are waited for, and kept."""
        self.end = self.end or end

    async def _round(self, draws: Sequence[RankDraw]) -> None:
        fresh = []
        for draw in draws:
            results, place = self.voices[draw.model].results, self.session.place_of(draw)
            if place in results:
                self._tell(draw, results[place])
            else:
                fresh.append(draw)
        await self._announce(fresh)
        await asyncio.gather(*(self._ask(draw) for draw in fresh))
        if not (self._error or self.end):
            await self._give_up_on_held()

    async def _announce(self, fresh: Sequence[RankDraw]) -> None:
        """Stores the draws that are not stored yet, before any call for them goes out."""
        for number, one in enumerate(self.voices):
            mine = [self._draw(draw) for draw in fresh if draw.model == number]
            new = [draw for draw in mine if draw.index >= one.drawn]
            if new:
                await self._written(self.store.add_draws, one.run_id, new)
                one.drawn += len(new)

    def _draw(self, draw: RankDraw) -> Draw:
        place = self.session.place_of(draw)
        return Draw(place, draw.item, 1 / (self.session.n_items - place))

    async def _ask(self, draw: RankDraw) -> None:
        one = self.voices[draw.model]
        async with self._slots:
            try:
                while self._may_ask(one) and not self._affordable(one):
                    await self._news.wait()
                if self._may_ask(one):
                    await self._answered(one, draw)
            except Exception as error:
                self._error = self._error or error

    async def _answered(self, one: Voice, draw: RankDraw) -> None:
        self._pending += 1
        try:
            await self._book(one, draw, await one.caller.answer(self._draw(draw)))
        finally:
            self._pending -= 1
            self._news.ring()

    def _may_ask(self, one: Voice) -> bool:
        minutes = self.limits.max_minutes
        if minutes is not None and time.monotonic() - self._started >= 60 * minutes:
            self.stop("minutes")
        if self.end is None and self._error is None and not (self._pending or self._affordable(one)):
            self.stop("usd")
        return self.end is None and self._error is None

    def _affordable(self, one: Voice) -> bool:
        """Calls under way count as dear as the dearest so far; a model whose price is unknown is asked alone."""
        if self.limits.max_usd is not None and self._pending and not one.priced:
            return False
        return self.spending.room(self.limits.max_usd, self._pending) > 0

    # -- answers ---------------------------------------------------------------------------------------------------

    async def _book(self, one: Voice, draw: RankDraw, answer: Answer) -> None:
        # Counted on arrival: a failure that is held back may have cost money too.
        self.spending.add(answer.cost_usd, failed=answer.failure is not None)
        one.arrived(draw, answer)
        await self._write(one)
        if one.failing >= max(HOPELESS, self.limits.connections):
            raise self._hopeless(one)

    async def _give_up_on_held(self) -> None:
        for one in self.voices:
            if one.held and not one.priced:
                raise self._hopeless(one)
            one.let_go()
            await self._write(one)

    async def _write(self, one: Voice) -> None:
        """All or none; what could not be written stays due."""
        booked, one.due = one.due, []
        if not booked:
            return
        try:
            await self._written(self.store.add_answers, one.run_id, [answer for _, answer in booked])
        except Exception:
            one.due = [*booked, *one.due]
            raise
        for draw, answer in booked:
            one.results[answer.draw] = answer.score
            self._tell(draw, answer.score)

    async def _write_what_is_due(self) -> None:
        """Once more at the end: the store may be back, and these answers have been paid for."""
        for one in self.voices:
            # Why it could not be written the first time is what `run` raises.
            with suppress(StoreError):
                await self._write(one)

    async def _written(
        self, write: Callable[[str, Sequence[Any]], None], run_id: str, rows: list[Any]
    ) -> None:
        """One thread writes all: SQLite has one writer at a time. A cancelled caller takes nothing back."""
        events = asyncio.get_running_loop()
        await asyncio.shield(events.run_in_executor(self._writer, write, run_id, rows))

    def _tell(self, draw: RankDraw, score: float | None) -> None:
        if score is None:
            self.session.fail(draw)
        else:
            self.session.tell(draw, score)

    def _hopeless(self, one: Voice) -> CallError:
        draw, answer = one.held[-1]
        return CallError(
            f"{self.session.models[draw.model]}: the last {one.failing} calls all failed, so the ranking stopped; "
            f"nothing is lost: the same command goes on from here ({answer.failure})"
        )
