"""Define one entry of a fleet, carried out wherever a worker is: an ordinary run on the shared store.

Whatever becomes of the worker, the next one that is given the same job goes on with the same run: what is in the store
is replayed, and not asked again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from cereval.api import Bounds, Outcome, RunResult, Silent, Subject, lessons_of, run
from cereval.errors import Busy, CerevalError, NotBegun, Unreachable
from cereval.fleet.file import Entry
from cereval.fleet.limits import Door, Visitor
from cereval.goals import goal_from_spec, in_words
from cereval.models.gate import GATE
from cereval.runner.listing import listed
from cereval.store.base import opened_store

PATIENCE_S = 180.0
"""How long a worker waits for a store that is restarted, or for the end of whoever worked on its run before."""

PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Job:
    """Say what a worker is given. further_calls, max_usd, max_minutes: its part of the fleet's budget. began:
    when the fleet did."""

    entry: Entry
    store: str = field(repr=False)
    label: str
    began: float
    lessons: Mapping[str, int]
    further_calls: int | None = None
    max_usd: float | None = None
    max_minutes: float | None = None
    door: Door | None = field(default=None, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Job:
        """Return the job that `as_dict` wrote."""
        entry, door = values["entry"], values["door"]
        made = Entry(**{**entry, "models": tuple(entry["models"])})
        at = None if door is None else Door(**{**door, "servers": tuple(door["servers"])})
        return cls(**{**values, "entry": made, "door": at})


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


def _taken(job: Job, run_id: str | None) -> dict[str, Any]:
    """Return what a run had taken when it failed, as far as the store, which may be what failed, can tell."""
    with suppress(CerevalError), opened_store(job.store) as store:
        for facts in listed(store):
            if facts["run_id"] == run_id:
                return {name: facts[name] for name in ("run_id", "calls", "cost_usd")}
    return {"calls": 0, "cost_usd": 0.0}


def _patiently(job: Job, watcher: Labelled) -> RunResult:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _run(job, watcher)
        except (Busy, Unreachable):
            if time.monotonic() > until:
                raise
            time.sleep(PAUSE_S)


def _run(job: Job, watcher: Labelled) -> RunResult:
    entry = job.entry
    given = {"max_usd": job.max_usd, "max_minutes": job.max_minutes}
    parts = {name: value for name, value in given.items() if value is not None}
    settings = {**entry.settings, **_answers_of_now(job), **parts}
    several: dict[str, Any] = (
        {"models": list(entry.models)} if len(entry.models) > 1 else {"model": entry.models[0]}
    )
    gate = GATE.set(None if job.door is None else Visitor(job.door))
    try:
        return run(
            entry.data,
            goal=goal_from_spec(entry.goal),
            store=job.store,
            observer=watcher,
            bounds=Bounds(job.lessons, job.further_calls),
            **several,
            **settings,
        )
    finally:
        GATE.reset(gate)


def _answers_of_now(job: Job) -> dict[str, Any]:
    """Have a gate decide by what is served now, as `cereval gate` does: by answers since the fleet began.

    So are runs that are to be fresh: what a worker asked before it was killed is of now, and is gone on with.
    """
    if not asks_anew(job.entry):
        return {}
    return {"max_age": f"{max(time.time() - job.began, 0.0):.3f}s", "fresh": False}


def asks_anew(entry: Entry) -> bool:
    """Tell whether answers from before the fleet do not count."""
    gate = entry.goal["goal"] == "threshold" and not {"fresh", "max_age"} & set(entry.settings)
    return gate or bool(entry.settings.get("fresh"))


def about(entry: Entry) -> dict[str, Any]:
    """Return what is told of an entry, whatever becomes of it."""
    return {
        "model": entry.model,
        "models": list(entry.models),
        "data": entry.data,
        "goal": in_words(entry.goal),
        "priority": entry.priority,
        "run_id": None,
    }


def unasked(entry: Entry) -> dict[str, Any]:
    """Return what is told of an entry that was not begun."""
    nothing = {"calls": 0, "asked": 0, "kept": 0, "cost_usd": 0.0, "stopped": "not started"}
    return {**about(entry), **nothing, "exit_code": 3}


def _row(job: Job, done: RunResult) -> dict[str, Any]:
    """Return what is told of a run: the fields of its result, and what it took."""
    outcome: Outcome = done.outcome
    with opened_store(job.store) as store:
        lessons = lessons_of(outcome, store)
    result = outcome.result
    return {
        **result.as_dict(),
        **about(job.entry),
        "run_id": outcome.run_id,
        "answer": result.answer(),
        "headline": result.headline(),
        "calls": outcome.calls,
        "asked": outcome.asked,
        "kept": outcome.kept,
        "surplus": outcome.surplus,
        "cost_usd": outcome.cost_usd,
        "interrupted": outcome.interrupted,
        "runs": dict(outcome.parts),
        "history": len(outcome.plan.history),
        "lessons": lessons,
        "exit_code": result.exit_code,
    }
