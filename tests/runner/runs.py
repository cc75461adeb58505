"""Runs in this process: a small pool, a scripted model, a real store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.model_server import FaultyModel

from cereval.datasets.base import DataSet, Item
from cereval.datasets.prompts import Prompt
from cereval.models.base import Messages, Model, Reply, last_text
from cereval.plan import Plan, candidate_spec
from cereval.questions.log import Change
from cereval.runner.executor import Callers
from cereval.runner.finding import planned
from cereval.runner.limits import Limits
from cereval.runner.progress import Observer
from cereval.runner.run import Outcome, run
from cereval.runner.start import Start, changed, start
from cereval.scorers import build_scorer
from cereval.store.base import Store, open_store

SIZE = 400


def data(size: int = SIZE, categories: bool = False) -> DataSet:
    kinds = ("a", "b", "c")
    return DataSet.of(
        "made",
        [
            Item(str(i), f"{i} * 3 =", (str(3 * i),), category=kinds[i % 3] if categories else None)
            for i in range(size)
        ],
    )


def key(pool: DataSet) -> dict[str, str]:
    return {item.text: str(item.answer) for item in pool.items}


def plan_for(pool: DataSet, **fields: Any) -> Plan:
    usual = {
        "kind": "estimate",
        "goal": {"goal": "estimate", "eps": 0.1},
        "candidates": (candidate_spec("m"),),
    }
    return Plan(data_hash=pool.content_hash, n_items=len(pool.items), **{**usual, **fields})


def several(pool: DataSet, kind: str, goal: Mapping[str, Any], names: Sequence[str], **fields: Any) -> Plan:
    """The plan of a question to several models."""
    return plan_for(pool, kind=kind, goal=goal, candidates=tuple(map(candidate_spec, names)), **fields)


@dataclass
class Recorded:
    """A model that notes what it is asked, and may do something else first."""

    inner: Model
    asked: list[str] = field(default_factory=list)
    before: Any = None

    @property
    def name(self) -> str:
        return self.inner.name

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:
        question = last_text(messages)
        self.asked.append(question)
        if self.before is not None:
            await self.before(question, len(self.asked))
        return await self.inner.answer(messages, top_logprobs=top_logprobs)

    async def close(self) -> None:
        await self.inner.close()


def model_for(pool: DataSet, accuracy: float = 0.7, **settings: Any) -> Recorded:
    return Recorded(FaultyModel(key(pool), accuracy, **settings))


def stored(folder: Path, name: str = "runs") -> Store:
    return open_store(f"sqlite:///{folder / name}.db")


def begin(
    pool: DataSet, store: Store, plan: Plan, *, history: bool = True, change: Change | None = None
) -> Start:
    begun = start(planned(plan, pool.items, store, history=history), pool.items, store)
    return begun if change is None else changed(begun, store, change)


async def go(
    begun: Start,
    pool: DataSet,
    store: Store,
    model: Model | Sequence[Model],
    connections: int = 8,
    observer: Observer | None = None,
    **limits: Any,
) -> Outcome:
    callers = callers_for(pool, model if isinstance(model, Sequence) else [model])
    return await run(begun, store, callers, Limits(connections, **limits), observer)


def callers_for(pool: DataSet, models: Sequence[Model]) -> Callers:
    return Callers(pool.items, [Prompt()] * len(models), models, [build_scorer("exact")] * len(models))


def finish(
    pool: DataSet,
    store: Store,
    model: Model,
    *,
    connections: int = 8,
    limits: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Outcome:
    """A whole run of a plan with these fields; `name` is the model's."""
    name = fields.pop("name", "m")
    begun = begin(pool, store, plan_for(pool, candidates=(candidate_spec(name),), **fields))
    return asyncio.run(go(begun, pool, store, model, connections, **(limits or {})))
