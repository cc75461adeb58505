"""Conduct an evaluation, from settings to its outcome: the one door for the command line, Python, view and fleets."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cereval.datasets.base import Item
from cereval.errors import InvalidInput
from cereval.plan import Plan
from cereval.questions import kind_of
from cereval.questions.goals import in_words
from cereval.questions.log import Change
from cereval.questions.session import AskTell
from cereval.runner.batches import open_sender, refuse_unfetched
from cereval.runner.book import Reuse, WithBook, age_in_seconds, books_for
from cereval.runner.finding import planned
from cereval.runner.items import stored_items
from cereval.runner.limits import Allowance
from cereval.runner.people import judged, judged_before, with_people
from cereval.runner.prepare import Prepared, open_plan
from cereval.runner.progress import Observer
from cereval.runner.recall import circumstances_in
from cereval.runner.run import Outcome, read_back
from cereval.runner.run import run as run_loop
from cereval.runner.samples import Samples
from cereval.runner.sealing import read_seal, sealed_plan
from cereval.runner.start import Start, changed, goal_now, held, price_of_going_on, start
from cereval.runner.watching import watcher
from cereval.settings import Settings
from cereval.store.base import KeptAnswer, Store

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
    within its own limits.
    """
    if kind_of(plan) is not kind_of(work.plan) or plan.data_hash != work.plan.data_hash:
        await work.close()
        same = plan.data_hash == work.plan.data_hash
        items = work.items if same else stored_items(plan, store)
        work = open_plan(plan, items, work.circumstances, work.functions)
    sender = None
    try:
        with held(plan, store):
            begun = _apply_change(start(plan, work.items, store), store, change)
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
            return await run_loop(
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
