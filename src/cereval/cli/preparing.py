"""From a task, or a run in the store, to everything that a run needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cereval.cli.task import Task
from cereval.cli.task_data import joined, named, new_items
from cereval.cli.task_parts import address_of, goal_of, read_data, text_of, weights_for
from cereval.datasets.base import DataSet, Item, content_hash
from cereval.datasets.prompts import Prompt
from cereval.errors import BadFile, InvalidInput, StoreError
from cereval.goals.compare import CompareGoal
from cereval.goals.tasks import TasksGoal
from cereval.known import task_of
from cereval.models.base import Model, Settings
from cereval.models.build import ModelOptions, open_model
from cereval.models.pair import PairModel
from cereval.models.prices import Price
from cereval.plan import Plan
from cereval.runner.caller import Caller
from cereval.runner.limits import Limits
from cereval.scorers.base import Scorer, spec_of
from cereval.scorers.build import build_scorer
from cereval.scorers.pair import PairScorer
from cereval.sessions.tasks import named_groups
from cereval.store.base import Store

COMPARING = frozenset({"exact", "contains", "choice", "numeric", "math", "f1", "prefer"})
"""Scorers that need the right answer."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan and what carries it out; `circumstances` are what `resume` needs beyond the plan."""

    plan: Plan
    items: tuple[Item, ...]
    caller: Caller
    judge: Model | None
    limits: Limits
    circumstances: Mapping[str, Any]

    async def close(self) -> None:
        await self.caller.model.close()
        if self.judge is not None:
            await self.judge.close()


def prepared(task: Task) -> Prepared:
    """Reads the data, opens the model, and checks all that can be checked before the first call."""
    plan, items = _plan(task, *read_data(task))
    return _opened(plan, items, circumstances_of(task))


def _plan(task: Task, data: DataSet, examples: tuple[Item, ...]) -> tuple[Plan, tuple[Item, ...]]:
    scorer = task.scorer or ("choice" if data.items[0].choices else "exact")
    prompt = {"template": text_of(task.template), "system": text_of(task.system)}
    plan = Plan(
        goal=goal_of(task).spec(),
        data_hash=data.content_hash,
        n_items=len(data.items),
        data_name=named(data.source),
        model={
            "name": task.model,
            "base_url": address_of(task),
            "settings": {"temperature": task.temperature, "max_tokens": task.max_tokens},
        },
        scorer={"spec": scorer, "judge": task.judge, "judge_base_url": task.judge_base_url},
        prompt={**prompt, "examples": [example.as_dict() for example in examples]},
        confidence=task.confidence,
        target=task.target,
        method=task.method,
        seed=task.seed,
        max_calls=task.max_calls,
        weights=weights_for(task, data.items),
    )
    return plan, data.items


def recalled(run_id: str, store: Store, overrides: Mapping[str, Any]) -> Prepared:
    """A run as it was started, from the store alone; circumstances may be overridden."""
    run = store.run(run_id)
    plan = Plan.from_dict(run.plan)
    if plan.goal.get("goal") == "ranked":
        raise InvalidInput(
            "RUN", "no part of a ranking: repeat `cereval rank`, which goes on from here", run.run_id
        )
    return _opened(plan, _stored_items(plan, store), _circumstances(run.run_id, store, overrides))


def _stored_items(plan: Plan, store: Store) -> tuple[Item, ...]:
    items = tuple(item_from(row) for row in store.items(plan.data_hash))
    if content_hash(items) != plan.data_hash:
        raise StoreError(f"the items of run {plan.run_id} in the store were changed; start a new run")
    return items


