"""Look after the runs in the store: `cereval runs`, `show`, `export`, `trend`, `report`, `judge` and `delete`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from cereval.cli.options import FIELDS, JSON, STORE, apply, limit_flag, output_flag
from cereval.cli.output import print_json, print_table
from cereval.datasets.base import Item
from cereval.datasets.items import Fields
from cereval.datasets.read import read_dataset
from cereval.errors import InvalidInput, Misuse
from cereval.files import is_file
from cereval.integrations import exports
from cereval.plan import Plan, as_file_name
from cereval.questions import kind_of
from cereval.report import page_of, write_page
from cereval.report.story import randomness
from cereval.runner.answers import answer_rows, write_rows
from cereval.runner.book import age_in_seconds
from cereval.runner.finding import run_ids, stored_items
from cereval.runner.listing import is_of_one_model, listed, trend_of
from cereval.store.base import Run, Store, opened_store, store_flag
from cereval.text import did_you_mean, interval, printable, shortened


@click.command()
@STORE
@click.option("--model", metavar="TEXT", help="Only runs whose model's name has this text.")
@click.option("--data", metavar="TEXT", help="Only runs on data whose name has this text.")
@click.option("--tag", metavar="NAME", help="Only runs with this name or tag.")
@click.option("--since", metavar="AGE|DATE", help="Only runs changed since, such as 7d or 2026-11-01.")
@limit_flag(100, "Show the newest N runs.")
@click.option("--json", "as_json", is_flag=True, help="Print all of them as one JSON list.")
def runs(store: str | None, limit: int, as_json: bool, **wanted: Any) -> int:
    """List the runs in the store, oldest first; runs of several models with their parts."""
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
            *("data", "goal", "answer", "calls", "cost", "changed"),
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
    since = None if wanted["since"] is None else _moment(wanted["since"])
    return (
        (wanted["model"] is None or wanted["model"] in facts["model"])
        and (wanted["data"] is None or wanted["data"] in facts["data"])
        and (wanted["tag"] is None or wanted["tag"] in facts["labels"])
        and (since is None or facts["changed_at"] >= since)
    )


def _moment(text: str) -> str:
    from datetime import UTC, datetime, timedelta

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


# -- answers -----------------------------------------------------------------------------------------------------------


LONGEST_SHOWN = 300


@click.command()
@click.argument("run", metavar="RUN")
@STORE
@click.option("--wrong", is_flag=True, help="Only answers with a score below 0.5.")
@click.option("--failed", is_flag=True, help="Only calls that failed.")
@click.option(
    "--random",
    is_flag=True,
    help="How random the answers are: questions asked twice or more, by their rates.",
)
@click.option("--category", metavar="NAME", help="Only this category.")
@click.option("--contains", metavar="TEXT", help="Only prompts or answers with this text.")
@limit_flag(20, "Show at most N answers.")
@JSON
def show(run: str, store: str | None, limit: int, as_json: bool, random: bool, **wanted: Any) -> int:
    """Show the answers of RUN (an id, or its beginning): prompt, answer and score, in the order of the draws.

    `cereval export RUN -o FILE` writes all of them.
    """
    from itertools import islice

    with opened_store(store) as opened:
        plan = Plan.from_dict(opened.run(run).plan)
        if random:
            rows = (row for row in answer_rows(opened, run) if fits(row, wanted))
            return _show_randomness(plan.run_id, rows, limit, as_json)
        several = len(kind_of(plan).parts(plan)) > 1
        found = list(islice((row for row in answer_rows(opened, run) if fits(row, wanted)), limit + 1))
        if not found and wanted["category"] is not None:
            _check_category(wanted["category"], stored_items(plan, opened))
    found, left = found[:limit], found[limit:]
    if as_json:
        print_json({"run_id": plan.run_id, "rows": found})
        return 0
    given = [name for name in ("reference", "detail") if any(row[name] for row in found)]
    header = ("model",) * several + ("item", "prompt", "answer", *given, "score")
    shown = ["why" if name == "detail" else name for name in header]
    print_table([_cells(row, header[:-1]) for row in found], shown, numbers=(len(header) - 1,))
    command = f"cereval export {run} -o answers.jsonl{store_flag(opened)}"
    more = " (-n for more)" if left else ""
    click.echo(f"{len(found):,} answers shown{more}; `{command}` writes all")
    return 0


def _show_randomness(run_id: str, rows: Iterable[Mapping[str, Any]], limit: int, as_json: bool) -> int:
    scores, prompts = dict[str, dict[str, list[float]]](), dict[str, str]()
    for row in rows:
        if row["score"] is not None:
            scores.setdefault(row["model"], {}).setdefault(row["item"], []).append(row["score"])
            prompts[row["item"]] = row["prompt"]
    found = {model: randomness(own) for model, own in scores.items()}
    listed = [(model, item, own) for model, one in found.items() for item, own in one.random.items()]
    if as_json:
        items = [
            {"model": model, "item": item, "answers": len(own), "rate": fmean(own)}
            for model, item, own in listed
        ]
        models = [
            {"model": model, **{name: value for name, value in one._asdict().items() if name != "random"}}
            | {"random": len(one.random)}
            for model, one in found.items()
        ]
        print_json({"run_id": run_id, "models": models, "rows": items[:limit]})
        return 0
    if not any(one.again for one in found.values()):
        click.echo("no question was asked twice: --target expected or --samples does that")
        return 0
    header = (
        "model",
        "asked",
        "twice or more",
        "always right",
        "always wrong",
        "random",
        "between",
        "within",
    )
    print_table(
        [
            [
                model,
                *(f"{count:,}" for count in (*one[:4], len(one.random))),
                f"{one.between:.3f}",
                f"{one.within:.3f}",
            ]
            for model, one in found.items()
        ],
        header,
        numbers=tuple(range(1, len(header))),
        names=(0,),
    )
    if listed:
        cells = [
            [
                model,
                item,
                shortened(_line(prompts[item]), LONGEST_SHOWN),
                f"{len(own):,}",
                f"{fmean(own):.0%}",
            ]
            for model, item, own in listed[:limit]
        ]
        print_table(cells, ("model", "item", "prompt", "answers", "rate"), numbers=(3, 4), names=(0,))
    click.echo("between: variance of the questions' rates; within: mean variance of one question's answers")
    return 0


def fits(row: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    score, text = row["score"], wanted["contains"]
    return not (
        (wanted["wrong"] and (score is None or score >= 0.5))
        or (wanted["failed"] and row["failure"] is None)
        or (wanted["category"] is not None and row["category"] != wanted["category"])
        or (text is not None and text not in row["prompt"] and text not in row["answer"])
    )


def _check_category(name: str, items: Iterable[Item]) -> None:
    known = dict.fromkeys(item.category for item in items if item.category)
    if name not in known:
        raise InvalidInput("--category", f"a category of the data ({did_you_mean(name, known)})", name)


def _cells(row: Mapping[str, Any], names: Sequence[str]) -> list[str]:
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
@output_flag("answers.jsonl, .csv or .parquet, or the file for --format.")
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
    if (run is None) != everything:
        raise InvalidInput("RUN", "given, or --all, and not both", run)
    _check_about(layout, about)
    if layout in (*RESULTS, *SERVICES):
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
        click.echo(printable(said))
    return 0


FITS = {"dataset": ("hf",), "url": ("hf", "markdown"), "organization": ("every-eval-ever",)}


def _check_about(layout: str | None, about: Mapping[str, str | None]) -> None:
    for name, value in about.items():
        if value is not None and layout not in FITS[name]:
            raise InvalidInput(f"--{name}", f"given with --format {' or '.join(FITS[name])}", value)


def _write_answers(run: str | None, store: str | None, output: str | None, layout: str | None) -> int:
    if output is None or (layout is not None and Path(output).suffix != f".{layout}"):
        wanted = "answers.jsonl, .csv or .parquet" if layout is None else f"a file that ends in .{layout}"
        raise InvalidInput("-o", wanted, output)
    with opened_store(store) as opened:
        return write_rows(Path(output), _rows(opened, run))


def _rows(store: Store, run: str | None) -> Iterator[Mapping[str, Any]]:
    if run is not None:
        return answer_rows(store, run)
    plans = [(run_id, Plan.from_dict(values)) for run_id, values in store.plans()]
    # Runs of several models keep their answers in parts, which are listed by themselves.
    whole = [run_id for run_id, plan in plans if kind_of(plan).parts(plan) == (plan,)]
    return answer_rows(store, *whole)


# -- trend -------------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("data")
@apply(FIELDS, STORE, JSON)
def trend(data: str, store: str | None, as_json: bool, **fields: Any) -> int:
    """Show what every run on DATA came to, oldest first: DATA is a question file, or the name of one in the store."""
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


# -- a page ------------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("run", metavar="RUN")
@STORE
@output_flag("Write the page here.  [default: RUN.html]")
@JSON
def report(run: str, store: str | None, output: str | None, as_json: bool) -> int:
    """Write a page about RUN (an id, or its beginning): the answer, what it rests on, how to verify it.

    The page needs no network, runs no script, and reads well on a phone and in print.
    """
    with opened_store(store) as opened:
        page = page_of(opened, run)
    path = Path(output or f"{as_file_name(page.run_id)}.html")
    write_page(path, page.html)
    if as_json:
        print_json({**page.result, "run_id": page.run_id, "report": str(path)})
    else:
        click.echo(f"wrote {path}")
    return 0


# -- removal -----------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@STORE
@click.option("--yes", is_flag=True, help="Remove without asking for confirmation.")
@JSON
def delete(runs: tuple[str, ...], store: str | None, yes: bool, as_json: bool) -> int:
    """Remove RUN (an id, or its beginning) with its parts, draws, answers and certificates, for good.

    A run that others depend on (their history, the version before, the comparison it is part of) is not removed.
    """
    with opened_store(store) as opened:
        found = list(dict.fromkeys(one for run in runs for one in _with_parts(opened, run)))
        needed = _needed_by(opened, found)
        if needed:
            raise Misuse(f"run {needed[0]} rests on what would be deleted; delete it first, or with it")
        if not (yes or as_json) and not click.confirm(f"delete {', '.join(found)} for good?"):
            return 1
        opened.delete(found)
    if as_json:
        print_json({"deleted": found})
    else:
        click.echo(f"deleted {', '.join(found)}")
    return 0


def _with_parts(store: Store, run: str) -> Sequence[str]:
    found = store.run(run)
    own = set(run_ids(Plan.from_dict(found.plan)))
    for run_id, values in store.plans():
        if run_id != found.run_id and kind_of(values).parts(Plan.from_dict(values))[0].run_id != run_id:
            own -= set(run_ids(Plan.from_dict(values)))
    return [found.run_id, *sorted(own - {found.run_id})]


def _needed_by(store: Store, run_ids: Sequence[str]) -> list[str]:
    gone = set(run_ids)
    found = []
    for run_id, values in store.plans():
        kind, plan = kind_of(values), Plan.from_dict(values)
        rests_on = {*plan.history, kind.before(values), *(part.run_id for part in kind.parts(plan))}
        if run_id not in gone and rests_on & gone:
            found.append(run_id)
    return found


@click.command()
@click.argument("run", metavar="RUN")
@STORE
@click.option(
    "--mark",
    type=float,
    default=0.5,
    show_default=True,
    metavar="C",
    help="The judge calls an answer right from this score on (grade 1 is 0, grade 10 is 1). Choose it before you "
    "look at the labels.",
)
@JSON
def judge(run: str, store: str | None, mark: float, as_json: bool) -> int:
    """Compare a judge with people, on the answers of RUN (an id, or its beginning).

    RUN was made with `cereval run DATA --scorer people --judge MODEL`: the judge has graded every answer, and people
    have labelled some. Or RUN has the scorer `prefer:both_orders`: then it is shown how far the order decides.

    All intervals hold at once, at every moment, also while people are still labelling. Nobody is asked anything.
    """
    from cereval.cli.output import print_json, print_table
    from cereval.report.judge import try_judge
    from cereval.store.base import opened_store
    from cereval.text import printable

    with opened_store(store) as opened:
        trial = try_judge(opened, run, mark)
    if as_json:
        print_json(trial.as_dict())
        return 0
    table = trial.table()
    click.echo(printable(trial.headline()))
    print_table(table.rows, table.header, numbers=table.numbers)
    for note in trial.notes:
        click.echo(note)
    return 0
