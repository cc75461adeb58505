"""Stores made for the view, and a client that has a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from cereval.datasets.base import DataSet, Item
from cereval.plan import CandidateSpec, Plan, candidate_spec
from cereval.questions.session import tell
from cereval.records import Draw
from cereval.runner.finding import planned
from cereval.runner.start import Start, start
from cereval.store.base import Answer
from cereval.store.sql import SqlStore
from cereval.view.access import Keys
from cereval.view.app import make_app

TOKEN = "a-token-for-the-tests"
OURS = {"origin": "http://127.0.0.1"}
GOAL: Mapping[str, Any] = {"goal": "estimate", "eps": 0.1}
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\"'`</pre>{{7*7}}"
)
Reply = Callable[[int], tuple[str, float | None]]


def questions(count: int = 200, text: str = "What is 2 + 2?", category: str = "kind") -> DataSet:
    items = [
        Item(
            f"q{n} {text[:60]}" if "<" in text else f"q{n}",
            f"{text} ({n})",
            ("4",),
            category=f"{category} {n % 3}",
        )
        for n in range(count)
    ]
    return DataSet.of("made", items)


def right_often(item: int) -> tuple[str, float | None]:
    return ("four", 1.0) if item % 4 else (f"five ({item})", 0.0)


def named(*models: str, **parts: Any) -> tuple[CandidateSpec, ...]:
    """Candidates of a plan that differ in their models alone."""
    return tuple(candidate_spec(model, **parts) for model in models)


def begin(store: SqlStore, data: DataSet, **fields: Any) -> Start:
    """Start a run of any kind, and ask nothing."""
    usual = {"kind": "estimate", "goal": GOAL, "candidates": named("made-up"), "data_name": "made.jsonl"}
    plan = Plan(data_hash=data.content_hash, n_items=len(data.items), **{**usual, **fields})
    return start(planned(plan, data.items, store, history=True), data.items, store)


def go_on(begun: Start, store: SqlStore, reply: Reply = right_often, most: int = 10**6) -> str:
    """Answer and store up to `most` further draws; issue the certificate at the end."""
    session, many = begun.session, len(begun.voices) > 1
    until = session.n_evaluated + most
    while not session.done and session.n_evaluated < until:
        for draw in session.outstanding[:8] or session.ask(8):
            place, said = session.place(draw), [reply(draw.item + 3 * model) for model in draw.models]
            for model, (text, score) in zip(draw.models if many else (0,), said, strict=True):
                run_id = begun.voices[model].run_id
                store.add_draws(run_id, [Draw(place, draw.item, draw.probability)])
                failure = None if score is not None else f"timeout: {text}"
                store.add_answers(run_id, [Answer(place, text, score, failure, cost_usd=0.001)])
            tell(session, draw, tuple(score for _, score in said))
    if session.done:
        result = session.result()
        store.finish(begun.plan.run_id, begun.certificate(result), "finished", {"answer": result.answer()})
    return begun.plan.run_id


def made(store: SqlStore, data: DataSet, reply: Reply = right_often, **fields: Any) -> str:
    """Store a whole run; return its id."""
    return go_on(begin(store, data, **fields), store, reply)


def pair(*names: str, **parts: Any) -> dict[str, Any]:
    """Settings of a comparison."""
    return {"kind": "compare", "candidates": named(*names, **parts), "goal": {"goal": "sign", "tie": 0.05}}


def opened(folder: Path) -> SqlStore:
    return SqlStore.open(f"sqlite:///{folder / 'runs.db'}")


def client(store: SqlStore, *, host: str = "127.0.0.1", session: bool = True) -> TestClient:
    """A client of the view as `cereval view --host` would serve it, with a session or without."""
    keys = Keys(TOKEN)
    app = make_app(store, str(store.address), host=host, keys=keys)
    found = TestClient(app, base_url="http://127.0.0.1", follow_redirects=False)
    if session:
        found.cookies.set("cereval_view_80", keys.new_session(80))
    return found
