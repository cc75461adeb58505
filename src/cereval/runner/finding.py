"""Find the run that a request goes on with, or plan a new one with what is known of its items now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cereval.datasets.base import Item
from cereval.methods.registry import MOST_FORECAST
from cereval.plan import PLAN_FORMAT, Known, Plan
from cereval.questions import kind_of
from cereval.questions.base import Kind
from cereval.runner.past import past_of, past_table
from cereval.store.base import AT_WORK, ENDED, Run, Store, moment

END_OF_TIME = "9999"
"""Later than every moment that a store has."""


def run_ids(plan: Plan) -> tuple[str, ...]:
    """Return the run and its parts, each once."""
    return tuple(dict.fromkeys([plan.run_id, *(part.run_id for part in kind_of(plan).parts(plan))]))


def planned(
    plan: Plan,
    items: Sequence[Item],
    store: Store,
    *,
    history: bool,
    fresh: bool = False,
    since: float | None = None,
    lessons: Mapping[str, int] | None = None,
    taught: Mapping[str, int] | None = None,
) -> Plan:
    """Return the plan with what is known of its items now; an earlier run of the same request is continued.

    fresh: unless it has ended, or was killed, for then the question is asked anew; since: unless it began before that
    moment, in seconds since 1970. Of several the newest is continued. lessons: the earlier runs that may be learnt
    from, and how many draws of each; None: all that the store has. taught: runs that are history in any case.
    """
    before = [one for one in earlier_runs(plan, store) if history or taught or not one.history]
    too_old = "" if since is None else moment(since)
    going = [one for one in before if not _is_over(plan, store.run(one.run_id), fresh, too_old)]
    if going:
        return going[-1]
    if kind_of(plan).learns and learns(plan):
        past = past_of(plan, items, store) if history and forecasts_pay(plan) else {}
        if lessons is not None:
            past = {run: min(lessons[run], count) for run, count in past.items() if lessons.get(run)}
        plan = _informed(plan, items, {**past, **(taught or {})})
    if plan.run_id in {one.run_id for one in before}:
        plan = replace(plan, attempt=1 + max(one.attempt for one in before))
    return _with_parts_of_its_own(plan, store, too_old) if fresh or too_old else plan


def _informed(plan: Plan, items: Sequence[Item], past: Mapping[str, int]) -> Plan:
    """Return a plan that names what is known of its items: their categories, and the past of other runs."""
    kind = kind_of(plan)
    names = ["groups"] if _groups(kind, plan, items) is not None else []
    names += ["history"] if past else []
    return replace(plan, side_information=tuple(names), history=dict(sorted(past.items())))


def _with_parts_of_its_own(plan: Plan, store: Store, too_old: str) -> Plan:
    """Return a plan none of whose parts was begun by another run, or too long ago: they are shared by their seed."""
    there = {run.run_id: run for run in store.runs()} if len(run_ids(plan)) > 1 else {}
    while any(run in there and there[run].created_at < (too_old or END_OF_TIME) for run in run_ids(plan)[1:]):
        plan = replace(plan, attempt=plan.attempt + 1)
    return plan


def _is_over(plan: Plan, run: Run, fresh: bool, too_old: str) -> bool:
    """Tell whether a run does not answer a plan's question any more: a fresh one is wanted, or a later one.

    Also one that was killed: its answers may be those of another checkpoint. `resume` goes on with it, and so does the
    same command where it names the seed, for then it asks for the same questions.
    """
    if run.status in AT_WORK:
        return False
    return run.created_at < too_old or (fresh and (run.status in ENDED or plan.seed_drawn))


def left_behind(plan: Plan, store: Store) -> Run | None:
    """Return the newest run of the same request, if it is unfinished and not gone on with by this plan."""
    before = [store.run(one.run_id) for one in earlier_runs(plan, store) if one.run_id != plan.run_id]
    return before[-1] if before and before[-1].status != "finished" else None


def earlier_runs(plan: Plan, store: Store) -> list[Plan]:
    """Return the runs of the same request in the store, oldest first."""
    plans = [values for _, values in store.plans(plan.data_hash) if values.get("format") == PLAN_FORMAT]
    return [one for one in map(Plan.from_dict, plans) if one.request == plan.request]


def learns(plan: Plan) -> bool:
    """Tell whether the method looks at side information: for the others none is gathered."""
    if plan.tasks or plan.method in ("active", "memory", "partition", "oracle", "cer-eval", "pairs"):
        return True
    return plan.method == "auto" and forecasts_pay(plan)


def forecasts_pay(plan: Plan) -> bool:
    """Tell whether forecasts of the items help: not of a population, nor of a pool so large that they take longer than
    the calls that they save."""
    return plan.target != "population" and (plan.method != "auto" or plan.n_items <= MOST_FORECAST)


def known_items(plan: Plan, items: Sequence[Item], store: Store) -> Known:
    """Return what a plan says is known, taken from the items and the store, as it was when the run started."""
    groups = _groups(kind_of(plan), plan, items) if "groups" in plan.side_information else None
    if "history" not in plan.side_information:
        return Known(groups)
    return Known(groups, past_table(plan, items, store))


def _groups(kind: Kind, plan: Plan, items: Sequence[Item]) -> Any:
    return kind.groups(plan, tuple(item.category for item in items))
