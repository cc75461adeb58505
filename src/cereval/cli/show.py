"""`cereval show` and `cereval export`: every prompt, answer and score of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.options import JSON, STORE, writable

if TYPE_CHECKING:
    from cereval.store.base import Store

LONGEST_SHOWN = 300


@click.command()
@click.argument("run", metavar="RUN")
@STORE
@click.option("--wrong", is_flag=True, help="Only answers with a score below 0.5.")
@click.option("--failed", is_flag=True, help="Only calls that failed.")
@click.option("--category", metavar="NAME", help="Only this category.")
@click.option("--contains", metavar="TEXT", help="Only prompts or answers with this text.")
@click.option(
    "-n", "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most N answers."
)
@JSON
def show(run: str, store: str | None, limit: int, as_json: bool, **wanted: Any) -> int:
    """Show the answers of RUN (an id, or its beginning): prompt, answer and score, in the order of the draws.

    `cereval export RUN -o FILE` writes all of them.
    """
    from itertools import islice

    from cereval.cli.output import print_json, print_table
    from cereval.runner.answers import answer_rows
    from cereval.store.base import opened_store
    from cereval.text import shortened

    with opened_store(store) as opened:
        found = list(islice((row for row in answer_rows(opened, run) if fits(row, wanted)), limit))
    if as_json:
        print_json({"run_id": found[0]["run_id"] if found else run, "rows": found})
        return 0
    cells = [
        [*(shortened(_line(row[name]), LONGEST_SHOWN) for name in ("item", "prompt", "answer")), _score(row)]
        for row in found
    ]
    print_table(cells, ("item", "prompt", "answer", "score"), numbers=(3,))
    click.echo(
        f"{len(found):,} answers shown (-n for more); `cereval export {run} -o answers.jsonl` writes all"
    )
    return 0


def fits(row: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a row is one of those asked for."""
    score, text = row["score"], wanted["contains"]
    return not (
        (wanted["wrong"] and (score is None or score >= 0.5))
        or (wanted["failed"] and row["failure"] is None)
        or (wanted["category"] is not None and row["category"] != wanted["category"])
        or (text is not None and text not in row["prompt"] and text not in row["answer"])
    )


def _line(value: Any) -> str:
    return " ".join(str(value).split())


def _score(row: Mapping[str, Any]) -> str:
    return f"failed: {_line(row['failure'])[:60]}" if row["score"] is None else f"{row['score']:g}"


@click.command()
@click.argument("run", required=False, metavar="[RUN]")
@click.option("--all", "everything", is_flag=True, help="The answers of every run in the store.")
@STORE
@click.option(
    "-o",
    "--output",
    required=True,
    callback=writable,
    metavar="FILE",
    help="answers.jsonl, .csv or .parquet.",
)
@JSON
def export(run: str | None, everything: bool, store: str | None, output: str, as_json: bool) -> int:
    """Write every answer of RUN: item, prompt, answer, score, when it was asked and what it cost.

    Rows are written as they are read, so that a million answers need no more memory than a thousand.
    """
    from cereval.cli.output import print_json
    from cereval.errors import InvalidInput
    from cereval.runner.answers import write_rows
    from cereval.store.base import opened_store

    if (run is None) != everything:
        raise InvalidInput("RUN", "given, or --all, and not both", run)
    with opened_store(store) as opened:
        count = write_rows(Path(output), _rows(opened, run))
    if as_json:
        print_json({"rows": count, "output": output})
    else:
        click.echo(f"wrote {count:,} answers to {output}")
    return 0


def _rows(store: Store, run: str | None) -> Iterator[Mapping[str, Any]]:
    from cereval.kinds import kind_of
    from cereval.plan import Plan
    from cereval.runner.answers import answer_rows

    if run is not None:
        return answer_rows(store, run)
    plans = [(run_id, Plan.from_dict(values)) for run_id, values in store.plans()]
    # Runs of several models keep their answers in parts, which are listed by themselves.
    whole = [run_id for run_id, plan in plans if kind_of(plan).parts(plan) == (plan,)]
    return answer_rows(store, *whole)
