"""`python -m benchmarks.verify_scale`: do verify, resume and report stay linear in the answers?

One process. For each number of answers a run of `uniform` is put into a store: of N items nine in ten are asked, to
eps = .001 sqrt(100,000 / N), so that the grid of values is as fine as runs of this length have it. Then, in seconds of
CPU time and as multiples of the first: the session's own replay from its log, `verify`, what `resume` does before its
first call, and the page of `report`. Then replay and `verify` where one item in ten is asked, which leaves fewer values
open at a time; then all four for `active` with ten earlier runs as history. Last, the scores of earlier runs: 3,000
runs of 30 answers and 10,000 of 5, read from the store by one call, and all that a new run does before its first draw
is planned.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from math import sqrt
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.tables import markdown, publish
from cereval.certificate.format import issue
from cereval.certificate.verify import verify
from cereval.datasets.base import DataSet, Item
from cereval.plan import Known, Plan, candidate_spec
from cereval.questions import kind_of
from cereval.questions.log import Log, replayed
from cereval.questions.session import AskTell, tell
from cereval.records import Draw
from cereval.report import page_of
from cereval.runner.finding import planned
from cereval.runner.start import Start, reader, start
from cereval.store.base import Answer, Store, open_store
from cereval.store.database import insert_rows
from cereval.store.sql import SqlStore, answer_row

ANSWERS = (3_000, 10_000, 100_000)
ACTIVE = (3_000, 10_000)
SHARE = 0.9
"""Of the items that are asked until the goal is reached."""
FEW, FEW_EPS = 0.1, 0.0092
"""The same where few are: a tenth of 100,000 items at this eps."""
MEAN = 0.7
PAST = 10
HISTORIES = ((3_000, 30), (10_000, 5))
HISTORY_ITEMS = 600


def seconds(work: Callable[[], Any]) -> tuple[Any, float]:
    """What some work gives, and the CPU time that it takes: on a shared machine it tells more than the clock."""
    begun = time.process_time()
    found = work()
    return found, time.process_time() - begun


GOAL: dict[str, Any] = {"goal": "estimate", "eps": 0.1}
MADE_UP = candidate_spec("made-up")


def questions(count: int) -> DataSet:
    """Made-up items in five categories."""
    items = [
        Item(f"q{i}", f"What is {i} + 1?", (str(i + 1),), category=f"kind {i % 5}") for i in range(count)
    ]
    return DataSet.of("made", items)


def stored_run(store: Store, answers: int, method: str, data: DataSet) -> Start:
    """Put a run into the store that asked about so many items, with its certificate."""
    size = len(data.items)
    goal: dict[str, Any] = {"goal": "estimate", "eps": 0.001 * sqrt(100_000 / size)}
    plan = Plan("estimate", goal, data.content_hash, size, (MADE_UP,), method=method, seed=1)
    begun = start(planned(plan, data.items, store, history=method == "active"), data.items, store)
    scores = (np.random.default_rng(answers).random(size) < MEAN).astype(float)
    session, draws = begun.session, list[Draw]()
    while not session.done:
        fresh = session.ask(256)
        draws += fresh
        for draw in fresh:
            tell(session, draw, (float(scores[draw.item]),))
    kept = draws[: session.n_evaluated]
    store.add_draws(begun.plan.run_id, kept)
    store.add_answers(
        begun.plan.run_id, [Answer(draw.index, text="42", score=float(scores[draw.item])) for draw in kept]
    )
    store.finish(begun.plan.run_id, begun.certificate(session.result()))
    return begun


def timed(answers: int, method: str, folder: Path) -> list[object]:
    """The row of one run."""
    data = questions(int(answers / SHARE))
    with closing(open_store(f"sqlite:///{folder / f'{method}-{answers}.db'}")) as store:
        if method == "active":
            add_runs(store, data, PAST, len(data.items) // 2)
        begun = stored_run(store, answers, method, data)
        plan, session = begun.plan, begun.session
        results = {draw.index: scores for draw, scores in session.log}
        kind, certificate = kind_of(plan), store.certificates(plan.run_id)[-1]

        def replay() -> None:
            replayed(kind.session(plan, begun.known, reader(store)), Log(results, len(results)))

        _, replaying = seconds(replay)
        verdict, verifying = seconds(lambda: verify(certificate))
        assert verdict.valid, verdict.reasons
        again, resuming = seconds(lambda: start(plan, data.items, store))
        assert again.session.result() == session.result()
        _, reporting = seconds(lambda: page_of(store, plan.run_id))
    row: list[object] = [method, f"{session.n_evaluated:,} of {len(data.items):,}", f"{replaying:.1f}"]
    row += [f"{spent:.1f} ({spent / replaying:.2f} x)" for spent in (verifying, resuming, reporting)]
    return row


def timed_of_many(answers: int) -> list[object]:
    """The row of a run that asks about few of its items, without a store."""
    size = int(answers / FEW)
    goal: dict[str, Any] = {"goal": "estimate", "eps": FEW_EPS * sqrt(100_000 / size)}
    plan = Plan("estimate", goal, "sha256:0", size, (MADE_UP,), method="uniform", seed=1)
    kind, scores = kind_of(plan), (np.random.default_rng(answers).random(size) < MEAN).astype(float)

    def evaluate() -> AskTell:
        session = kind.session(plan, Known(), _nothing_earlier)
        while not session.done:
            for draw in session.ask(256):
                tell(session, draw, (float(scores[draw.item]),))
        return session

    session, evaluating = seconds(evaluate)
    certificate = issue(kind, session, session.result(), Known(), plan=plan)
    verdict, verifying = seconds(lambda: verify(certificate))
    assert verdict.valid, verdict.reasons
    ratio = f"{verifying:.1f} ({verifying / evaluating:.2f} x)"
    return ["uniform", f"{session.n_evaluated:,} of {size:,}", f"{evaluating:.1f}", ratio, "", ""]


def _nothing_earlier(run_id: str) -> Any:
    raise AssertionError(run_id)


# -- history ----------------------------------------------------------------------------------------------------------


def add_runs(store: Store, data: DataSet, runs: int, answers: int) -> None:
    """Put finished runs of other models into the store, all at once: one by one they would take minutes."""
    assert isinstance(store, SqlStore)
    store.add_items(data.content_hash, (item.as_dict() for item in data.items))
    rng, size = np.random.default_rng(0), len(data.items)
    hard = rng.random(size)
    rows: dict[str, list[dict[str, Any]]] = {"runs": [], "events": [], "draws": [], "answers": []}
    for number in range(runs):
        candidate = candidate_spec(f"model-{number}")
        plan = Plan("estimate", GOAL, data.content_hash, size, (candidate,), seed=number)
        run = {"run_id": plan.run_id}
        named = {"data_hash": plan.data_hash, "model": plan.name, "created_at": f"{number:06}"}
        rows["runs"].append({**run, "plan": _json(plan), **named, "engine": plan.engine})
        rows["events"].append({**run, "number": 1, "status": "finished", "detail": "{}", "recorded_at": ""})
        for place, item in enumerate(rng.permutation(size)[:answers].tolist()):
            score = float(rng.random() < hard[item])
            rows["draws"].append({**run, "draw": place, "item": item, "probability": 1 / size, "at": 0.0})
            rows["answers"].append(answer_row(plan.run_id, Answer(place, text="42", score=score), 0.0))
    with store.engine.begin() as connection:
        for name, found in rows.items():
            insert_rows(connection, name, found)


def _json(plan: Plan) -> str:
    return json.dumps(plan.as_dict(), sort_keys=True, separators=(",", ":"))


def history(runs: int, answers: int, folder: Path) -> list[object]:
    """The row of one store full of earlier runs."""
    data = questions(HISTORY_ITEMS)
    plan = Plan("estimate", GOAL, data.content_hash, HISTORY_ITEMS, (candidate_spec("new"),), seed=9)
    with closing(open_store(f"sqlite:///{folder / f'history-{runs}.db'}")) as store:
        add_runs(store, data, runs, answers)
        past, reading = seconds(
            lambda: store.past_scores(data.content_hash, store.cutoffs(data.content_hash))
        )
        assert len(past.values) == runs * answers
        _, planning = seconds(lambda: planned(plan, data.items, store, history=True))
    return [f"{runs:,} runs of {answers}", f"{reading:.2f}", f"{planning:.2f}"]


def shown(row: list[object]) -> list[object]:
    """Print a row as it comes: the longest take minutes."""
    click.echo("  ".join(map(str, row)), err=True)
    return row


@click.command(help=__doc__)
@click.option("--answers", type=int, help="Only this many, of `uniform` alone.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the tables, with their command, to this file."
)
def main(answers: int | None, out: Path | None) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes: Sequence[int] = ANSWERS if answers is None else (answers,)
        rows = [shown(timed(size, "uniform", folder)) for size in sizes]
        rows += [shown(timed_of_many(size)) for size in sizes]
        rows += [shown(timed(size, "active", folder)) for size in ACTIVE if answers is None]
        past = [shown(history(runs, each, folder)) for runs, each in HISTORIES]
    header = ["method", "answers", "replay, s", "verify, s", "resume's start, s", "page, s"]
    told = ["earlier runs", "scores read, s", "a new run planned, s"]
    body = markdown(header, rows) + "\n\n" + markdown(told, past)
    publish("Verify, resume and report at scale", "benchmarks.verify_scale", body, out)


if __name__ == "__main__":
    main()
