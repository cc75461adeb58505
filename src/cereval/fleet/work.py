"""Define one entry of a fleet, carried out wherever a worker is: an ordinary run on the shared store.

Whatever becomes of the worker, the next one that is given the same job goes on with the same run: what is in the store
is replayed, and not asked again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from msgspec import convert

from cereval.errors import Busy, CerevalError, NotBegun, Unreachable
from cereval.fleet.file import Entry
from cereval.fleet.limits import PartGate, ServerLimits
from cereval.models.speed import GATE
from cereval.plan import Plan
from cereval.questions import kind_for, kind_of
from cereval.questions.goals import goal_from_spec, in_words
from cereval.runner.limits import Allowance
from cereval.runner.listing import failure_of, listed
from cereval.runner.prepare import prepare
from cereval.runner.progress import Silent, Subject
from cereval.runner.run import Bounds, Outcome, conduct
from cereval.runner.samples import Samples
from cereval.settings import settings_of
from cereval.store.base import Store, moment, opened_store

PATIENCE_S = 180.0
"""How long a worker waits for a store that is restarted, or for the end of whoever worked on its run before."""

PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Job:
    """Say what a worker is given, at which moment. allowance, minutes: its part of the fleet's budget. began: when the
    fleet did. reading: what the store has of its run is read, and nothing asked."""

    entry: Entry
    store: str = field(repr=False)
    label: str
    began: float
    lessons: Mapping[str, int]
    at: float = 0.0
    allowance: Allowance = field(default_factory=Allowance)
    minutes: float | None = None
    reading: bool = False
    limits: Mapping[str, ServerLimits] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Job:
        return convert(values, cls)


class Labelled(Silent):
    """Gives a run its fleet's label as soon as it is there: what it took so far is found by it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.run_id: str | None = None

    def on_start(self, subject: Subject, notes: Sequence[str] = ()) -> None:  # noqa: ARG002
        self.run_id = subject.run_id
        with opened_store(self.job.store) as store:
            store.label(subject.run_id, [self.job.label])


def carried_out(job: Job) -> dict[str, Any]:
    """Carry out a job; what went wrong is part of the row, in one line, beside what was paid by then."""
    watcher = Labelled(job)
    try:
        return _row(job, _patiently(job, watcher))
    except NotBegun:
        return unasked(job.entry)
    except CerevalError as error:
        return {**about(job.entry), **_taken(job, watcher.run_id), "error": str(error), "exit_code": 1}


def lost(job: Job, **told: Any) -> dict[str, Any]:
    """Return what is told of a job whose workers died, or were stopped before they could tell what it took."""
    run_id = None
    with suppress(CerevalError), opened_store(job.store) as store:
        for run in store.runs():
            names = Plan.from_dict(run.plan).names
            same = names == job.entry.models and run.plan["goal"] == job.entry.goal
            if same and job.label in run.labels and run.changed_at >= moment(job.at):
                run_id = run.run_id
    return {**about(job.entry), **_taken(job, run_id), **told}


def _taken(job: Job, run_id: str | None) -> dict[str, Any]:
    with suppress(CerevalError), opened_store(job.store) as store:
        for facts in listed(store):
            if facts["run_id"] == run_id:
                asked = paid_since(Plan.from_dict(store.run(facts["run_id"]).plan), store, job.at)
                return {**{name: facts[name] for name in ("run_id", "calls", "cost_usd")}, "asked": asked}
    return {"calls": 0, "cost_usd": 0.0, "asked": 0}


def _patiently(job: Job, watcher: Labelled) -> Outcome:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _run(job, watcher)
        except (Busy, Unreachable):
            if time.monotonic() > until:
                raise
            time.sleep(PAUSE_S)


