"""Say what every run in a store came to, for lists: `cereval runs`, `cereval trend`, the web view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cereval.plan import CandidateSpec, Plan, digest_of, full_name
from cereval.questions import kind_of
from cereval.runner.candidates import extended
from cereval.runner.samples import Samples
from cereval.store.base import COUNTS, GOAL_NOW, SUMMED_UP, TOGETHER, Run, Store, is_count, is_summary
from cereval.text import shortened

NUMBERS = ("estimate", "lower", "upper")


def listed(store: Store) -> list[dict[str, Any]]:
    by_id = {run.run_id: replace(run, summary=summary_of(run, store)) for run in store.runs()}
    names = candidate_names(list(by_id.values()))
    return [facts_of(run, by_id) | {"candidate": names[run.run_id]} for run in by_id.values()]


SHOWN = 24
"""Letters of a prompt that a list shows."""


def candidate_names(runs: Sequence[Run]) -> dict[str, str]:
    """Return for each run the names of its candidates, with what tells them apart from others of the same model."""
    plans = {run.run_id: Plan.from_dict(run.plan) for run in runs}
    asked = {run_id: [(spec, plan) for spec in plan.candidates] for run_id, plan in plans.items()}
    varying: dict[str, dict[str, set[str]]] = {}
    for spec, plan in (one for several in asked.values() for one in several):
        for what, value in _features(spec, plan).items():
            varying.setdefault(spec["model"], {}).setdefault(what, set()).add(value)
    found = {}
    for run in runs:
        names = [_full_name(spec, plan, varying[spec["model"]]) for spec, plan in asked[run.run_id]]
        found[run.run_id] = (" against " if len(names) == 2 else ", ").join(names)
    return found


def _full_name(spec: CandidateSpec, plan: Plan, varying: Mapping[str, set[str]]) -> str:
    name, own = full_name(spec), _features(spec, plan)
    differing = {what: own[what] for what, values in varying.items() if len(values) > 1 and what in own}
    told = [f"{what} {value}" for what, value in differing.items() if value and value not in name]
    return extended(name, ", ".join(told)) if told else name


def candidate_words(spec: CandidateSpec) -> str:
    own = {what: _short(value) for what, value in _own_features(spec).items() if what != "code"}
    return ", ".join([spec["model"], *(f"{what} {value}" for what, value in own.items() if value)])


def _features(spec: CandidateSpec, plan: Plan) -> dict[str, str]:
    """Return what may tell a candidate apart from others of its model, in a few words each."""
    named, parts = plan.scorer["spec"], ("judge", "cluster", "samples")
    values = {
        **_own_features(spec),
        "scorer": named if isinstance(named, str) else named.get("name"),
        "judge": ", ".join(plan.judges),
        "cluster": plan.scorer.get("cluster"),
        "samples": plan.scorer.get("samples"),
    }
    # Scorers of one name may differ in their settings.
    rest = {key: value for key, value in plan.scorer.items() if key not in parts}
    values |= {f"{values['scorer']} settings": digest_of(rest)[:4]}
    return {what: _short(value) for what, value in values.items()}


def _own_features(spec: CandidateSpec) -> dict[str, Any]:
    prompt, settings = spec["prompt"], spec["settings"]
    warmth = settings.get("temperature")  # 0 is the usual one.
    return {
        "revision": spec.get("revision"),
        "server": str(spec.get("base_url") or "").partition("://")[2],
        "system": prompt["system"],
        "template": prompt["template"],
        "examples": len(prompt["examples"]) or None,
        "chosen by": prompt.get("choose"),
        "temperature": "none" if warmth is None else f"{warmth:g}" if warmth else None,
        "max tokens": settings.get("max_tokens"),
        "request": settings.get("extra"),
        "code": str(spec.get("code", "")).removeprefix("sha256:")[:6],
    }


def _short(value: Any) -> str:
    return "" if value is None else shortened(" ".join(str(value).split()), SHOWN)


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
    return str(summary.get(GOAL_NOW) or kind_of(run.plan).goal_words(run.plan))


def _counts(run: Run, parts: Sequence[Run]) -> Mapping[str, Any]:
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
    events = [event["detail"] for event in store.events(run.run_id) if event["status"] == "failed"]
    return str(events[-1].get("error", "")) if run.status == "failed" and events else ""


def is_of_one_model(run: Run) -> bool:
    """Tell whether a run comes to a number of one model, so that it has a place in a trend."""
    kind = kind_of(run.plan)
    return bool(kind.format) and len(Plan.from_dict(run.plan).candidates) == 1


def trend_of(runs: Sequence[Run], store: Store) -> list[dict[str, Any]]:
    names = candidate_names(runs)
    return [_trend_facts(run, names[run.run_id], store) for run in runs]


def _trend_facts(run: Run, candidate: str, store: Store) -> dict[str, Any]:
    summary = summary_of(run, store)
    return {
        "run_id": run.run_id,
        "model": run.model,
        "candidate": candidate,
        "labels": list(run.labels),
        "goal": _goal_words(run, summary),
        **{name: summary.get(name) for name in ("estimate", "lower", "upper", "decision")},
        "status": run.status,
        "at": run.changed_at,
    }
