"""Run the loop: draws are stored, then asked; answers are stored, then told. What is stored is never lost.

One supplier keeps a few stored calls ready and one bookkeeper stores what has arrived, many at a time, so that no
connection waits for the disk; as many workers as connections put the draws to the models. The session consumes in
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
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import sqrt
from typing import Literal, NamedTuple

from cereval.errors import CallError, Misuse
from cereval.questions.log import Change
from cereval.questions.mean.goal import Estimate
from cereval.questions.session import AskTell, tell
from cereval.records import Draw
from cereval.runner.executor import EndOfAnswers, Executor, Sender
from cereval.runner.limits import UNLIMITED, Limits
from cereval.runner.pace import (
    LARGEST_ROUND,
    Pace,
    calls_afresh,
    expected_calls,
    foreseen,
    is_held_back,
    next_round,
)
from cereval.runner.progress import WARNING, Observer, Progress
from cereval.runner.samples import Samples
from cereval.runner.start import Start, Voice, check_stored, scores_of
from cereval.store.base import CHANGED, Answer
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


class Call(NamedTuple):
    """Name one question to one model; `place` is the number under which its answer is kept."""

    draw: Draw
    model: int
    place: int


Arrived = tuple[Call, Answer]


class Loop:
    """Drive one session to its end, from where it stands.

    Invariant: a run that has not ended sends a call, waits for a call or a write, or books what it holds. When it is
    idle and holds nothing, every call sent has been told, so that the next one is within the window; if there is no
    next one either, nothing can happen any more, and the run ends with a line that says so.
    """

    def __init__(
        self,
        begun: Start,
        executor: Executor,
        writer: AnswerWriter,
        limits: Limits,
        observer: Observer,
        sender: Sender | None = None,
    ) -> None:
        """Make a loop. sender: calls go out in rounds, which it sends."""
        self.begun, self.session, self.spending = begun, begun.session, begun.spending
        self.voices = begun.voices
        self.executor, self.writer, self.limits, self.observer = executor, writer, limits, observer
        self.end: End | None = "goal" if self.session.done else None
        self.error: Exception | None = None
        self.noticed: list[str] = []
        self._ready: deque[Call] = deque()
        self._spare: dict[tuple[int, int], Call] = {}
        self._calls_before = self.spending.calls
        self._in_flight = self._unbooked = 0
        self._arrived: list[Arrived] = []
        self._unwritten: list[Arrived] = []
        self._awaited: dict[tuple[int, int], Draw] = {}
        self._early: set[tuple[int, int]] = set()
        self.sender = sender
        self._window = (
            Window(limits.connections)
            if sender is None
            else Rounds(sender.sent, self.session.n_items * len(self.voices))
        )
        self._waits = False
        self._news, self._orders, self._post = Bell(), Bell(), Bell()
        self._dry = self._closed = False
        self._over = asyncio.Event()
        self._started = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []
        for model, voice in enumerate(self.voices):
            if voice.answered:
                executor.answered_before(model)

    # -- from outside -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Return when the session has ended, a limit is reached or `stop` was called; raise what broke."""
        if self.end is None:
            await self._work()
        self._pass_on_notices()
        self.observer.on_progress(self.progress())
        if self.error is not None:
            raise self.error

    def _pass_on_notices(self) -> None:
        for notice in self.executor.notices():
            if notice.startswith(WARNING):
                self.noticed.append(notice)
            self.observer.on_note(notice)

    def stop(self, end: End = "interrupted") -> None:
        """Make no further calls. Those in flight are waited for; a second `stop` by hand abandons them."""
        if self.end is not None and end == "interrupted":
            self._abandon()
        if self.end is None:
            self.end = end
            # Those who wait for people wait no longer: nothing is lost.
            getattr(self.executor, "stopping", lambda: None)()
            if self.sender is not None:
                self.sender.stop()
            self._over.set()
            self._orders.ring()
            self._news.ring()

    def progress(self) -> Progress:
        session, elapsed = self.session, time.monotonic() - self._started
        expected = expected_calls(session)
        pace = (self.spending.calls - self._calls_before) / elapsed if elapsed > 0 else 0.0
        ahead = None if expected is None else max(expected - session.n_evaluated, 0)
        return Progress(
            run_id=self.begun.plan.run_id,
            n_items=session.n_items,
            answered=self.spending.calls,
            consumed=session.n_evaluated,
            in_flight=self._in_flight,
            failures=self.spending.failures,
            step=session.step(),
            expected_calls=expected,
            cost_usd=self.spending.cost_usd,
            elapsed_s=elapsed,
            eta_s=None if ahead is None or pace <= 0 else ahead / pace,
            standing=session.standing(),
            calls_each=session.asked * Samples.of(self.begun.plan.scorer).count,
        )

    # -- tasks --------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        workers = [asyncio.create_task(self._worker()) for _ in range(self._window.connections)]
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
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._closed = True
        self._post.ring()
        await bookkeeper

    def _abandon(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _supply(self) -> None:
        """Keep calls ready, each stored before it goes out."""
        try:
            await self._queue(self.begun.waiting)
            while self.end is None:
                await self._foresee()
                await self._open_round()
                wanted = self._window.wanted(self.session, len(self._ready))
                fresh = self.session.ask(wanted) if wanted else []
                if self.session.done:
                    self.stop("goal")
                    break
                await self._queue(fresh)
                early = [] if fresh else await self._look_ahead()
                self._dry = not (fresh or early or self._ready or self._spare)
                self._news.ring()
                if not (fresh or early) and self.end is None:
                    self._waits = True
                    await self._orders.wait()
                    self._waits = False
        except Exception as error:
            self._break(error)

    async def _foresee(self) -> None:
        """Have the bets on later draws work towards what money and time will buy; recorded before they are decided."""
        session, pace = self.session, Pace(self._calls_before, time.monotonic() - self._started)
        horizon = None
        if not (self.begun.plan.nonce or session.done):
            horizon = foreseen(session, self.spending, self.limits, pace)
        if horizon is not None:
            goal, budget = session.goal.spec(), session.budget
            await self._change(Change(session.n_evaluated, session.n_drawn, goal, budget, horizon))

    async def _change(self, change: Change) -> None:
        change.apply(self.session)
        self.begun = replace(self.begun, changes=(*self.begun.changes, change))
        # To its end even if the run ends meanwhile: the session goes by it, so its log must have it.
        write = self.writer.change(self.begun.plan.run_id, CHANGED, change.as_dict())
        await finished(asyncio.create_task(write))

    async def _open_round(self) -> None:
        session, window = self.session, self._window
        busy = self._in_flight or self._unbooked or self._ready or self._spare
        if not isinstance(window, Rounds) or busy or session.done:
            return
        draws = window.begin(session)
        if is_held_back(session) and not self.begun.plan.nonce:
            goal, budget = session.goal.spec(), session.budget
            await self._change(Change(session.n_evaluated, session.n_drawn, goal, budget, round=draws))

    def _send(self) -> None:
        """Have a round go out once nothing can be added to it before answers come."""
        if self.sender is None or not self._waits or self._unbooked or not self._in_flight:
            return
        if not self._ready or not self._room():
            self.sender.flush()

    async def _queue(self, draws: Sequence[Draw]) -> None:
        """Store new draws and put their calls in line; what is answered already is told at once."""
        calls: list[Call] = []
        for draw in draws:
            check_stored(self.session, self.voices, draw, self.begun.plan)
            if not self._tell_if_known(draw) and self.session.within_budget(draw):
                calls += self._calls(draw)
        await self._store_draws(calls)
        self._ready.extend(calls)
        if self.session.done:
            self.stop("goal")

    def _calls(self, draw: Draw) -> list[Call]:
        """Return the calls that a draw still needs and that are not under way; all that are missing are awaited
        now."""
        place, asked = self.session.place(draw), draw.models if len(self.voices) > 1 else (0,)
        missing = [model for model in asked if place not in self.voices[model].results]
        for model in missing:
            self._awaited[model, place] = draw
            if self._spare.pop((model, place), None) is not None:
                # Not sent yet: now it is asked in its turn.
                self._early.discard((model, place))
        return [Call(draw, model, place) for model in missing if (model, place) not in self._early]

    async def _look_ahead(self) -> list[Call]:
        """Put draws in line that will come unless the session turns elsewhere, where connections would idle.

        Not where calls are counted: one that is not needed would be paid for beyond the budget.
        """
        count = self._window.early(self.session, len(self._early))
        busy = len(self._ready) + len(self._spare) >= self._window.connections
        counted = self.session.budget is not None
        if count <= 0 or busy or counted or not getattr(self.executor, "asks", True):
            return []
        calls = [
            Call(draw, model, self.session.place(draw))
            for draw in self.session.ahead(count + len(self._early))
            for model in draw.models
        ]
        fresh = [
            call
            for call in calls
            if (call.model, call.place) not in self._early
            and call.place not in self.voices[call.model].results
        ][:count]
        await self._store_draws(fresh)
        self._spare |= {(call.model, call.place): call for call in fresh}
        self._early |= self._spare.keys()
        return fresh

    async def _store_draws(self, calls: Iterable[Call]) -> None:
        by_model: dict[int, list[Draw]] = {}
        for call in calls:
            voice = self.voices[call.model]
            if call.place not in voice.stored:
                voice.stored[call.place] = Draw(call.place, call.draw.item, call.draw.probability)
                by_model.setdefault(call.model, []).append(voice.stored[call.place])
        for model, draws in by_model.items():
            await self.writer.add_draws(self.voices[model].run_id, draws)

    async def _worker(self) -> None:
        try:
            while (call := await self._next()) is not None:
                answer = await self._answer(call)
                self._arrived.append((call, answer))
                self._unbooked += 1
                self._post.ring()
        except EndOfAnswers:
            self.stop("usd")
        except Exception as error:
            self._break(error)

    async def _answer(self, call: Call) -> Answer:
        try:
            return await self.executor.answer(*call)
        finally:
            self._in_flight -= 1

    async def _next(self) -> Call | None:
        while self.end is None:
            call = self._taken()
            if call is not None:
                self._in_flight += 1
                if len(self._ready) <= self._window.connections:
                    self._orders.ring()
                return call
            if self.end is None and self._is_idle():
                await self._give_up_on_held()
            elif self.end is None:
                await self._news.wait()
        return None

    def _is_idle(self) -> bool:
        """Tell whether nothing can happen by itself: no call is out, no answer unwritten, no draw may be sent."""
        return bool(self._ready or self._dry) and not self._in_flight and not self._unbooked

    def _taken(self) -> Call | None:
        if self._ready:
            return self._ready.popleft() if self._room() else None
        key = next(iter(self._spare), None)
        affordable = key is not None and self._affordable(self.voices[key[0]])
        return self._spare.pop(key) if key is not None and affordable else None

    def _room(self) -> bool:
        """Tell whether the next call may be sent: it can be paid for, and is not too far ahead of the results."""
        call = self._ready[0]
        if not self._affordable(self.voices[call.model]):
            if not (self._in_flight or self._unbooked):
                self.stop("usd")
            return False
        # A held failure keeps its item from being consumed, and so holds back a call of every model.
        waiting = sum(len(voice.held) for voice in self.voices) * len(self.voices)
        ahead = (call.draw.index - self.session.n_evaluated) * self.session.asked - waiting
        return ahead < self._window.size(self.session)

    def _affordable(self, voice: Voice) -> bool:
        """Count each call under way at the highest cost of a call so far; ask a model whose price is unknown alone."""
        pending = self._in_flight + self._unbooked
        further = self.limits.further_answers
        if further is not None and self.spending.calls - self._calls_before + pending >= further:
            return False
        if self.limits.max_usd is None:
            return True
        if pending and not voice.answered:
            return (
                self.limits.call_usd is not None
                and (pending + 1) * self.limits.call_usd <= self.limits.max_usd
            )
        return self.spending.room(self.limits.max_usd, pending) > 0

    async def _tick(self) -> None:
        try:
            while self.end is None:
                await asyncio.sleep(TICK_S)
                minutes = self.limits.max_minutes
                if minutes is not None and time.monotonic() - self._started >= 60 * minutes:
                    self.stop("minutes")
                self._send()
                self._pass_on_notices()
                self.observer.on_progress(self.progress())
        except Exception as error:
            self._break(error)

    # -- answers ------------------------------------------------------------------------------------------------------

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

    async def _book(self, batch: Sequence[Arrived]) -> None:
        """Hold failures back until their model answers: if it never does, its endpoint failed, not the items."""
        booked: list[Arrived] = []
        for call, answer in batch:
            voice = self.voices[call.model]
            voice.held.append((call, answer))
            voice.failing += 1
            if answer.failure is None:
                voice.answered, voice.failing = True, 0
                booked += self._released(voice)
        if booked:
            await self._store(booked)
        for voice in self.voices:
            self._check_hope(voice)

    def _released(self, voice: Voice) -> list[Arrived]:
        held, voice.held = voice.held, []
        return held

    async def _store(self, booked: Sequence[Arrived]) -> None:
        """Tell what is written; keep what could not be written, and raise why."""
        errors = await self._written(booked)
        for (call, answer), error in zip(booked, errors, strict=True):
            if error is not None:
                self._unwritten.append((call, answer))
                continue
            self.spending.add(answer.cost_usd, failed=answer.failure is not None)
            self._heard(call, answer)
        if self.session.done:
            self.stop("goal")
        # The session may have more to ask now: nobody is to conclude that all is over before the supplier has looked.
        self._dry = False
        self._orders.ring()
        for error in filter(None, errors):
            raise error

    def _heard(self, call: Call, answer: Answer) -> None:
        voice = self.voices[call.model]
        voice.results[call.place] = answer.score
        if answer.kept:
            voice.kept[call.place] = answer.kept
        draw = self._awaited.pop((call.model, call.place), None)
        if draw is not None:
            self._tell_if_known(draw)

    def _tell_if_known(self, draw: Draw) -> bool:
        """Tell a draw once all its models have answered."""
        scores = scores_of(self.session, self.voices, draw)
        if scores is not None:
            self._early -= {(model, self.session.place(draw)) for model in draw.models}
            if not self.session.done:
                tell(self.session, draw, scores)
        return scores is not None

    async def _written(self, booked: Sequence[Arrived]) -> list[Exception | None]:
        if len(booked) == 1:
            # The usual case, without the cost of a task for it.
            return [await self._add(*booked[0])]
        return await asyncio.gather(*(self._add(call, answer) for call, answer in booked))

    async def _add(self, call: Call, answer: Answer) -> Exception | None:
        try:
            await self.writer.add(self.voices[call.model].run_id, answer)
        except Exception as error:
            return error
        return None

    async def _write_again(self) -> None:
        """Write once more what could not be written: the store may be back, and these answers have been paid for."""
        booked, self._unwritten = self._unwritten, []
        try:
            if booked:
                await self._store(booked)
        except Exception as error:
            self._break(error)

    def _check_hope(self, voice: Voice) -> None:
        if voice.failing >= self._patience(voice) and voice.held:
            raise self._hopeless(voice)

    def _patience(self, voice: Voice) -> int:
        """Return how many failures in a row say that a model's endpoint is broken."""
        return max(HOPELESS, self._window.connections) if voice.answered or self.sender else HOPELESS

    def _hopeless(self, voice: Voice) -> CallError:
        who = f"{voice.name}: " if len(self.voices) > 1 else ""
        # Those that came back in the same moment say no more.
        count = min(voice.failing, self._patience(voice))
        return CallError(
            f"{who}the last {count} calls all failed, so the run stopped; nothing is lost: "
            f"`cereval resume {self.begun.plan.run_id}{self.begun.where}` asks again "
            f"({voice.held[-1][1].failure})"
        )

    async def _give_up_on_held(self) -> None:
        """Book the failures that are held: nothing else is under way, and the session must go on without them."""
        booked: list[Arrived] = []
        for voice in self.voices:
            if voice.held and not voice.answered:
                raise self._hopeless(voice)
            booked += self._released(voice)
        if not booked:
            raise Misuse("nothing can happen any more: no call is out, none can be sent, none is awaited")
        if booked:
            # Until they are written, the run is not idle: other workers must not conclude that all is over.
            self._unbooked += len(booked)
            try:
                await self._store(booked)
            finally:
                self._unbooked -= len(booked)
        self._news.ring()
        await asyncio.sleep(0)

    def _break(self, error: Exception) -> None:
        self.error = self.error or error
        self.stop("error")


SURE = 1 / 3
"""Of the calls still expected, less the root of all that are: a run has never been seen to end sooner.

Nor within half of them (tests/runner/test_window.py holds a third)."""

FEWEST = 50
"""Results before an expectation is worth something."""

MOST_EARLY = 2
"""Calls and answers ahead of what a session has asked for, in multiples of the connections (`AskTell.ahead`)."""

MOST_AHEAD = 3
"""Answers that may wait for an earlier one, in multiples of the connections."""


class Window:
    """Decide how many calls may be out before their results are needed.

    Calls beyond those needed at the stop are kept at the number of connections. Results are consumed in draw order,
    so one slow call holds back all later ones. With as many calls out as connections, at most that many are too many
    when the goal is reached; but a call that is retried for a minute would idle the others for a minute. So far
    from an estimate's goal, where none of the next calls can be the last, answers may pile up behind a slow one. A
    threshold can be decided by the very next answers.

    >>> from cereval.questions.mean.session import Session
    >>> Window(4).size(Session(100))
    4
    """

    def __init__(self, connections: int) -> None:
        self.connections = connections
        self._at, self._size = -1, connections

    def wanted(self, session: AskTell, ready: int) -> int:  # noqa: ARG002
        room = 2 * self.connections - ready
        return room if room >= self.connections else 0

    def early(self, session: AskTell, out: int) -> int:  # noqa: ARG002
        """Return how many calls to make ahead of what the session asks for, where so many are out.

        Half of them are out while the answers of the other half wait for their round.
        """
        return MOST_EARLY * self.connections - out

    def size(self, session: AskTell) -> int:
        at = session.n_evaluated
        if self._at < 0 or at >= self._at + self.connections // 2 or at < self._at:
            self._at, self._size = at, self.connections + self._ahead(session)
        # The end has come nearer since the size was worked out.
        return max(self._size - (at - self._at), self.connections)

    def _ahead(self, session: AskTell) -> int:
        if session.n_evaluated < FEWEST or not isinstance(session.goal, Estimate):
            return 0
        # A budget ends the draws by itself: only the goal can come while calls are out.
        expected = calls_afresh(session) or 0
        sure = int(SURE * (expected - session.n_evaluated) - sqrt(expected))
        return max(min(sure, MOST_AHEAD * self.connections), 0)


class Rounds(Window):
    """Have calls go out in rounds: all of one are decided before its first answer, and none before the last is in."""

    def __init__(self, begun: int, calls: int) -> None:
        """Go on after so many rounds. calls: that there can be in all."""
        super().__init__(min(calls, LARGEST_ROUND))
        self._end, self._begun = 0, begun

    def begin(self, session: AskTell) -> int:
        draws = next_round(session, self._begun)
        self._begun += 1
        self._end = session.n_drawn + draws
        return draws

    def wanted(self, session: AskTell, ready: int) -> int:  # noqa: ARG002
        return max(self._end - session.n_drawn, 0)

    def early(self, session: AskTell, out: int) -> int:
        return max(self._end - session.n_drawn - out, 0)

    def size(self, session: AskTell) -> int:  # noqa: ARG002
        return UNLIMITED


class Bell:
    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        await self._event.wait()


async def finished(task: asyncio.Task[None]) -> None:
    """Wait for a task to its end; a cancellation meanwhile is passed on afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()