def _run(job: Job, watcher: Labelled) -> Outcome:
    entry, anew = job.entry, asks_anew(job.entry)
    settings = {**entry.settings, **({"fresh": False} if anew else {})}
    minutes = [one for one in (job.minutes, settings.get("max_minutes")) if one is not None]
    if minutes:
        settings["max_minutes"] = min(minutes)
    goal = goal_from_spec(entry.goal)
    whole = settings_of(kind_for(entry.goal["goal"]).name, entry.data, entry.asked, settings, goal)
    bounds = Bounds(
        job.lessons, since=job.began if anew else None, allowance=job.allowance, reading=job.reading
    )
    gate = GATE.set(PartGate(job.limits) if job.limits else None)
    try:
        with opened_store(job.store, create=True) as store:
            return asyncio.run(conduct(prepare(whole), whole, store, watcher, bounds=bounds))
    finally:
        GATE.reset(gate)


def asks_anew(entry: Entry) -> bool:
    """Tell whether answers from before the fleet do not count, for what is served now is tested: a gate's, as for
    `cereval gate`, and those of a run that is to be fresh.

    What a worker asked before it was killed is of now, and is gone on with.
    """
    gate = entry.goal["goal"] == "threshold" and not {"fresh", "max_age"} & set(entry.settings)
    return gate or bool(entry.settings.get("fresh"))


def about(entry: Entry) -> dict[str, Any]:
    return {
        "model": entry.model,
        "models": list(entry.models),
        "data": entry.data,
        "goal": in_words(entry.goal),
        "priority": entry.priority,
        "run_id": None,
    }


def unasked(entry: Entry) -> dict[str, Any]:
    nothing = {"calls": 0, "asked": 0, "kept": 0, "cost_usd": 0.0, "stopped": "not started"}
    return {**about(entry), **nothing, "exit_code": 3}


def _row(job: Job, outcome: Outcome) -> dict[str, Any]:
    with opened_store(job.store) as store:
        lessons = lessons_of(outcome, store)
        # By the store: workers before this one may have asked, and been killed.
        asked = 0 if job.reading else paid_since(outcome.plan, store, job.at)
        error = failure_of(store.run(outcome.run_id), store) if job.reading else ""
    result = outcome.result
    return {
        **result.as_dict(),
        **about(job.entry),
        "run_id": outcome.run_id,
        "answer": result.answer(),
        "headline": result.headline(),
        "calls": outcome.calls,
        "asked": asked,
        "kept": outcome.calls - asked,
        "surplus": outcome.surplus,
        "cost_usd": outcome.cost_usd,
        "interrupted": outcome.interrupted,
        "runs": dict(outcome.parts),
        "history": len(outcome.plan.history),
        "lessons": lessons,
        "exit_code": result.exit_code,
        **({"error": error, "exit_code": 1} if error else {}),
    }


# -- what a run paid for, and what it teaches -------------------------------------------------------------------------


def paid_since(plan: Plan, store: Store, moment: float) -> int:
    """Count since the run was begun, or gone on with, for the first time after a moment, in seconds since 1970.

    Not since the moment itself: until then other runs may have asked the models that it shares with them.
    """
    running = (event["at"] for event in store.events(plan.run_id) if event["status"] == "running")
    began = [at for at in map(_seconds, running) if at >= moment]
    if not began:
        return 0
    rows = (row for part in kind_of(plan).parts(plan) for row in store.rows(part.run_id))
    answers = sum(at >= min(began) and not answer.kept for _, answer, at in rows)
    return answers * Samples.of(plan.scorer).count


def lessons_of(outcome: Outcome, store: Store) -> dict[str, int]:
    """Return the runs of one candidate each that later ones may learn from, and how many draws of each the result
    rests on.

    Answers that came after the last one needed are left out: how many there are is chance.
    """
    known = store.cutoffs(outcome.plan.data_hash)
    runs = tuple(outcome.parts.values()) or (outcome.run_id,)
    return {run: min(known[run], outcome.result.n_evaluated) for run in runs if known.get(run)}


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
