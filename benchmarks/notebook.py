"""`python -m benchmarks.notebook`: how quick is a store full of results?

A store with 1,000 finished runs of 1,000 answers each is made, on several versions of one data set that differ in a
few questions. Then, each command in a process of its own, by the clock and with its peak memory: `cereval --version`
(what any command takes), `runs`, `show`, a new run of one call on one more version of the data, without and with all
of it as history (with its certificate, which holds the history), what of that is its start (until the first question
is drawn), and `export --all` of all answers as JSON lines. Beside it a store of a hundredth of that. One thread of
linear algebra: more would wait for one another on a busy machine.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import numpy as np
from sqlalchemy import Connection

from benchmarks.tables import markdown, publish
from cereval.datasets.base import DataSet, Item
from cereval.plan import Plan, candidate_spec
from cereval.store.base import Answer, open_store
from cereval.store.database import insert_rows
from cereval.store.sql import SqlStore, answer_row

ITEMS = 2_000
VERSIONS = 4
EDITED = 20
"""Questions that each version words anew."""


def version(number: int) -> DataSet:
    """Made-up questions in five categories; some are worded differently in each version."""
    items = [
        Item(
            f"q{i}",
            f"What is {i} + 1?" + (f" ({number})" if i % (ITEMS // EDITED) == 0 else ""),
            (str(i + 1),),
            category=f"kind {i % 5}",
        )
        for i in range(ITEMS)
    ]
    return DataSet.of(f"version-{number}.jsonl", items)


def fill(store: SqlStore, runs: int, answers: int) -> str:
    """Put finished runs of other models into the store, many at once; return the id of the last."""
    rng = np.random.default_rng(0)
    hard = rng.random(ITEMS)
    data = [version(number) for number in range(VERSIONS)]
    for one in data:
        store.add_items(one.content_hash, (item.as_dict() for item in one.items))
    run_id = ""
    with store.engine.begin() as connection:
        for number in range(runs):
            run_id = _add(connection, data[number % VERSIONS], number, answers, hard, rng)
    return run_id


def _add(connection: Connection, data: DataSet, number: int, answers: int, hard: Any, rng: Any) -> str:
    plan = Plan(
        kind="estimate",
        goal={"goal": "estimate", "eps": 0.02},
        data_hash=data.content_hash,
        n_items=ITEMS,
        candidates=(candidate_spec(f"openai/model-{number}", base_url="http://localhost:9/v1"),),
        data_name=data.source,
        method="uniform",
        seed=number,
    )
    asked = rng.permutation(ITEMS)[:answers]
    scores = (rng.random(answers) < hard[asked]).astype(float)
    mean = float(scores.mean())
    found = {"answer": f"{mean:.1%}", "estimate": mean, "lower": mean - 0.02, "upper": mean + 0.02}
    counts = {"answers": answers, "failures": 0, "cost_usd": 0.1, "draws": answers}
    moment = f"2026-11-{1 + number % 28:02}T{number % 24:02}:00:00.000000+00:00"
    run, row = {"run_id": plan.run_id}, {"data_hash": plan.data_hash, "model": plan.name}
    detail, text = json.dumps(found | counts), "The answer is 42, as can be seen by counting."
    drawn = [
        {**run, "draw": place, "item": item, "probability": 1 / ITEMS, "at": 0.0}
        for place, item in enumerate(asked.tolist())
    ]
    told = [
        answer_row(plan.run_id, Answer(place, text=text, score=score), 1e9)
        for place, score in enumerate(scores.tolist())
    ]
    content = json.dumps(plan.as_dict(), sort_keys=True, separators=(",", ":"))
    named = {**run, "plan": content, **row, "created_at": moment, "engine": 1}
    event = {**run, "number": 1, "status": "finished", "detail": detail, "recorded_at": moment}
    for table, rows in (
        ("runs", [named]),
        ("events", [event]),
        ("draws", drawn),
        ("answers", told),
    ):
        insert_rows(connection, table, rows)
    return plan.run_id


def measured(*arguments: str) -> tuple[float, float, float]:
    """Seconds by the clock, seconds of the processor, and peak memory in MB of one command."""
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    nothing = os.open(os.devnull, os.O_WRONLY)
    command = [sys.executable, "-m", *arguments]
    actions = [(os.POSIX_SPAWN_DUP2, nothing, 1)]
    settings = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    child = os.posix_spawn(sys.executable, command, settings, file_actions=actions)
    os.close(nothing)
    _, status, used = os.wait4(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 3), arguments
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = spent.ru_utime + spent.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - begun, processor, used.ru_maxrss / 1024


def lines(folder: Path, runs: int, answers: int) -> list[list[object]]:
    """Fill a store and put every command to it."""
    url = f"sqlite:///{folder / f'{runs}.db'}"
    with closing(open_store(url)) as store:
        assert isinstance(store, SqlStore)
        last = fill(store, runs, answers)
    data = folder / "new.jsonl"
    rows = [item.as_dict() for item in version(VERSIONS).items]
    told = [{**row, "question": row["input"], "answer": row["answers"][0]} for row in rows]
    names = ("id", "question", "answer", "category")
    data.write_text("".join(json.dumps({name: row[name] for name in names}) + "\n" for row in told))
    quiet = ("--display", "none", "--json", "--max-calls", "1", "-o", str(folder / "certificate.json"))
    out = str(folder / "answers.jsonl")
    commands = {
        "--version": ("--version",),
        "runs": ("runs", "--store", url),
        "runs --json": ("runs", "--store", url, "--json"),
        "show RUN": ("show", last, "--store", url),
        "run, one call, no history": (
            *("run", str(data), "--store", url, "--model", "scripted/0.6", "--no-history"),
            *quiet,
        ),
        "run, one call, with history": ("run", str(data), "--store", url, "--model", "scripted/0.7", *quiet),
        "start with history": ("benchmarks.notebook", "--start", url, str(data)),
        "export --all": ("export", "--all", "--store", url, "-o", out),
    }
    found: list[list[object]] = []
    for name, arguments in commands.items():
        spent = measured(*(() if name.startswith("start") else ("cereval",)), *arguments)
        found.append(
            [f"{runs:,} x {answers:,}", name, *(f"{one:.2f}" for one in spent[:2]), f"{spent[2]:.0f}"]
        )
        click.echo("  ".join(map(str, found[-1])), err=True)
    return found


def begin(url: str, data: str) -> None:
    """Do what a new run does before its first call, and stop there."""
    from cereval.api import settings_for
    from cereval.runner.book import Reuse, books_for
    from cereval.runner.finding import planned
    from cereval.runner.prepare import prepare
    from cereval.runner.start import start

    options = {"eps": 0.02, "store": url}
    work = prepare(settings_for("estimate", data, ["scripted/0.8"], None, options))
    with closing(open_store(url)) as store:
        plan = planned(work.plan, work.items, store, history=True)
        begun = start(plan, work.items, store)
        books_for(plan, work.items, store, Reuse())
        assert len(plan.history) > 1
        assert begun.session.ask(8)


@click.command(help=__doc__)
@click.option("--start", "place", nargs=2, metavar="URL DATA", hidden=True)
@click.option("--runs", default=1_000, show_default=True)
@click.option("--answers", default=1_000, show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the table, with its command, to this file."
)
def main(runs: int, answers: int, out: Path | None, place: tuple[str, str] | None) -> None:
    if place:
        begin(*place)
        return
    with tempfile.TemporaryDirectory() as name:
        rows = [row for count in (max(runs // 100, 1), runs) for row in lines(Path(name), count, answers)]
    header = ["runs x answers", "command", "seconds", "seconds of CPU", "peak memory, MB"]
    publish("A store full of results", "benchmarks.notebook", markdown(header, rows), out)


if __name__ == "__main__":
    main()
