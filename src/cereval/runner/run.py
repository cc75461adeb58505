"""Carry an evaluation from settings to its outcome: the one door for the command line, Python, view and fleets."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from cereval.datasets.base import Item
from cereval.errors import InvalidInput, NotBegun, StoreError
from cereval.models.base import EndpointError
from cereval.plan import Plan
from cereval.questions import kind_of
from cereval.questions.base import Kind
from cereval.questions.goals import in_words
from cereval.questions.log import Change
from cereval.questions.session import AskTell
from cereval.records import PASSED, Certified
from cereval.runner.batches import open_sender, refuse_unfetched
from cereval.runner.book import Reuse, WithBook, age_in_seconds, books_for
from cereval.runner.executor import Counted, Executor, Sender
from cereval.runner.finding import planned, run_ids, stored_items
from cereval.runner.limits import Allowance, Limits
from cereval.runner.loop import End, Loop
from cereval.runner.pace import calls_to_goal, cheaper_afresh
from cereval.runner.people import judged, judged_before, with_people
from cereval.runner.prepare import Prepared, need_temperature, needs_turn, open_plan, turned
from cereval.runner.progress import Observer, Silent, watcher
from cereval.runner.resume import circumstances_in
from cereval.runner.samples import Samples
from cereval.runner.sealing import read_seal, sealed_plan
from cereval.runner.start import (
    Served,
    Start,
    changed,
    doubts,
    goal_now,
    held,
    newest_certificate,
    price_of_going_on,
    reopened,
    served_by,
    start,
    subject,
)
from cereval.settings import Settings
from cereval.stats.planning import fixed_sizes
from cereval.store.base import GOAL_NOW, NOTED, RECORDS, SERVED, STOPPING, TOGETHER, KeptAnswer, Store
from cereval.store.writer import AnswerWriter
from cereval.text import EXACT

INTERRUPTED = "interrupted: waiting for the calls in flight (Ctrl-C again to stop at once)"
ORDERED = "interrupted: what is with the provider is fetched by `cereval resume`"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a run is allowed besides its settings, and no part of them: it may change from one resume to the next.

    lessons: the earlier runs that it may learn from where it begins now, and how many draws of each; None: all. since:
    no answer from before that moment counts, in seconds since 1970; None: as its settings say. reading: what is in the
    store is read, and nothing begun, asked or written.
    """

    lessons: Mapping[str, int] | None = None
    since: float | None = None
    allowance: Allowance | None = None
    reading: bool = False


async def conduct(
    work: Prepared,
    settings: Settings,
    store: Store,
    observer: Observer | None = None,
    *,
    bounds: Bounds | None = None,
    seal: Path | None = None,
) -> Outcome:
    """Ask what settings ask, through the store: what is in it is not asked again, an unfinished run goes on."""
    bounds = bounds or Bounds()
    if bounds.since is not None:
        work = replace(work, circumstances={**work.circumstances, "since": bounds.since})
    if bounds.reading:
        await work.close()
        return read_back(await choose_plan(work, settings, store, bounds=bounds), store)
    with store.hold_request(work.plan.request):
        plan = await choose_plan(work, settings, store, observer, bounds=bounds, seal=seal)
        return await carry_out(
            work, plan, store, observer, reuse=reuse_in(work.circumstances), allowance=bounds.allowance
        )


async def choose_plan(
    work: Prepared,
    settings: Settings,
    store: Store,
    observer: Observer | None = None,
    *,
    bounds: Bounds | None = None,
    seal: Path | None = None,
) -> Plan:
    """Return the plan to carry out: that of an unfinished run of the same request, of a seal, or a new one."""
    bounds, history = bounds or Bounds(), settings.uses_store_history
    if seal is not None:
        return sealed_plan(read_seal(seal), work.plan, work.items, store, history=history)
    graded = judged_before(work) if bounds.reading else await judged(work, store, observer)
    return planned(
        work.plan,
        work.items,
        store,
        history=history,
        fresh=bool(settings["fresh"]),
        since=reuse_in(work.circumstances).since,
        lessons=bounds.lessons,
        taught=graded,
    )


