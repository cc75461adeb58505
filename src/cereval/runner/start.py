"""Before the first call: the run is found or created, its past is replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cereval.datasets.base import Item
from cereval.errors import StoreError
from cereval.goals.words import in_words
from cereval.known import Known, any_session_for, groups_of, task_groups
from cereval.logbook import Change, Log, apply, replayed
from cereval.plan import PLAN_FORMAT, Plan
from cereval.records import Draw
from cereval.runner.growth import version_for
from cereval.runner.limits import Spending
from cereval.sessions import AnySession
from cereval.store.base import Store

CHANGED = "changed"
"""The status of events that record a new goal or budget."""


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """A run ready to go on: its session has been told everything that is in the store."""

    plan: Plan
    known: Known
    session: AnySession
    changes: tuple[Change, ...]
    waiting: tuple[Draw, ...]
    spending: Spending
    notes: tuple[str, ...]


def planned(plan: Plan, items: Sequence[Item], store: Store, *, history: bool) -> Plan:
    """The plan with what is known of its items now; an earlier run of the same request is continued."""
    for run in store.runs():
        earlier = Plan.from_dict(run.plan) if run.plan.get("format") == PLAN_FORMAT else None
        if earlier and earlier.request == plan.request and (history or not earlier.history):
            return earlier
    if not learns(plan):
        return plan
    past = store.past_scores(plan.data_hash).cutoffs if history else {}
    names = ["groups"] if _groups(plan, items) is not None else []
    names += ["history"] if past else []
    return replace(plan, side_information=tuple(names), history=dict(sorted(past.items())))


def learns(plan: Plan) -> bool:
    """Whether the method looks at side information: for the others none is gathered."""
    return plan.method in ("active", "partition", "oracle", "cer-eval") or (
        plan.method == "auto" and plan.target != "population"
    )


def known_items(plan: Plan, items: Sequence[Item], store: Store) -> Known:
    """What a plan says is known, taken from the items and the store, as it was when the run started."""
    groups = _groups(plan, items) if "groups" in plan.side_information else None
    if "history" not in plan.side_information:
        return Known(groups)
    cutoffs = dict(sorted(plan.history.items()))
    return Known(groups, store.past_scores(plan.data_hash, cutoffs=cutoffs).table(plan.n_items))


def _groups(plan: Plan, items: Sequence[Item]) -> NDArray[np.int64] | None:
    """The items' tasks, or the categories that may help where one mean is asked for."""
    categories = [item.category for item in items]
    return task_groups(plan, categories) if plan.tasks else groups_of(categories)


def start(plan: Plan, items: Sequence[Item], store: Store) -> Start:
    """Creates the run, or replays what the store has of it."""
    store.add_items(plan.data_hash, (item.as_dict() for item in items))
    known = known_items(plan, items, store)
    # The session first: a request that it refuses leaves no empty run behind.
    session = version_for(plan, store) if plan.growth else any_session_for(plan, known)
    store.create_run(plan.run_id, plan.as_dict(), plan.data_hash, plan.model_name)
    stored, answers = store.draws(plan.run_id), store.answers(plan.run_id, texts=False)
    changes = changes_of(store, plan.run_id)
    results = {answer.draw: answer.score for answer in answers}
    draws = replayed(session, Log(results, len(stored), changes))
    if draws != stored:
        raise StoreError(
            f"the draws of run {plan.run_id} cannot be decided again: it was made by another version of "
            "cereval, or its database was changed; start a new run (another --seed)"
        )
    spending = Spending()
    for answer in answers:
        spending.add(answer.cost_usd, failed=answer.failure is not None)
    waiting = tuple(draw for draw in draws if draw.index not in results)
    return Start(plan, known, session, changes, waiting, spending, _notes(plan, spending))


def changed(begun: Start, store: Store, change: Change) -> Start:
    """Sets a new goal or budget, then records it: one that is refused must not stay on record."""
    apply(begun.session, change)
    store.mark(begun.plan.run_id, CHANGED, change.as_dict())
    note = f"from here on: {_said(change)}"
    return replace(begun, changes=(*begun.changes, change), notes=(*begun.notes, note))


def changes_of(store: Store, run_id: str) -> tuple[Change, ...]:
    """The changes of a run, oldest first."""
    events = [event["detail"] for event in store.events(run_id) if event["status"] == CHANGED]
    return tuple(Change(**detail) for detail in events)


def _notes(plan: Plan, spending: Spending) -> tuple[str, ...]:
    notes = []
    if spending.calls:
        notes.append(
            f"continuing run {plan.run_id}: {spending.calls:,} answers are kept, none is asked again"
        )
    if "second" in plan.model:
        notes.append("progress shows (1 + first - second)/2: 50% where the two models are equal")
    if plan.tasks:
        notes.append(f"progress shows the macro mean of {len(plan.tasks):,} tasks")
    if plan.growth:
        *before, new = plan.growth["sizes"]
        notes.append(f"version {len(before) + 1}: {new:,} new items, {sum(before):,} before")
    if plan.history:
        many = len(plan.history) > 1
        runs = f"{len(plan.history)} earlier runs" if many else "an earlier run"
        helps = "help" if many else "helps"
        without = "--history none" if "second" in plan.model or plan.tasks else "--no-history"
        notes.append(
            f"history: {runs} on the same data {helps} to choose questions ({without} to do without)"
        )
    if "groups" in plan.side_information and not plan.tasks:
        notes.append("categories help to choose questions")
    return tuple(notes)


def _said(change: Change) -> str:
    goal, budget = in_words(change.goal), change.max_calls
    return goal if budget is None else f"{goal}, at most {budget:,} calls"
