"""One small question of every kind, asked live of scripted models, and the same question put to recorded scores."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.questions.majority.goal import MoreThanHalf
from tests.questions.majority.session import MajoritySession

from cereval.datasets.items import Fields
from cereval.datasets.read import read_dataset
from cereval.models import ModelOptions, open_model
from cereval.models.scripted import ScriptedModel
from cereval.plan import groups_of
from cereval.questions import kind_of
from cereval.questions.compare.goal import Difference
from cereval.questions.compare.session import CompareSession
from cereval.questions.growing.session import Growing
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session
from cereval.questions.rank.goal import Order
from cereval.questions.rank.session import RankSession
from cereval.questions.replay import drive
from cereval.questions.session import AskTell
from cereval.questions.tasks.goal import Macro
from cereval.questions.tasks.session import TaskSession
from cereval.records import Certified, Draw
from cereval.runner.finding import planned
from cereval.runner.limits import Limits
from cereval.runner.prepare import Prepared, open_plan, prepare
from cereval.runner.resume import extend_run
from cereval.runner.run import Outcome, carry_out
from cereval.settings import ACCEPTED, Candidate, check_options, settings_of
from cereval.store.base import Answer, Store, open_store

FIRST, ALL = 120, 180
"""Items of the data, and of the data once they have grown."""

SEED = 5
CATEGORIES = ("sums", "dates", "units")
ROWS = [{"question": f"{n} * 7 =", "answer": str(7 * n), "category": CATEGORIES[n % 3]} for n in range(ALL)]
MODELS = ("scripted/0.9", "scripted/0.5", "scripted/0.2")

Table = NDArray[np.float64]
Before = Callable[[Draw, int], Awaitable[str | None]]


def scores(models: tuple[str, ...], size: int) -> Table:
    """What the models would score on the first items: items x models."""
    rows = ROWS[:size]
    key = {row["question"]: row["answer"] for row in rows}
    table = np.empty((size, len(models)))
    for number, name in enumerate(models):
        model = open_model(name, ModelOptions(answer_key=key))
        assert isinstance(model, ScriptedModel)
        table[:, number] = [model.is_right(question) for question in key]
    return table


# -- questions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """goal: what a live run is asked; recorded: opens the same question for recorded scores."""

    kind: str
    models: tuple[str, ...]
    goal: Any
    recorded: Callable[[], AskTell]
    covers: Callable[[Any, Table], bool]
    grows: bool = False

    def __str__(self) -> str:
        return self.kind

    @property
    def table(self) -> Table:
        """The scores of all items that it is about."""
        return scores(self.models, ALL if self.grows else FIRST)


def groups() -> Any:
    return groups_of([row["category"] for row in ROWS[:FIRST]])


def grown() -> AskTell:
    """The second version, once the first has its answers."""
    session = Growing(FIRST, goal=Estimate(0.15), seed=SEED, models=MODELS[1:2])
    drive(session.last, scores(MODELS[1:2], FIRST))
    session.extend(ALL - FIRST)
    return session.last


def inside(one: Any, truth: float) -> bool:
    return bool(one.lower - 1e-9 <= truth <= one.upper + 1e-9)


def ranks_cover(result: Any, table: Table) -> bool:
    means = dict(zip(result.models, table.mean(axis=0), strict=True))
    ordered = all(means[better] > means[worse] for better, worse in result.order)
    return ordered and all(inside(one, means[name]) for name, one in result.intervals.items())


def tasks_cover(result: Any, table: Table) -> bool:
    means = [table[number::3, 0].mean() for number in range(3)]
    each = all(inside(result.tasks[name], mean) for name, mean in zip(CATEGORIES, means, strict=True))
    return each and inside(result.macro, float(np.mean(means)))


QUESTIONS = [
    Question(
        "estimate",
        MODELS[1:2],
        Estimate(0.12),
        lambda: Session(FIRST, goal=Estimate(0.12), groups=groups(), seed=SEED),
        lambda result, table: inside(result, table.mean()),
    ),
    Question(
        "compare",
        MODELS[:2],
        Difference(0.2),
        lambda: CompareSession(FIRST, goal=Difference(0.2), groups=groups(), seed=SEED, models=MODELS[:2]),
        lambda result, table: inside(result, (table[:, 0] - table[:, 1]).mean()),
    ),
    Question(
        "rank",
        MODELS,
        Order(0.2),
        lambda: RankSession(FIRST, MODELS, goal=Order(0.2), seed=SEED),
        ranks_cover,
    ),
    Question(
        "tasks",
        MODELS[1:2],
        Macro(0.12),
        lambda: TaskSession(
            [row["category"] for row in ROWS[:FIRST]], goal=Macro(0.12), seed=SEED, models=MODELS[1:2]
        ),
        tasks_cover,
    ),
    Question(
        "growing",
        MODELS[1:2],
        Estimate(0.15),
        grown,
        lambda result, table: all(inside(one, table[: one.n_items].mean()) for one in result.versions),
        grows=True,
    ),
    Question(
        "majority",
        MODELS[:1],
        MoreThanHalf(),
        lambda: MajoritySession(FIRST, seed=SEED, models=MODELS[:1]),
        lambda result, table: inside(result, table.mean()),
    ),
]


# -- live runs --------------------------------------------------------------------------------------------------------


@dataclass
class Watched:
    """An executor that notes whom it asks what; `before` may wait, raise, or return the reason of a failure."""

    inner: Any
    asked: list[tuple[int, int]] = field(default_factory=list)
    before: Before | None = None
    cost_usd: float = 0.0

    async def answer(self, draw: Draw, model: int, place: int) -> Answer:
        self.asked.append((model, draw.item))
        failure = None if self.before is None else await self.before(draw, model)
        if failure is not None:
            return Answer(place, failure=failure, cost_usd=self.cost_usd)
        return replace(await self.inner.answer(draw, model, place), cost_usd=self.cost_usd)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Live:
    """A question with its data and its store, to be carried out once or in several sittings."""

    def __init__(self, question: Question, folder: Path) -> None:
        self.question, self.folder = question, folder
        for name, rows in (("first", ROWS[:FIRST]), ("more", ROWS[FIRST:])):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.asked: list[tuple[int, int]] = []

    def at(self, database: Path) -> Live:
        """The same with another database in place of its own."""
        other = Live(self.question, self.folder)
        other.database = database
        return other

    database: Path | None = None

    @contextmanager
    def store(self) -> Iterator[Store]:
        opened = open_store(f"sqlite:///{self.database or self.folder / 'runs.db'}")
        try:
            yield opened
        finally:
            opened.close()

    def run(self, **how: Any) -> Outcome:
        """Carry it out, or go on with it, as somebody does who repeats a command."""
        with self.store() as store:
            return asyncio.run(asyncio.wait_for(self.carried_out(store, **how), 60))

    async def carried_out(
        self,
        store: Store,
        *,
        settings: Mapping[str, Any] | None = None,
        change: Any = None,
        **how: Any,
    ) -> Outcome:
        work = self.prepare({"seed": SEED, "connections": 4, **(settings or {})})
        outcome = await self._carried_out(work, store, change, **how)
        if self.question.grows and outcome.result.stopped == "goal" and not outcome.interrupted:
            data = read_dataset(str(self.folder / "more.jsonl"), Fields())
            more = {name: value for name, value in (settings or {}).items() if name == "max_calls"}
            later = extend_run(outcome.run_id, store, data, more)
            outcome = await self._carried_out(later, store, change, **how)
        return outcome

    def prepare(self, options: Mapping[str, Any]) -> Prepared:
        """The run that these settings ask for; one of a kind that only tests know is planned by hand."""
        kind, goal = self.question.kind, self.question.goal
        own = kind not in ACCEPTED
        accepted = ACCEPTED["estimate" if own else kind]
        settings = settings_of(
            "estimate" if own else kind,
            str(self.folder / "first.jsonl"),
            [Candidate(model) for model in self.question.models],
            check_options(options, accepted),
            Estimate() if own else goal,
        )
        work = prepare(settings)
        if not own:
            return work
        plan = replace(work.plan, kind=kind, goal=goal.spec(), method="permutation")
        return open_plan(plan, work.items, work.circumstances)

    async def _carried_out(
        self,
        work: Prepared,
        store: Store,
        change: Any,
        before: Before | None = None,
        cost_usd: float = 0.0,
        limits: Mapping[str, Any] | None = None,
    ) -> Outcome:
        watched = Watched(work.executor, self.asked, before, cost_usd)
        limited = Limits(**{"connections": work.limits.connections, **(limits or {})})
        plan = planned(work.plan, work.items, store, history=True)
        return await carry_out(replace(work, executor=watched, limits=limited), plan, store, None, change)

    def answered(self, store: Store) -> set[tuple[int, int]]:
        """Whom the store has answers of, and to what."""
        found = set()
        for run in store.runs():
            draws = {draw.index: draw.item for draw in store.draws(run.run_id)}
            number = self.question.models.index(run.model) if run.model in self.question.models else 0
            found |= {(number, draws[answer.draw]) for answer in store.answers(run.run_id)}
        return found


def same_result(one: Certified, other: Certified) -> bool:
    return type(one) is type(other) and one.as_dict() == other.as_dict()


def own_log(session: AskTell, plan: Any) -> list[dict[str, Any]]:
    """The log that a session's certificate would hold."""
    return kind_of(plan).log(session)
