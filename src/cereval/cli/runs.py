"""List what is in the store: `cereval runs`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from cereval.cli.options import STORE


@click.command()
@STORE
@click.option("--model", metavar="TEXT", help="Only runs whose model's name has this text.")
@click.option("--data", metavar="TEXT", help="Only runs on data whose name has this text.")
@click.option("--tag", metavar="NAME", help="Only runs with this name or tag.")
@click.option("--since", metavar="AGE|DATE", help="Only runs changed since, such as 7d or 2026-11-01.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, 10**9),
    default=100,
    show_default=True,
    help="Show the newest N runs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all of them as one JSON list.")
def runs(store: str | None, limit: int, as_json: bool, **wanted: Any) -> int:
    """List the runs in the store, oldest first; runs of several models with their parts."""
    from cereval.cli.output import print_table
    from cereval.runner.listing import listed
    from cereval.store.base import opened_store

    with opened_store(store) as opened:
        found = [facts for facts in listed(opened) if _fits(facts, wanted)]
    if as_json:
        click.echo(json.dumps(found, allow_nan=False, ensure_ascii=False))
    elif found:
        named = ["name"] if any(facts["labels"] for facts in found) else []
        names = [
            "run_id",
            "status",
            "candidate",
            *named,
            "data",
            "goal",
            "answer",
            "calls",
            "cost",
            "changed",
        ]
        rows = [[_shown(facts)[name] for name in names] for facts in found[-limit:]]
        last = len(names) - 1
        print_table(rows, names, numbers=(last - 2, last - 1), names=tuple(range(2, last - 2)), extra=last)
        if len(found) > limit:
            click.echo(f"{len(found) - limit:,} older runs are not shown: -n {len(found)} shows all")
    else:
        click.echo("no runs yet")
    return 0


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
        "name": ", ".join(facts["labels"]),
    }
