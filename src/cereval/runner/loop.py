"""The loop: draws are stored, then asked; answers are stored, then told. What is stored is never lost.

One supplier keeps a few stored draws ready and one bookkeeper stores what has arrived, many at a time, so that no
connection waits for the disk; as many workers as connections put the draws to the model. The session consumes in
draw order, whatever the order of arrival.

A `kill -9` loses the calls in flight and the answers that have arrived but are not yet written, in all at most
`1 + MOST_AHEAD` = 4 times as many as connections (`Window`): as a rule, what arrives during one commit. Failures that
are held back are not written either; like all of these they are asked again. A write that fails ends the run and is
tried once more at its close; only if that fails too are its answers lost. A run that is stopped or cancelled loses
none that have arrived.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Literal

from cereval.errors import CallError
from cereval.records import Draw
from cereval.runner.caller import Caller
from cereval.runner.forecast import expected_calls
from cereval.runner.limits import Limits
from cereval.runner.progress import Observer, Progress
from cereval.runner.start import Start
from cereval.runner.waiting import Bell, finished
from cereval.runner.window import Window
from cereval.sessions.log import tell
from cereval.store.base import Answer
from cereval.store.writer import AnswerWriter

HOPELESS = 8
"""So many failures and not one answer say that the endpoint is broken rather than the calls unlucky."""

GRACE_S: dict[str, float | None] = {
    "goal": 2.0,
    "error": 10.0,
    "minutes": 30.0,
    "usd": None,
    "interrupted": None,
}
"""How long calls in flight are waited for after the end; None: until they come back."""

TICK_S = 0.2

End = Literal["goal", "error", "minutes", "usd", "interrupted"]


class Loop:
    """Drives one session to its end, from where it stands."""

    def __init__(
        self, begun: Start, caller: Caller, writer: AnswerWriter, limits: Limits, observer: Observer
    ) -> None:
        self.run_id, self.session, self.spending = begun.plan.run_id, begun.session, begun.spending
        self.caller, self.writer, self.limits, self.observer = caller, writer, limits, observer
        session, spending = self.session, self.spending
        self.end: End | None = "goal" if session.done else None
        self.error: Exception | None = None
        self._ready = deque(begun.waiting)
        self._calls_before = self._sent = spending.calls
        self._in_flight = 0
        self._arrived: list[tuple[Draw, Answer]] = []
        self._unbooked = 0
        self._held: list[tuple[Draw, Answer]] = []
        self._unwritten: list[tuple[Draw, Answer]] = []
        self._succeeded = spending.calls > spending.failures
        self._window = Window(limits.connections)
        self._news, self._orders, self._post = Bell(), Bell(), Bell()
        self._dry = self._closed = False
        self._over = asyncio.Event()
        self._started = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []

    # -- from outside ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Returns when the session has ended, a limit is reached or `stop` was called; raises what broke."""
        if self.end is None:
            await self._work()
        self.observer.on_progress(self.progress())
        if self.error is not None:
            raise self.error

    def stop(self, end: End = "interrupted") -> None:
        """No further calls. Those in flight are waited for; a second `stop` by hand abandons them."""
        if self.end is not None and end == "interrupted":
            self._abandon()
        if self.end is None:
            self.end = end
            self._over.set()
            self._orders.ring()
            self._news.ring()

    def progress(self) -> Progress:
        session, elapsed = self.session, time.monotonic() - self._started
        expected = expected_calls(session)
        pace = (self.spending.calls - self._calls_before) / elapsed if elapsed > 0 else 0.0
        ahead = None if expected is None else max(expected - session.n_evaluated, 0)
        return Progress(
            run_id=self.run_id,
            n_items=session.n_items,
            answered=self.spending.calls,
            consumed=session.n_evaluated,
            in_flight=self._in_flight,
            failures=self.spending.failures,
            estimate=session.estimate,
            interval=session.interval,
            expected_calls=expected,
            cost_usd=self.spending.cost_usd,
            elapsed_s=elapsed,
            eta_s=None if ahead is None or pace <= 0 else ahead / pace,
        )

    # -- tasks -----------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        workers = [asyncio.create_task(self._worker()) for _ in range(self.limits.connections)]
        helpers = [asyncio.create_task(self._supply()), asyncio.create_task(self._tick())]
        bookkeeper = asyncio.create_task(self._keep_books())
        self._tasks = [*workers, *helpers]
        try:
            await self._over.wait()
            await asyncio.wait(workers, timeout=GRACE_S[self.end or "error"])
        finally:
            self._abandon()
            await finished(asyncio.create_task(self._close(bookkeeper)))

    async def _close(self, bookkeeper: asyncio.Task[None]) -> None:
        """Also what arrived last has been paid for."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._closed = True
        self._post.ring()
        await bookkeeper

    def _abandon(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _supply(self) -> None:
        """Keeps draws ready, each stored before any call for it goes out."""
        try:
            while self.end is None:
                room = 2 * self.limits.connections - len(self._ready)
                fresh = self.session.ask(room) if room >= self.limits.connections else []
                self._dry = not (fresh or self._ready)
                if fresh:
                    await self.writer.add_draws(fresh)
                    self._ready.extend(fresh)
                self._news.ring()
                if not fresh:
                    await self._orders.wait()
        except Exception as error:
            self._break(error)

    async def _worker(self) -> None:
        try:
            while (draw := await self._next()) is not None:
                answer = await self._call(draw)
                self._arrived.append((draw, answer))
                self._unbooked += 1
                self._post.ring()
        except Exception as error:
            self._break(error)

    async def _call(self, draw: Draw) -> Answer:
        self._in_flight += 1
        try:
            return await self.caller.answer(draw)
        finally:
            self._in_flight -= 1

    async def _keep_books(self) -> None:
        while self._arrived or not self._closed:
            if not self._arrived:
                await self._post.wait()
                continue
            batch, self._arrived = self._arrived, []
            try:
                await self._book(batch)
            except Exception as error:
                self._break(error)
            self._unbooked -= len(batch)
            self._news.ring()
        await self._write_again()

    async def _next(self) -> Draw | None:
        while self.end is None:
            if self._ready and self._room():
                self._sent += 1
                if len(self._ready) <= self.limits.connections:
                    self._orders.ring()
                return self._ready.popleft()
            if self._held and self._is_idle():
                await self._give_up_on_held()
            elif self.end is None:
                await self._news.wait()
        return None

    def _is_idle(self) -> bool:
        """Whether nothing can happen by itself: no call is out, no answer unwritten, no draw may be sent.

        Invariant: a run that has not ended sends a draw, waits for a call or a write, or books what it holds. When it
        is idle and holds nothing, every draw sent has been told, so that the next one is within the window.
        """
        return bool(self._ready or self._dry) and not self._in_flight and not self._unbooked

    def _room(self) -> bool:
        """Whether the next draw may be sent: it can be paid for, and is not too far ahead of the results."""
        pending = self._sent - self.spending.calls - len(self._held)
        affordable = self.spending.room(self.limits.max_usd, pending)
        if not (affordable or pending):
            self.stop("usd")
        ahead = self._ready[0].index - self.session.n_evaluated - len(self._held)
        return affordable > 0 and ahead < self._window.size(self.session)

    async def _tick(self) -> None:
        try:
            while self.end is None:
                await asyncio.sleep(TICK_S)
                minutes = self.limits.max_minutes
                if minutes is not None and time.monotonic() - self._started >= 60 * minutes:
                    self.stop("minutes")
                self.observer.on_progress(self.progress())
        except Exception as error:
            self._break(error)

    # -- answers ---------------------------------------------------------------------------------------------

    async def _book(self, batch: Sequence[tuple[Draw, Answer]]) -> None:
        """Failures are held back until a call succeeds: if none does, the endpoint failed, not the items."""
        booked: list[tuple[Draw, Answer]] = []
        for draw, answer in batch:
            self._held.append((draw, answer))
            if answer.failure is None:
                self._succeeded = True
                booked, self._held = [*booked, *self._held], []
        if booked:
            await self._store(booked)
        self._check_hope()

    async def _store(self, booked: Sequence[tuple[Draw, Answer]]) -> None:
        """Tells what is written; keeps what could not be written, and raises why."""
        errors = await self._written([answer for _, answer in booked])
        for (draw, answer), error in zip(booked, errors, strict=True):
            if error is not None:
                self._unwritten.append((draw, answer))
                continue
            self.spending.add(answer.cost_usd, failed=answer.failure is not None)
            tell(self.session, draw, answer.score)
        if self.session.done:
            self.stop("goal")
        self._orders.ring()
        for error in filter(None, errors):
            raise error

    async def _written(self, answers: Sequence[Answer]) -> list[Exception | None]:
        if len(answers) == 1:
            # The usual case, without the cost of a task for it.
            return [await self._add(answers[0])]
        return await asyncio.gather(*map(self._add, answers))

    async def _add(self, answer: Answer) -> Exception | None:
        try:
            await self.writer.add(answer)
        except Exception as error:
            return error
        return None

    async def _write_again(self) -> None:
        """The store may be back, and these answers have been paid for."""
        booked, self._unwritten = self._unwritten, []
        try:
            if booked:
                await self._store(booked)
        except Exception as error:
            self._break(error)

    def _check_hope(self) -> None:
        limit = max(HOPELESS, self.limits.connections) if self._succeeded else HOPELESS
        if len(self._held) >= limit:
            raise self._hopeless()

    def _hopeless(self) -> CallError:
        return CallError(
            f"the last {len(self._held)} calls all failed, so the run stopped; nothing is lost: "
            f"`cereval resume {self.run_id}` asks again ({self._held[-1][1].failure})"
        )

    async def _give_up_on_held(self) -> None:
        """Nothing else is under way: these calls have failed, and the session must go on without them."""
        if not self._succeeded:
            raise self._hopeless()
        booked, self._held = self._held, []
        await self._store(booked)
        self._news.ring()

    def _break(self, error: Exception) -> None:
        self.error = self.error or error
        self.stop("error")
