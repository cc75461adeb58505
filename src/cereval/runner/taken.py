"""Count what a run took since a moment, by the store: whoever worked on it may have been killed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from cereval.kinds import kind_of
from cereval.plan import Plan
from cereval.runner.limits import Allowance, Limits, Spending
from cereval.runner.samples import Samples
from cereval.store.base import Store


@dataclass(frozen=True, slots=True)
class Taken:
    """Hold the calls that were paid for, and what they cost as far as is known."""

    calls: int = 0
    usd: float = 0.0


def taken_since(plan: Plan, store: Store, moment: float) -> Taken:
    """Count what a run took since it was begun, or gone on with, for the first time after a moment.

    Not since the moment itself: until then other runs may have asked the models that it shares with them.
    """
    running = (event["at"] for event in store.events(plan.run_id) if event["status"] == "running")
    began = [at for at in map(_seconds, running) if at >= moment]
    if not began:
        return Taken()
    costs = [
        answer.cost_usd or 0.0
        for part in kind_of(plan).parts(plan)
        for _, answer, at in store.rows(part.run_id)
        if at >= min(began) and not answer.kept
    ]
    return Taken(len(costs) * Samples.of(plan.scorer).count, sum(costs))


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def within(allowance: Allowance, limits: Limits, plan: Plan, store: Store, spending: Spending) -> Limits:
    """Return the limits of a run that may take no more than an allowance, less what it has taken of it."""
    taken = taken_since(plan, store, allowance.since)
    answers, usd = None, limits.max_usd
    if allowance.calls is not None:
        answers = max(allowance.calls - taken.calls, 0) // Samples.of(plan.scorer).count
    if allowance.usd is not None:
        whole = (spending.cost_usd or 0.0) - taken.usd + allowance.usd
        usd = whole if usd is None else min(usd, whole)
    return replace(limits, further_answers=answers, max_usd=usd)