async def carry_out(
    work: Prepared,
    plan: Plan,
    store: Store,
    observer: Observer | None = None,
    change: Change | None = None,
    reuse: Reuse = Reuse(),  # noqa: B008
    allowance: Allowance | None = None,
) -> Outcome:
    """Run or resume a plan to its outcome. change: a new goal or budget, `{}` and None where they stay.

    reuse: which answers that the store has already may be taken instead of asking. allowance: what it may take now,
    within its own limits. Where a server refuses the temperature before the first answer, and nobody chose the target,
    the question becomes one about fresh answers.
    """
    try:
        return await _carry_out(work, plan, store, observer, change, reuse, allowance)
    except EndpointError:
        if work.asked is None or not needs_turn(work):
            raise
        asked = work.asked
    # Refused requests cost nothing, and nothing was answered: the run that never was leaves no trace.
    if not any(voice.results.keys() - voice.kept.keys() for voice in start(plan, work.items, store).voices):
        store.delete(run_ids(plan))
    work = turned(work)
    plan = await choose_plan(work, asked, store, observer)
    return await _carry_out(work, plan, store, observer, change, reuse, allowance)


async def _carry_out(
    work: Prepared,
    plan: Plan,
    store: Store,
    observer: Observer | None,
    change: Change | None,
    reuse: Reuse,
    allowance: Allowance | None,
) -> Outcome:
    if kind_of(plan) is not kind_of(work.plan) or plan.data_hash != work.plan.data_hash:
        await work.close()
        same = plan.data_hash == work.plan.data_hash
        items = work.items if same else stored_items(plan, store)
        work = open_plan(plan, items, work.circumstances, work.functions)
    sender = None
    try:
        with held(plan, store):
            begun = _apply_change(start(plan, work.items, store), store, change)
            if plan.target == "benchmark" and not any(voice.results for voice in begun.voices):
                need_temperature(work)
            begun = replace(begun, notes=(*work.notes, *begun.notes))
            watching, asking = observer or watcher(), work.executor
            if not begun.session.done:
                if work.circumstances.get("batch"):
                    asking, sender = open_sender(asking, [voice.run_id for voice in begun.voices], store)
                else:
                    refuse_unfetched(begun.voices, store)
            book = WithBook(asking, work.items, work.scorers, books_for(plan, work.items, store, reuse))
            executor = with_people(book, plan, [voice.run_id for voice in begun.voices], store)
            limits = work.limits
            if allowance is not None:
                each = Samples.of(plan.scorer).count
                limits = limits.within(allowance, plan.run_id, begun.spending, each)
            return await run(
                begun,
                store,
                executor,
                limits,
                watching,
                counted=book.counted,
                served=work.served,
                circumstances=work.circumstances,
                on_interrupt=lambda: watching.on_note(ORDERED if sender else INTERRUPTED),
                sender=sender,
            )
    finally:
        if sender is not None:
            await sender.close()
        await work.close()


def reuse_in(circumstances: Mapping[str, Any]) -> Reuse:
    """Return which earlier answers a run may take that began under these circumstances."""
    age, since = circumstances.get("max_age"), circumstances.get("since")
    moments = [since, None if age is None else time.time() - age_in_seconds(age)]
    latest = max((one for one in moments if one is not None), default=None)
    return Reuse(fresh=bool(circumstances.get("fresh")), since=latest)


def scores_told_before(plan: Plan, items: Sequence[Item], store: Store) -> list[dict[int, KeptAnswer]]:
    """Return the scores that the candidates of a run were told in earlier ones, by the item's number, as far as it may
    take them: those of the same scorer, and none where it is to be fresh."""
    books = books_for(plan, items, store, reuse_in(circumstances_in(plan.run_id, store, {})))
    return [{item: one for item, one in book.items() if one.same_scorer} for book in books]


def _apply_change(begun: Start, store: Store, change: Change | None) -> Start:
    """Apply a change to what the replay reached; without one, or where nothing differs, all stays."""
    session = begun.session
    budget = session.budget if change is None or change.max_calls is None else change.max_calls
    goal = session.goal.spec() if change is None or not change.goal else dict(change.goal)
    _refuse_wider_goal(session, goal)
    if (goal, budget) != (session.goal.spec(), session.budget):
        begun = changed(begun, store, Change(session.n_evaluated, session.n_drawn, goal, budget))
    notes = _note_changed_goal(begun) if change is None else ()
    return replace(begun, notes=(*price_of_going_on(begun), *begun.notes, *notes))


