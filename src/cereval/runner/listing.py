"""Say what every run in a store came to, for lists: `cereval runs`, `cereval trend`, the web view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cereval.plan import Plan
from cereval.questions import kind_of
from cereval.runner.samples import Samples
from cereval.store.base import COUNTS, GOAL_NOW, SUMMED_UP, TOGETHER, Run, Store, is_count, is_summary

NUMBERS = ("estimate", "lower", "upper")


def listed(store: Store) -> list[dict[str, Any]]:
    """Give the facts of every run, oldest first."""
    by_id = {run.run_id: replace(run, summary=summary_of(run, store)) for run in store.runs()}
    return [facts_of(run, by_id) for run in by_id.values()]


def summary_of(run: Run, store: Store) -> Mapping[str, Any]:
    """Say what a run came to; of runs that do not tell by themselves, as their newest certificate says."""
    if run.summary or run.status not in SUMMED_UP:
        return run.summary
    certificates = store.certificates(run.run_id)
    result = certificates[-1].get("result") if certificates else None
    shown = result.get("macro", result) if isinstance(result, Mapping) else None
    found = {name: shown.get(name) for name in NUMBERS} if isinstance(shown, Mapping) else {}
    return found if is_summary(found) else dict.fromkeys(NUMBERS)


def facts_of(run: Run, by_id: Mapping[str, Run]) -> dict[str, Any]:
    """Gather what lists show of a run; `by_id` has the runs that keep the answers of its models."""
    kind, plan = kind_of(run.plan), Plan.from_dict(run.plan)
    apart = kind.parts(plan)
    # The usual case first: hashing a thousand plans to find a thousand runs would take longer than all the rest.
    parts = [run] if apart == (plan,) else [by_id[one.run_id] for one in apart if one.run_id in by_id]
    counts = _counts(run, parts)
    return {
        "run_id": run.run_id,
        "kind": kind.name,
        "status": run.status,
        "model": run.model,
        "data": plan.data_name,
        "n_items": plan.n_items,
        "goal": _goal_words(run, run.summary),
        **{name: run.summary.get(name) for name in ("answer", "estimate", "lower", "upper")},
        "labels": list(run.labels),
        "items": counts["draws"],
        "calls": counts["answers"] * Samples.of(plan.scorer).count,
        "failures": counts["failures"],
        "cost_usd": counts["cost_usd"],
        "priced_by": run.summary.get("priced_by"),
        "parts": [part.run_id for part in parts if part.run_id != run.run_id],
        "engine": run.engine,
        "created_at": run.created_at,
        "changed_at": run.changed_at,
    }


def _goal_words(run: Run, summary: Mapping[str, Any]) -> str:
    """Name the goal of a run: the last one, where it was changed on the way."""
    return str(summary.get(GOAL_NOW) or kind_of(run.plan).goal_words(run.plan))


def _counts(run: Run, parts: Sequence[Run]) -> Mapping[str, Any]:
    """Give what was counted at the end of a run of several models, else what its parts have by now."""
    told = run.summary.get(TOGETHER)
    if isinstance(told, Mapping) and _are_counts(told):
        return told
    costs = [part.cost_usd for part in parts]
    return {
        "draws": max((part.answers for part in parts), default=0),
        "answers": sum(part.answers for part in parts),
        "failures": sum(part.failures for part in parts),
        "cost_usd": None if None in costs else sum(cost for cost in costs if cost is not None),
    }


def _are_counts(told: Mapping[str, Any]) -> bool:
    counts = [value for name, value in told.items() if name != "cost_usd"]
    return set(told) == set(COUNTS) and is_count(told["cost_usd"]) and all(type(one) is int for one in counts)


def failure_of(run: Run, store: Store) -> str:
    """Say why a run could not go on the last time; nothing where it could."""
    events = [event["detail"] for event in store.events(run.run_id) if event["status"] == "failed"]
    return str(events[-1].get("error", "")) if run.status == "failed" and events else ""


def is_of_one_model(run: Run) -> bool:
    """Tell whether a run comes to a number of one model, so that it has a place in a trend."""
    kind = kind_of(run.plan)
    return bool(kind.format) and len(Plan.from_dict(run.plan).candidates) == 1


def trend_facts(run: Run, store: Store) -> dict[str, Any]:
    """Gather what a trend shows of a run."""
    summary = summary_of(run, store)
    return {
        "run_id": run.run_id,
        "model": run.model,
        "goal": _goal_words(run, summary),
        **{name: summary.get(name) for name in ("estimate", "lower", "upper", "decision")},
        "status": run.status,
        "at": run.changed_at,
    }
