"""Show every model and date on one data set, with intervals: `cereval trend`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.options import FIELDS, JSON, STORE, apply

if TYPE_CHECKING:
    from cereval.store.base import Run, Store


@click.command()
@click.argument("data")
@apply(FIELDS, STORE, JSON)
def trend(data: str, store: str | None, as_json: bool, **fields: Any) -> int:
    """Show what every run on DATA came to, oldest first: DATA is a question file, or the name of one in the store."""
    from cereval.cli.output import print_json, print_table
    from cereval.runner.listing import trend_of
    from cereval.store.base import opened_store
    from cereval.text import interval

    with opened_store(store) as opened:
        found = trend_of(_on(opened, data, fields), opened)
    if as_json:
        print_json({"data": data, "runs": found})
        return 0
    rows = [
        [
            one["at"][:16].replace("T", " "),
            one["candidate"],
            ", ".join(one["labels"]),
            "-" if one["estimate"] is None else f"{one['estimate']:.1%}",
            "-" if one["lower"] is None else interval(one["lower"], one["upper"]),
            one["goal"],
            one["run_id"],
        ]
        for one in found
    ]
    print_table(
        rows,
        ("when", "candidate", "name", "estimate", "interval", "question", "run"),
        numbers=(3, 4),
        names=(1,),
        extra=5,
    )
    return 0


def _on(store: Store, data: str, fields: dict[str, Any]) -> list[Run]:
    """Return the runs on one data set that came to a number of one model."""
    from cereval.datasets.items import Fields
    from cereval.datasets.read import read_dataset
    from cereval.errors import InvalidInput
    from cereval.files import is_file
    from cereval.runner.listing import is_of_one_model
    from cereval.text import did_you_mean

    runs = store.runs()
    if is_file(Path(data)):
        content = read_dataset(data, Fields(**fields)).content_hash
        found = [run for run in runs if run.data_hash == content]
    else:
        found = [run for run in runs if data in (run.plan.get("data_name"), run.data_hash)]
        if not found:
            names = dict.fromkeys(str(run.plan.get("data_name")) for run in runs)
            wanted = f"a question file, or the data of a run in the store ({did_you_mean(data, names)})"
            raise InvalidInput("DATA", wanted, data)
    return [run for run in found if is_of_one_model(run)]
