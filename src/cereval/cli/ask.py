"""Hand questions out to people or other systems, and take their scores in: `cereval ask` and `cereval tell`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from cereval.cli.carry_out import finish
from cereval.cli.options import JSON, OUTPUT, STORE, apply, limit_flag, output_flag
from cereval.cli.output import print_json
from cereval.datasets.formats import read_rows
from cereval.errors import BadContent, BadFile, InvalidInput
from cereval.runner.answers import write_batch
from cereval.runner.book import age_in_seconds
from cereval.runner.finding import stored_items
from cereval.runner.people import (
    hand_out,
    is_told,
    labels_told,
    people_of,
    rows_to_label,
    take_in,
    take_labels,
    why_nothing,
)
from cereval.runner.prepare import leave_unasked
from cereval.runner.resume import whole_plan
from cereval.runner.run import scores_told_before
from cereval.runner.start import held, start
from cereval.store.base import opened_store, store_flag

LONGEST_HEADER = 1000


@click.command()
@click.argument("run_id", metavar="RUN")
@STORE
@limit_flag(20, "Hand out at most N questions.")
@click.option(
    "--lease",
    default="24h",
    show_default=True,
    metavar="AGE",
    help="How long the questions stay reserved, such as 12h or 7d.",
)
@output_flag("Write the questions to this file, such as batch.jsonl or batch.csv.", required=True)
@JSON
def ask(run_id: str, store: str | None, limit: int, lease: str, output: str, as_json: bool) -> int:
    """Write the next questions of RUN to FILE, for people, a spreadsheet or a system without a plug-in.

    RUN is one that `cereval run DATA --model external/NAME ...` began, or any other that may be told scores. Each row
    has `draw`, `item`, `model` and `prompt`; fill in `score` (0 to 1) and give the file to `cereval tell RUN FILE`, in
    any order and in as many parts as you like. Of a run with --scorer people the rows have the answers that wait for
    labels, and `rater` may say whose the label is.
    """
    with opened_store(store) as opened:
        plan = whole_plan(opened.run(run_id))
        items = stored_items(plan, opened)
        deliver = partial(write_batch, Path(output))
        if people_of(plan) is not None:
            _spare(Path(output), labels_told(plan, opened))
            rows, none = rows_to_label(plan, opened, limit), "no answer waits for a label"
            deliver(rows)
        else:
            with held(plan, opened):
                begun, seconds = start(plan, items, opened), age_in_seconds(lease, "--lease")
                _spare(Path(output), partial(is_told, begun, items))
                rows = hand_out(
                    begun, items, opened, limit, seconds, deliver, scores_told_before(plan, items, opened)
                )
                none = "" if rows else why_nothing(begun, opened)
    if as_json:
        print_json({"run_id": plan.run_id, "rows": len(rows), "output": output})
    elif not rows:
        click.echo(f"no question to hand out: {none}")
    else:
        command = f"cereval tell {plan.run_id} {output}{store_flag(opened)}"
        click.echo(f"wrote {len(rows):,} questions to {output}; `{command}` takes the scores")
    return 0


def _spare(path: Path, told: Callable[[Mapping[str, Any]], bool]) -> None:
    """Refuse to write over scores that were not told, and over files that `ask` has not written."""
    if not path.exists() or path.stat().st_size == 0:
        return
    try:
        rows = [_numbers(row.values) for row in read_rows(path)]
    except BadContent:
        rows = [{}]
    except BadFile:  # the names of its columns may be all that it has
        with path.open("rb") as file:
            rows = [dict.fromkeys(file.readline(LONGEST_HEADER).decode(errors="replace").strip().split(","))]
    if not all("draw" in row for row in rows):
        raise InvalidInput("-o", "a new file, or one that `cereval ask` has written", str(path))
    lost = sum((row.get("score") is not None or bool(row.get("failure"))) and not told(row) for row in rows)
    if lost:
        wanted = f"another file: this one has {lost:,} scores that were not told (`cereval tell` takes them)"
        raise InvalidInput("-o", wanted, str(path))


@click.command()
@click.argument("run_id", metavar="RUN")
@click.argument("file", metavar="FILE")
@apply(STORE, OUTPUT)
def tell(run_id: str, file: str, store: str | None, **flags: Any) -> int:
    """Take in the scores of questions that `cereval ask` handed out, and print what is certified now.

    FILE has rows with `draw`, `item` and `score` (JSONL, JSON, CSV or Parquet); rows without a score are skipped; a
    `failure` says why there will be none. Exit codes as for `run`: 3 while more scores are needed.
    """
    with opened_store(store) as opened:
        plan = whole_plan(opened.run(run_id))
        items = stored_items(plan, opened)
        rows = [_numbers(row.values) for row in read_rows(Path(file))]
        if people_of(plan) is not None:
            told = take_labels(plan, opened, rows)
            if flags["as_json"]:
                print_json({"run_id": plan.run_id, "labels": told})
                return 0
            command = f"cereval resume {plan.run_id}{store_flag(opened)}"
            click.echo(f"{told:,} labels taken in; `{command}` counts them where no run waits")
            return 0
        with held(plan, opened):
            told = take_in(start(plan, items, opened), items, opened, rows)
        click.echo(f"{told:,} scores taken in", err=True)
        return finish(leave_unasked(plan, items), plan, opened, flags)


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row whose numbers are numbers: a spreadsheet gives texts."""
    found = {name: None if value == "" else value for name, value in values.items()}
    for name, kind in (("draw", int), ("score", float)):
        text = found.get(name)
        if isinstance(text, str):
            with suppress(ValueError):
                found[name] = kind(text)
    return found
