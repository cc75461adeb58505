"""Runs made for reports: a small pool in categories, answers as a function says, in a real store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cereval.certificate.base import Entry
from cereval.certificate.issue import issue
from cereval.datasets.base import DataSet, Item
from cereval.plan import Plan
from cereval.report.story import Story, read_story
from cereval.runner.start import planned, start
from cereval.store.base import Answer, Store, open_store

SIZE = 300
GOAL: Mapping[str, Any] = {"goal": "estimate", "eps": 0.1}


@dataclass(frozen=True, slots=True)
class Reply:
    """What a made-up model says, and what it is worth (None: the call failed)."""

    text: str = "four"
    score: float | None = 1.0


def pool(categories: int = 3, question: str = "What is 2 + 2?") -> DataSet:
    return DataSet.of(
        "made",
        [Item(f"q{i}", f"{question} ({i})", ("4",), category=f"kind {i % categories}") for i in range(SIZE)],
    )


def told(folder: Path, reply: Callable[[int], Reply], *, data: DataSet | None = None, **fields: Any) -> Story:
    """The story of a run in which item number i was answered with reply(i)."""
    store = open_store(f"sqlite:///{folder / 'runs.db'}")
    try:
        return read_story(store, stored_run(store, data or pool(), reply, **fields))
    finally:
        store.close()


def stored_run(store: Store, data: DataSet, reply: Callable[[int], Reply], **fields: Any) -> str:
    given = {"goal": GOAL, "model": {"name": "made-up"}, "data_name": "made.jsonl"} | fields
    plan = Plan(data_hash=data.content_hash, n_items=len(data.items), **given)
    plan = planned(plan, data.items, store, history=True)
    begun = start(plan, data.items, store)
    session, log = begun.session, []
    while not session.done:
        draws = session.ask(8)
        store.add_draws(plan.run_id, draws)
        for draw in draws:
            said = reply(draw.item)
            store.add_answers(plan.run_id, [_answer(draw.index, said)])
            session.fail(draw) if said.score is None else session.tell(draw, said.score)
            log.append(Entry(draw.item, draw.probability, said.score))
    certificate = issue(plan, begun.known, session.result(), log[: session.n_evaluated])
    store.finish(plan.run_id, certificate)
    return plan.run_id


def _answer(draw: int, said: Reply) -> Answer:
    failure = "timeout: <b>no answer</b>" if said.score is None else None
    return Answer(draw, said.text, said.score, failure, input_tokens=12, output_tokens=3, cost_usd=0.001)
