"""Count the calls that a run paid for since a moment, by the store: whoever worked on it may have been killed."""

from __future__ import annotations

from datetime import datetime

from cereval.plan import Plan
from cereval.questions import kind_of
from cereval.runner.run import Outcome
from cereval.runner.samples import Samples
from cereval.store.base import Store


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