def _circumstances(run_id: str, store: Store, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Those that a run last had, but for what is given now."""
    given = {key: value for key, value in overrides.items() if value is not None}
    return {**circumstances_of(Task()), **last_circumstances(run_id, store), **given}


def last_circumstances(run_id: str, store: Store) -> Mapping[str, Any]:
    """Of the last calls; a version of growing data that needed none has those of the version before."""
    running: list[Mapping[str, Any]]
    running = [event["detail"] for event in store.events(run_id) if event["status"] == "running"]
    after = store.run(run_id).plan.get("growth", {}).get("after")
    if running or after is None:
        return running[-1] if running else {}
    return last_circumstances(after, store)


def circumstances_of(task: Task) -> dict[str, Any]:
    """The settings of a task that are no part of its plan."""
    kept = ("connections", "max_usd", "max_minutes", "price_in", "price_out", "timeout")
    return {name: getattr(task, name) for name in kept}


def item_from(row: Mapping[str, Any]) -> Item:
    """An item as the store keeps it."""
    values = dict(row) | {"answers": tuple(row["answers"]), "choices": tuple(row["choices"])}
    values["input"] = row["input"] if isinstance(row["input"], str) else tuple(row["input"])
    return Item(**values)


def _opened(plan: Plan, items: tuple[Item, ...], circumstances: Mapping[str, Any]) -> Prepared:
    limits = Limits(*(circumstances[name] for name in ("connections", "max_usd", "max_minutes")))
    options = _options(plan, items, circumstances)
    scorer, judge = _scorer(plan, items, options)
    examples = tuple(item_from(row) for row in plan.prompt.get("examples", ()))
    prompt = Prompt(plan.prompt.get("template"), plan.prompt.get("system"), examples)
    prompt.messages(items[0])
    pair = "second" in plan.model
    model, judged = _pair(plan, options, scorer) if pair else (open_model(plan.model_name, options), scorer)
    if limits.max_usd is not None and getattr(model, "price", Price(0, 0)) is None:
        needed = "given with --price-in and --price-out for this model"
        raise InvalidInput("--max-usd", needed, limits.max_usd)
    whole = replace(plan, scorer=_scorer_spec(plan, scorer))
    return Prepared(whole, items, Caller(items, prompt, model, judged), judge, limits, circumstances)


def against(task: Task, second: str, goal: CompareGoal) -> Prepared:
    """A task's model and a second one on the same items: one run, whose score is (1 + first - second)/2."""
    plan, items = _plan(task, *read_data(task))
    rival = {**plan.model, "name": second, "base_url": address_of(replace(task, model=second))}
    model = {"name": f"{plan.model_name} against {second}", "first": dict(plan.model), "second": rival}
    return _opened(replace(plan, model=model, goal=goal.spec()), items, circumstances_of(task))


def divided(task: Task, files: Sequence[str], goal: TasksGoal) -> Prepared:
    """One run on many tasks: the categories of one data set, or one task for each of several."""
    if len(files) > 1 and task.few_shot:
        raise InvalidInput("--few-shot", "left out where each of several files is a task", task.few_shot)
    parts = [read_data(replace(task, data=file), combined=len(files) > 1) for file in files]
    data = joined([part for part, _ in parts])
    if task.scorer is None and len({bool(item.choices) for item in data.items}) > 1:
        raise InvalidInput("--scorer", "given where some questions have choices and some have none", None)
    plan, items = _plan(task, data, parts[0][1])
    for part, _ in parts:
        _need_answers(plan, part.items, named(part.source))
    names, _ = named_groups([task_of(item.category) for item in items])
    many = replace(plan, goal=goal.spec(), tasks=names, data_name=", ".join(map(named, files)))
    return _opened(many, items, circumstances_of(task))


def growing(task: Task) -> Prepared:
    """The first version of a data set that will grow."""
    plan, items = _plan(task, *read_data(task, combined=True))
    growth = {"sizes": [plan.n_items], "after": None}
    return _opened(replace(plan, method="growing", growth=growth), items, circumstances_of(task))


def extended(run_id: str, store: Store, data: DataSet, overrides: Mapping[str, Any]) -> Prepared:
    """The next version of a run's data: its items and those of `data` that it does not have."""
    run = store.run(run_id)
    plan = Plan.from_dict(run.plan)
    if not plan.growth:
        raise InvalidInput("RUN", "a run that `cereval extend` started", run.run_id)
    items = _stored_items(plan, store)
    examples = [str(example["id"]) for example in plan.prompt.get("examples", ())]
    fresh = new_items(items, data, examples)
    _need_answers(plan, fresh, named(data.source))
    larger = replace(
        plan,
        data_hash=content_hash((*items, *fresh)),
        n_items=len(items) + len(fresh),
        data_name=f"{plan.data_name}, {named(data.source)}",
        growth={"sizes": [*plan.growth["sizes"], len(fresh)], "after": run.run_id},
    )
    return _opened(larger, (*items, *fresh), _circumstances(run.run_id, store, overrides))


def _pair(plan: Plan, options: ModelOptions, scorer: Scorer) -> tuple[Model, Scorer]:
    """The two models of a comparison, and the scorer of both their answers."""
    first, second = (
        open_model(
            model["name"],
            replace(options, base_url=model.get("base_url"), settings=Settings(**model.get("settings", {}))),
        )
        for model in (plan.model["first"], plan.model["second"])
    )
    return PairModel(first, second), PairScorer(scorer)


def _options(plan: Plan, items: Sequence[Item], circumstances: Mapping[str, Any]) -> ModelOptions:
    price_in, price_out = circumstances["price_in"], circumstances["price_out"]
    priced = price_in is not None or price_out is not None
    return ModelOptions(
        base_url=circumstances.get("base_url") or plan.model.get("base_url"),
        settings=Settings(**plan.model.get("settings", {})),
        price=Price(price_in or 0.0, price_out or 0.0) if priced else None,
        timeout_s=circumstances["timeout"],
        connections=circumstances["connections"],
        answer_key={item.text: item.answer for item in items if item.answer is not None},
    )


def _scorer(plan: Plan, items: Sequence[Item], options: ModelOptions) -> tuple[Scorer, Model | None]:
    spec, judge = plan.scorer.get("spec") or plan.scorer, None
    _need_answers(plan, items, "the data")
    if plan.scorer.get("judge"):
        address = plan.scorer.get("judge_base_url") or options.base_url
        judge = open_model(plan.scorer["judge"], replace(options, base_url=address, price=None))
    return build_scorer(spec, judge), judge


def _need_answers(plan: Plan, items: Sequence[Item], source: str) -> None:
    """Refuses data, or a part of it, that the scorer has nothing to compare with."""
    spec = plan.scorer.get("spec") or plan.scorer
    name = str(spec).partition(":")[0] if isinstance(spec, str) else str(spec["name"])
    if name in COMPARING and items and not any(item.answers for item in items):
        raise BadFile(
            f"{source} has no field that looks like the right answer, which the scorer `{name}` needs; "
            "name it with --answer"
        )


def _scorer_spec(plan: Plan, scorer: Scorer) -> Mapping[str, Any]:
    """The scorer in full, so that a default that changes later does not change the run."""
    return {**plan.scorer, "spec": {key: value for key, value in spec_of(scorer).items() if key != "judge"}}