def _refuse_wider_goal(session: AskTell, goal: Mapping[str, Any]) -> None:
    """Refuse to replace a goal that is reached by a wider one: what is certified would only be told less well."""
    now = session.goal.spec()
    eps, reached = goal.get("eps"), session.stopped == "goal" and now.get("eps")
    if reached and eps is not None and eps > reached:
        raise InvalidInput("eps", f"at most {reached:g}, which is reached", eps)


def _note_changed_goal(begun: Start) -> tuple[str, ...]:
    """Say so where a command is repeated whose run has had another goal since."""
    now = goal_now(begun)
    if now is None:
        return ()
    return (
        f"the goal of run {begun.plan.run_id} was changed by `resume`: it is {in_words(now)} now, not "
        f"{in_words(begun.plan.goal)}; another --seed begins a new run",
    )


# -- the loop, the signals, the certificate ---------------------------------------------------------------------------


STATUS: Mapping[End, str] = {
    "goal": "finished",
    "usd": "budget",
    "minutes": "budget",
    "interrupted": "interrupted",
    "error": "failed",
}

LOOK_S = 1.0
"""How often a run looks whether somebody asked it to stop."""


Spent = Literal["calls", "usd", "minutes"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold what a run came to.

    result: as people and scripts are shown it. calls: all that came back, also those before a resume. surplus: those
    that were not needed at the stop. parts: the runs that keep the answers, by the model's name.
    """

    run_id: str
    plan: Plan
    kind: Kind
    result: Certified
    certificate: Mapping[str, Any]
    calls: int
    surplus: int
    cost_usd: float | None
    interrupted: bool
    parts: Mapping[str, str]
    asked: int = 0
    """Answers paid for now."""
    kept: int = 0
    """Answers that were there: of this run, or taken from the answer book."""
    kept_since: float | None = None
    """When the oldest of them was given, in seconds since 1970."""
    priced_by: str = ""
    """The table or the flags that the cost was worked out with."""
    calls_to_go: int | None = None
    """Calls that the goal would still take, by forecast; None where it is reached, or nothing can be said."""
    calls_afresh: int | None = None
    """Calls that a new run would take, by forecast, where that is worth a word."""
    spent: Spent | None = None
    """The limit that ended it."""
    notes: tuple[str, ...] = ()
    """What whoever reads the result should know of how it came about."""
    served: Served = field(default_factory=dict)
    """Of each candidate, under which names a server answered, and how often."""

    @property
    def instead(self) -> dict[str, int]:
        """Return the calls of others for the same answer (`calls_instead`)."""
        if self.plan.method == "all":
            return {}
        return calls_instead(self.result, self.kind, Samples.of(self.plan.scorer).count)


MEASURING = ("estimate", "finest", "difference")
"""Goals that ask for a number, whose width a plan of fixed size can aim at."""


def calls_instead(result: Certified, kind: Kind, samples: int = 1) -> dict[str, int]:
    """Return the calls of others: to ask all, or by a plan of fixed size for an interval as narrow as this one.

    Of plans by the normal approximation and by Hoeffding's bound, made when nothing is known of the scores; where a
    question is decided there is no such plan, since nobody knows beforehand how near the answer is.
    """
    lower, upper = getattr(result, "lower", 0.0), getattr(result, "upper", 0.0)
    size = None if result.target in ("population", "expected") else result.n_items
    each = samples * (2 if kind.asks == "two" else 1)
    found = {} if size is None else {"all": int(getattr(result, "calls_full", each * size))}
    if result.exit_code != PASSED or result.goal.get("goal") not in MEASURING or upper - lower <= EXACT:
        return found
    sizes = fixed_sizes((upper - lower) / 2 / (1 - kind.least), 1 - result.confidence, size)
    return found | {name: each * count for name, count in sizes.items()}


async def run(
    begun: Start,
    store: Store,
    executor: Executor,
    limits: Limits,
    observer: Observer | None = None,
    *,
    counted: Counted | None = None,
    served: Sequence[Mapping[str, int]] = (),
    circumstances: Mapping[str, Any] | None = None,
    on_interrupt: Callable[[], None] = lambda: None,
    sender: Sender | None = None,
) -> Outcome:
    """Ask until the goal is met or a limit is reached. What went wrong is recorded before it is raised.

    circumstances: what is no part of the plan but needed to go on alike (prices, connections), for `resume`.
    """
    watcher, before = observer or Silent(), begun.spending.calls
    watcher.on_start(subject(begun), begun.notes)
    if not begun.session.done:
        for run_id in run_ids(begun.plan):
            store.mark(run_id, "running", circumstances)
    async with AnswerWriter(store) as writer:
        loop = Loop(begun, executor, writer, limits, watcher, sender)
        with _interruptible(loop, on_interrupt), _stoppable(loop, store, begun.plan.run_id):
            try:
                await loop.run()
            except Exception as error:
                # Failures that are asked again are no answers, but they were calls, and may have cost something.
                held = [answer.cost_usd for voice in loop.voices for _, answer in voice.held]
                cost = None if None in held else sum(one for one in held if one is not None)
                detail = {"error": str(error)[:500], "held_back": len(held), "held_back_usd": cost}
                # The store itself may be what broke.
                with suppress(StoreError):
                    for run_id in run_ids(begun.plan):
                        store.mark(run_id, "failed", detail)
                raise
    for voice, names in zip(begun.voices, served, strict=False):
        if names:
            store.mark(voice.run_id, SERVED, dict(names))
    if loop.noticed:
        store.mark(begun.plan.run_id, NOTED, {"notes": loop.noticed})
    outcome = _outcome(
        loop.begun, store, loop, before, counted, str((circumstances or {}).get("priced_by") or "")
    )
    watcher.on_end(outcome.result)
    return outcome


def _outcome(
    begun: Start, store: Store, loop: Loop, before: int, counted: Counted | None, priced_by: str
) -> Outcome:
    session, end = begun.session, loop.end or "goal"
    result = session.result()
    spent = _spent(result, end, loop.limits)
    if end in ("usd", "minutes") and not session.done:
        result = replace(result, stopped="budget")
    served = served_by(begun, store)
    certificate = begun.certificate(result, served)
    summary = {**_summary(begun, result), **({"priced_by": priced_by} if priced_by else {})}
    _end(begun.plan, store, certificate, _status(result, end), summary)
    kept, each = before + (counted.kept if counted else 0), Samples.of(begun.plan.scorer).count
    return replace(
        _came_to(begun, result, certificate),
        interrupted=end == "interrupted" and not session.done,
        asked=(begun.spending.calls - kept) * each,
        kept=kept * each,
        priced_by=priced_by,
        spent=spent,
        kept_since=_oldest(begun, store, counted) if kept else None,
        served=served,
        notes=doubts(begun, store, served),
    )


def read_back(plan: Plan, store: Store) -> Outcome:
    """Return what a run came to, as the store has it; nothing is asked or written."""
    if plan.run_id not in {run_id for run_id, _ in store.plans(plan.data_hash)}:
        raise NotBegun(f"run {plan.run_id} was not begun, and no call may be made")
    run = store.run(plan.run_id)
    begun = reopened(run, store)
    result = begun.session.result()
    if run.status == "budget" and not begun.session.done:
        result = replace(result, stopped="budget")
    return _came_to(begun, result, newest_certificate(begun, store) or {})


def _came_to(begun: Start, result: Certified, certificate: Mapping[str, Any]) -> Outcome:
    """Return the outcome of a run of which nothing was asked now."""
    session, calls, each = begun.session, begun.spending.calls, Samples.of(begun.plan.scorer).count
    several, goes_on = len(begun.voices) > 1, result.stopped in ("budget", "running")
    total, afresh = (calls_to_goal(session), cheaper_afresh(session)) if goes_on else (None, None)
    return Outcome(
        run_id=begun.plan.run_id,
        plan=begun.plan,
        kind=begun.kind,
        result=result,
        certificate=certificate,
        calls=calls * each,
        surplus=(calls - session.calls) * each,
        cost_usd=begun.spending.cost_usd,
        interrupted=False,
        parts={voice.name: voice.run_id for voice in begun.voices} if several else {},
        kept=calls * each,
        calls_to_go=None if total is None else max(total - session.n_evaluated, 1) * each,
        calls_afresh=None if afresh is None else afresh * each,
    )


def kept_line(outcome: Outcome, fresh: str = "") -> str:
    """Say which answers were there already, and since when; fresh: how the command asks anew, if it can."""
    since = "" if outcome.kept_since is None else f", the oldest of {_minute(outcome.kept_since)}"
    if outcome.asked == 0 and outcome.spent is not None:
        return f"nothing was asked: --max-{outcome.spent} is used up; {outcome.kept:,} answers were stored{since}"
    if outcome.asked == 0:
        return f"nothing was asked: all {outcome.kept:,} answers were stored{since}{fresh}"
    return f"{outcome.asked:,} answers asked now, {outcome.kept:,} were stored{since}"


def _minute(moment: float) -> str:
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):  # a store that was changed by hand may name any moment
        return "an unknown day"


def _spent(result: Certified, end: End, limits: Limits) -> Spent | None:
    """Return the limit that kept a session from going on."""
    if result.stopped == "running" and end == "minutes":
        return "minutes"
    if result.stopped == "running" and end == "usd" and limits.max_usd is not None:
        return "usd"
    return "calls" if result.stopped == "budget" else None


def _oldest(begun: Start, store: Store, counted: Counted | None) -> float | None:
    times = [at for voice in begun.voices for at in store.answered_at(voice.run_id)[:1]]
    return min([*times, *([counted.oldest] if counted and counted.oldest else [])], default=None)


def _end(
    plan: Plan, store: Store, certificate: Mapping[str, Any], status: str, summary: Mapping[str, Any]
) -> None:
    earlier = store.certificates(plan.run_id)
    if not earlier or earlier[-1] != certificate:
        store.finish(plan.run_id, certificate, status, summary)
    elif store.run(plan.run_id).status == "running":
        store.mark(plan.run_id, status, summary)
    else:
        return
    for run_id in run_ids(plan)[1:]:
        store.mark(run_id, status)


def _summary(begun: Start, result: Certified) -> dict[str, Any]:
    numbers = {
        name: getattr(result, name, None) for name in ("estimate", "lower", "upper", "decision", "stopped")
    }
    spent, voices = begun.spending, begun.voices
    counts: dict[str, Any] = {
        "answers": spent.calls,
        "failures": spent.failures,
        "cost_usd": spent.cost_usd,
        "draws": len(voices[0].stored),
    }
    if len(voices) > 1:
        # Other runs may go on with the same parts: what they add is not this one's.
        counts = {TOGETHER: counts | {"draws": max(len(voice.results) for voice in voices)}}
    now = goal_now(begun)
    goal = {} if now is None else {GOAL_NOW: begun.kind.goal_words({**begun.plan.as_dict(), "goal": now})}
    return {"answer": result.answer(), **numbers, **counts, **goal}


def _status(result: Certified, end: End) -> str:
    """Name how a run ended: finished where it can go no further or has what it wanted, whatever ended the loop."""
    if result.stopped in ("goal", "exhausted", "contradiction"):
        return "finished"
    return "budget" if result.stopped == "budget" else STATUS[end]


@contextmanager
def _stoppable(loop: Loop, store: Store, run_id: str) -> Iterator[None]:
    """Look into the store now and then whether somebody asked this run to stop."""

    async def look() -> None:
        while loop.end is None:
            await asyncio.sleep(LOOK_S)
            with suppress(StoreError):
                events = await asyncio.to_thread(store.events, run_id)
                statuses = [event["status"] for event in events if event["status"] not in RECORDS]
                if statuses and statuses[-1] == STOPPING:
                    loop.stop()
                    return

    task = asyncio.create_task(look())
    try:
        yield
    finally:
        task.cancel()


@contextmanager
def _interruptible(loop: Loop, on_interrupt: Callable[[], None]) -> Iterator[None]:
    """Have the first Ctrl-C finish the calls in flight, and the second not."""

    def interrupted() -> None:
        if loop.end is None:
            on_interrupt()
        loop.stop()

    events = asyncio.get_running_loop()
    # SIGHUP: the terminal was closed, and the answers so far are worth a certificate.
    kinds = [signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ())]
    # Only the main thread may handle signals, and not on every system.
    with suppress(NotImplementedError, RuntimeError, ValueError):
        for kind in kinds:
            events.add_signal_handler(kind, interrupted)
    try:
        yield
    finally:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            for kind in kinds:
                events.remove_signal_handler(kind)
