"""`cereval runs`: what is in the store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.output import print_table
from cereval.cli.run_options import STORE

if TYPE_CHECKING:
    from cereval.store.base import Run


@click.command()
@STORE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
def runs(store: str | None, as_json: bool) -> int:
    """List the runs in the store, oldest first."""
    from cereval.cli.stores import existing_store

    opened = existing_store(store)
    try:
        found = [_facts(run) for run in opened.runs()]
    finally:
        opened.close()
    if as_json:
        click.echo(json.dumps(found, allow_nan=False, ensure_ascii=False))
    elif found:
        names = ("run_id", "status", "model", "goal", "calls", "cost", "changed")
        rows = [[_shown(facts)[name] for name in names] for facts in found]
        print_table(rows, names, numbers=(4, 5), names=(2, 3), extra=6)
    else:
        click.echo("no runs yet")
    return 0


def _shown(facts: dict[str, Any]) -> dict[str, str]:
    cost = "-" if facts["cost_usd"] is None else f"${facts['cost_usd']:.2f}"
    changed = facts["changed_at"][:16].replace("T", " ")
    return {name: str(value) for name, value in facts.items()} | {"cost": cost, "changed": changed}


def _facts(run: Run) -> dict[str, Any]:
    from cereval.goals.words import in_words

    return {
        "run_id": run.run_id,
        "status": run.status,
        "model": run.model,
        "data": run.plan["data_name"],
        "n_items": run.plan["n_items"],
        "goal": in_words(run.plan["goal"]),
        "items": run.answers,
        # In a comparison an item goes to both models.
        "calls": run.answers * (2 if "second" in run.plan["model"] else 1),
        "failures": run.failures,
        "cost_usd": run.cost_usd,
        "created_at": run.created_at,
        "changed_at": run.changed_at,
    }
