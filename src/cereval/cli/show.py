"""Show every prompt, answer and score of a run: `cereval show` and `cereval export`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.options import JSON, STORE, writable

if TYPE_CHECKING:
    from cereval.datasets.base import Item
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
    "-n",
    "--limit",
    type=click.IntRange(1, 10**9),
    default=20,
    show_default=True,
    help="Show at most N answers.",
)
@JSON
def show(run: str, store: str | None, limit: int, as_json: bool, **wanted: Any) -> int:
    """Show the answers of RUN (an id, or its beginning): prompt, answer and score, in the order of the draws.

    `cereval export RUN -o FILE` writes all of them.
    """
    from itertools import islice

    from cereval.cli.output import print_json, print_table
    from cereval.plan import Plan
    from cereval.questions import kind_of
    from cereval.runner.answers import answer_rows
    from cereval.runner.items import stored_items
    from cereval.store.base import opened_store, store_flag

    with opened_store(store) as opened:
        plan = Plan.from_dict(opened.run(run).plan)
        several = len(kind_of(plan).parts(plan)) > 1
        found = list(islice((row for row in answer_rows(opened, run) if fits(row, wanted)), limit + 1))
        if not found and wanted["category"] is not None:
            _check_category(wanted["category"], stored_items(plan, opened))
    found, left = found[:limit], found[limit:]
    if as_json:
        print_json({"run_id": plan.run_id, "rows": found})
        return 0
    given = [name for name in ("reference", "detail") if any(row[name] for row in found)]
    header = (
        *(("model",) if several else ()),
        "item",
        "prompt",
        "answer",
        *given,
        "score",
    )
    shown = ["why" if name == "detail" else name for name in header]
    print_table([_cells(row, header[:-1]) for row in found], shown, numbers=(len(header) - 1,))
    command = f"cereval export {run} -o answers.jsonl{store_flag(opened)}"
    more = " (-n for more)" if left else ""
    click.echo(f"{len(found):,} answers shown{more}; `{command}` writes all")
    return 0


def fits(row: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Tell whether a row is one of those asked for."""
    score, text = row["score"], wanted["contains"]
    return not (
        (wanted["wrong"] and (score is None or score >= 0.5))
        or (wanted["failed"] and row["failure"] is None)
        or (wanted["category"] is not None and row["category"] != wanted["category"])
        or (text is not None and text not in row["prompt"] and text not in row["answer"])
    )


def _check_category(name: str, items: Iterable[Item]) -> None:
    """Refuse a category that no question has."""
    from cereval.errors import InvalidInput
    from cereval.text import did_you_mean

    known = dict.fromkeys(item.category for item in items if item.category)
    if name not in known:
        raise InvalidInput("--category", f"a category of the data ({did_you_mean(name, known)})", name)


def _cells(row: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    from cereval.text import shortened

    return [*(shortened(_line(row[name]), LONGEST_SHOWN) for name in names), _score(row)]


def _line(value: Any) -> str:
    return "" if value is None else " ".join(str(value).split())


def _score(row: Mapping[str, Any]) -> str:
    return f"failed: {_line(row['failure'])[:60]}" if row["score"] is None else f"{row['score']:g}"


ANSWERS = ("jsonl", "csv", "parquet")
RESULTS = ("every-eval-ever", "hf", "markdown", "junit")
SERVICES = ("mlflow", "wandb", "otel")


@click.command()
@click.argument("run", required=False, metavar="[RUN]")
@click.option("--all", "everything", is_flag=True, help="Write the answers of every run in the store.")
@STORE
@click.option(
    "-o",
    "--output",
    callback=writable,
    metavar="FILE",
    help="answers.jsonl, .csv or .parquet, or the file for --format.",
)
@click.option(
    "--format",
    "layout",
    type=click.Choice([*ANSWERS, *RESULTS, *SERVICES]),
    help="The answers, or what they prove: every-eval-ever (JSON), hf (an entry of .eval_results), markdown (a table), "
    "junit (XML), mlflow, wandb, otel (events).  [default: the answers, by the ending of FILE]",
)
@click.option("--dataset", metavar="ORG/NAME[:TASK]", help="With hf: the data set's name on the Hub.")
@click.option("--url", metavar="URL", help="With hf and markdown: where the certificate can be had.")
@click.option("--organization", metavar="NAME", help="With every-eval-ever: who evaluated.")
@JSON
def export(
    run: str | None,
    everything: bool,
    store: str | None,
    output: str | None,
    layout: str | None,
    as_json: bool,
    **about: str | None,
) -> int:
    """Write every answer of RUN: item, prompt, answer, score, when it was asked and what it cost.

    Rows are written as they are read, so that a million answers need no more memory than a thousand.

    With --format every-eval-ever, hf, markdown or junit, write what RUN certifies instead, for other tools, model
    cards, pull requests and CI; mlflow, wandb and otel send it to the server that the environment names.
    """
    from cereval.cli.output import print_json
    from cereval.errors import InvalidInput

    if (run is None) != everything:
        raise InvalidInput("RUN", "given, or --all, and not both", run)
    _check_about(layout, about)
    if layout in (*RESULTS, *SERVICES):
        from cereval.integrations import exports

        if run is None:
            raise InvalidInput("RUN", "given where --format is no layout of answers", None)
        where = exports.export(run, str(layout), output, store=store, **about)
        told: dict[str, Any] = {"run_id": run, "format": layout, "output": where}
        said = f"wrote {where}" if layout in RESULTS else f"logged {where}"
    else:
        count = _write_answers(run, store, output, layout)
        told, said = {"rows": count, "output": output}, f"wrote {count:,} answers to {output}"
    if as_json:
        print_json(told)
    else:
        from cereval.text import printable

        click.echo(printable(said))
    return 0


FITS = {"dataset": ("hf",), "url": ("hf", "markdown"), "organization": ("every-eval-ever",)}


def _check_about(layout: str | None, about: Mapping[str, str | None]) -> None:
    """Refuse flags that the format has no place for."""
    from cereval.errors import InvalidInput

    for name, value in about.items():
        if value is not None and layout not in FITS[name]:
            raise InvalidInput(f"--{name}", f"given with --format {' or '.join(FITS[name])}", value)


def _write_answers(run: str | None, store: str | None, output: str | None, layout: str | None) -> int:
    from cereval.errors import InvalidInput
    from cereval.runner.answers import write_rows
    from cereval.store.base import opened_store

    if output is None or (layout is not None and Path(output).suffix != f".{layout}"):
        wanted = "answers.jsonl, .csv or .parquet" if layout is None else f"a file that ends in .{layout}"
        raise InvalidInput("-o", wanted, output)
    with opened_store(store) as opened:
        return write_rows(Path(output), _rows(opened, run))


def _rows(store: Store, run: str | None) -> Iterator[Mapping[str, Any]]:
    from cereval.plan import Plan
    from cereval.questions import kind_of
    from cereval.runner.answers import answer_rows

    if run is not None:
        return answer_rows(store, run)
    plans = [(run_id, Plan.from_dict(values)) for run_id, values in store.plans()]
    # Runs of several models keep their answers in parts, which are listed by themselves.
    whole = [run_id for run_id, plan in plans if kind_of(plan).parts(plan) == (plan,)]
    return answer_rows(store, *whole)
