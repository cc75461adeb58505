"""List what is in the store: `cereval runs`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.options import STORE

if TYPE_CHECKING:
    from cereval.store.base import Run, Store


@click.command()
@STORE
@click.option("--model", metavar="TEXT", help="Only runs whose model's name has this text.")
@click.option("--data", metavar="TEXT", help="Only runs on data whose name has this text.")
@click.option("--tag", metavar="NAME", help="Only runs with this name or tag.")
@click.option("--since", metavar="AGE|DATE", help="Only runs changed since, such as 7d or 2026-11-01.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
def runs(store: str | None, as_json: bool, **wanted: Any) -> int:
    """List the runs in the store, oldest first; runs of several models with their parts."""
    from cereval.cli.output import print_table
    from cereval.store.base import opened_store

    with opened_store(store) as opened:
        by_id = {run.run_id: replace(run, summary=summary_of(run, opened)) for run in opened.runs()}
    found = [facts for facts in (_facts(run, by_id) for run in by_id.values()) if _fits(facts, wanted)]
    if as_json:
        click.echo(json.dumps(found, allow_nan=False, ensure_ascii=False))
    elif found:
        names = ("run_id", "status", "model", "data", "goal", "answer", "calls", "cost", "changed")
        rows = [[_shown(facts)[name] for name in names] for facts in found]
        print_table(rows, names, numbers=(6, 7), names=(2, 3, 4, 5), extra=8)
    else:
        click.echo("no runs yet")
    return 0


def summary_of(run: Run, store: Store) -> Mapping[str, Any]:
    """Return what a run came to; of runs that do not tell by themselves, as their newest certificate says."""
    if run.summary or run.status not in ("finished", "budget", "interrupted"):
        return run.summary
    certificates = store.certificates(run.run_id)
    result = certificates[-1]["result"] if certificates else {}
    found: Mapping[str, Any] = result.get("macro", result)
    return {name: found.get(name) for name in ("estimate", "lower", "upper")}


def _fits(facts: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Tell whether a run is one of those asked for."""
    since = None if wanted["since"] is None else _moment(wanted["since"])
    return (
        (wanted["model"] is None or wanted["model"] in facts["model"])
        and (wanted["data"] is None or wanted["data"] in facts["data"])
        and (wanted["tag"] is None or wanted["tag"] in facts["labels"])
        and (since is None or facts["changed_at"] >= since)
    )


def _moment(text: str) -> str:
    """Return a date, or an age counted back from now, as the store writes moments."""
    from datetime import UTC, datetime, timedelta

    from cereval.errors import InvalidInput
    from cereval.runner.book import age_in_seconds

    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).isoformat(timespec="microseconds")
    except ValueError:
        pass
    try:
        age = timedelta(seconds=age_in_seconds(text))
    except InvalidInput:
        raise InvalidInput("--since", "a date such as 2026-11-01, or an age such as 7d", text) from None
    return (datetime.now(UTC) - age).isoformat(timespec="microseconds")


def _shown(facts: dict[str, Any]) -> dict[str, str]:
    from cereval.text import interval

    cost = "-" if facts["cost_usd"] is None else f"${facts['cost_usd']:.2f}"
    changed = facts["changed_at"][:16].replace("T", " ")
    low, high = facts["lower"], facts["upper"]
    answer = facts["answer"] or ("-" if low is None else interval(low, high))
    return {name: str(value) for name, value in facts.items()} | {
        "cost": cost,
        "changed": changed,
        "answer": answer,
    }


def _facts(run: Run, by_id: Mapping[str, Run]) -> dict[str, Any]:
    from cereval.kinds import kind_of
    from cereval.plan import Plan
    from cereval.runner.samples import Samples

    kind, plan = kind_of(run.plan), Plan.from_dict(run.plan)
    apart = kind.parts(plan)
    # The usual case first: hashing a thousand plans to find a thousand runs would take longer than all the rest.
    parts = [run] if apart == (plan,) else [by_id[one.run_id] for one in apart if one.run_id in by_id]
    costs = [part.cost_usd for part in parts]
    return {
        "run_id": run.run_id,
        "kind": kind.name,
        "status": run.status,
        "model": run.model,
        "data": plan.data_name,
        "n_items": plan.n_items,
        "goal": kind.goal_words(run.plan),
        **{name: run.summary.get(name) for name in ("answer", "estimate", "lower", "upper")},
        "labels": list(run.labels),
        "items": max((part.answers for part in parts), default=0),
        # Comparisons of the first version keep both answers as one.
        "calls": sum(part.answers for part in parts) * (2 if kind.packed else Samples.of(plan.scorer).count),
        "failures": sum(part.failures for part in parts),
        "cost_usd": None if None in costs else sum(cost for cost in costs if cost is not None),
        "priced_by": run.summary.get("priced_by"),
        "parts": [part.run_id for part in parts if part.run_id != run.run_id],
        "engine": run.engine,
        "created_at": run.created_at,
        "changed_at": run.changed_at,
    }
