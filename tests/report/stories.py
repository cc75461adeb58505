"""Runs made for reports: a small pool in categories, answers as a function says, in a real store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cereval.datasets.base import DataSet, Item
from cereval.plan import CandidateSpec, Plan, candidate_spec
from cereval.questions.session import tell
from cereval.records import Draw
from cereval.report.story import Story, read_story
from cereval.runner.finding import planned
from cereval.runner.start import start
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


def named(*models: str, **parts: Any) -> tuple[CandidateSpec, ...]:
    """Candidates of a plan that differ in their models alone."""
    return tuple(candidate_spec(model, **parts) for model in models)


def told(folder: Path, reply: Callable[[int], Reply], *, data: DataSet | None = None, **fields: Any) -> Story:
    """The story of a run in which item number i was answered with reply(i)."""
    store = open_store(f"sqlite:///{folder / 'runs.db'}")
    try:
        return read_story(store, stored_run(store, data or pool(), reply, **fields))
    finally:
        store.close()


def stored_run(
    store: Store, data: DataSet, reply: Callable[[int], Reply], *, most: int = SIZE, **fields: Any
) -> str:
    """Store a run of any kind; `most`: after so many draws it is left as it is, without a certificate."""
    usual = {"kind": "estimate", "goal": GOAL, "candidates": named("made-up"), "data_name": "made.jsonl"}
    plan = Plan(data_hash=data.content_hash, n_items=len(data.items), **{**usual, **fields})
    begun = start(planned(plan, data.items, store, history=True), data.items, store)
    session, waiting = begun.session, begun.waiting[:most]
    while not session.done and session.n_evaluated < most:
        kept: dict[str, list[tuple[Draw, Answer]]] = {}
        for draw in waiting or session.ask(8):
            place, replies = session.place(draw), [reply(draw.item + 7 * model) for model in draw.models]
            for model, said in zip(draw.models, replies, strict=True):
                stored = Draw(place, draw.item, draw.probability)
                kept.setdefault(begun.voices[model].run_id, []).append((stored, _answer(place, said)))
            tell(session, draw, tuple(said.score for said in replies))
        for run_id, rows in kept.items():
            store.add_draws(run_id, [draw for draw, _ in rows])
            store.add_answers(run_id, [answer for _, answer in rows])
        waiting = ()
    if session.done:
        store.finish(begun.plan.run_id, begun.certificate(session.result()))
    return begun.plan.run_id


def _answer(draw: int, said: Reply) -> Answer:
    failure = "timeout: <b>no answer</b>" if said.score is None else None
    return Answer(draw, said.text, said.score, failure, input_tokens=12, output_tokens=3, cost_usd=0.001)
