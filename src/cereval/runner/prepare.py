"""From a request, or a run in the store, to everything that a run needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cereval.arrays import packed
from cereval.datasets.base import DataSet, Item, content_hash
from cereval.datasets.fields import Fields
from cereval.datasets.joining import joined, named, new_items
from cereval.datasets.prompts import Prompt, split_examples
from cereval.datasets.read import read_dataset
from cereval.datasets.reading import read_text
from cereval.datasets.weighting import check_one, is_table, mixed, weights_of_items
from cereval.errors import BadFile, InvalidInput, Misuse, StoreError, shown
from cereval.goals import Goal
from cereval.imports import code_digest, optional
from cereval.kinds import kind_of
from cereval.kinds.tasks import UNNAMED
from cereval.methods.base import known_engine
from cereval.models.base import Model, Settings
from cereval.models.build import ModelOptions, open_model
from cereval.models.openai_model import checked_url
from cereval.models.prices import Price
from cereval.plan import DRAWN, Known, Plan
from cereval.runner.executor import Callers, Executor, NobodyToAsk, PackedCallers
from cereval.runner.limits import Limits
from cereval.runner.outside import OUTSIDE
from cereval.runner.request import Request
from cereval.runner.start import item_from, reader, stored_items
from cereval.runner.trust import Named, named_by_model, named_by_scorer, remember, require
from cereval.scorers.base import Scorer, spec_of
from cereval.scorers.build import build_scorer
from cereval.scorers.python_scorer import PythonScorer
from cereval.sessions.base import fresh_seed, naming_engine
from cereval.sessions.tasks import named_groups
from cereval.store.base import Run, Store
from cereval.text import did_you_mean

COMPARING = frozenset({"exact", "contains", "choice", "numeric", "math", "f1", "prefer"})
"""Scorers that need the right answer."""

CIRCUMSTANCES = (
    *("connections", "max_usd", "max_minutes", "price_in", "price_out", "timeout"),
    *("judge_price_in", "judge_price_out", "fresh", "max_age"),
)
"""The settings of a request that are no part of its plan."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan and what carries it out; `circumstances` are what `resume` needs beyond the plan."""

    plan: Plan
    items: tuple[Item, ...]
    executor: Executor
    scorer: Scorer
    prompt: Prompt
    limits: Limits
    circumstances: Mapping[str, Any]

    async def close(self) -> None:
        await self.executor.close()


# -- new runs, kind by kind -------------------------------------------------------------------------------------------


def prepared(request: Request) -> Prepared:
    """Read the data, open the model, and check all that can be checked before the first call."""
    plan, items = _plan(request, *read_data(request))
    return opened(plan, items, circumstances_of(request))


def against(request: Request, models: Sequence[str], goal: Goal) -> Prepared:
    """Two models on the same items."""
    _left_out(request, "method", "target")
    plan, items = _several(request, models, " against ")
    return opened(replace(plan, kind="compare", goal=goal.spec()), items, circumstances_of(request))


def ranked(request: Request, models: Sequence[str], goal: Any) -> Prepared:
    """Many models on the same items."""
    _left_out(request, "method", "target", "weights", "mix")
    plan, items = _several(request, models, ", ")
    ranking = replace(plan, kind="rank", goal=goal.spec(), method="pairs", target="benchmark")
    return opened(ranking, items, circumstances_of(request))


def _left_out(request: Request, *names: str) -> None:
    """Refuse settings that a question does not look at: accepted and ignored, they would mislead."""
    usual = Request()
    for name in names:
        if getattr(request, name) != getattr(usual, name):
            flag = f"--{name.replace('_', '-')}"
            raise InvalidInput(flag, "left out for this kind of question", getattr(request, name))


def _several(request: Request, models: Sequence[str], between: str) -> tuple[Plan, tuple[Item, ...]]:
    # Several models are always typed: a task file names one.
    addresses = [address_of(replace(request, model=name)) for name in models]
    for name, address in zip(models, addresses, strict=True):
        remember(named_by_model(name, address))
    plan, items = _plan(request, *read_data(request))
    specs = [
        {**plan.model, "name": name, "base_url": address}
        for name, address in zip(models, addresses, strict=True)
    ]
    return replace(plan, model={"name": between.join(models), "models": specs}), items


def divided(request: Request, files: Sequence[str], goal: Any) -> Prepared:
    """One run on many tasks: the categories of one data set, or one task for each of several."""
    _left_out(request, "method", "target", "weights", "mix")
    if len(files) > 1 and request.few_shot:
        raise InvalidInput("--few-shot", "left out where each of several files is a task", request.few_shot)
    parts = [read_data(replace(request, data=file), combined=len(files) > 1) for file in files]
    data = joined([part for part, _ in parts])
    if request.scorer is None and len({bool(item.choices) for item in data.items}) > 1:
        raise InvalidInput("--scorer", "given where some questions have choices and some have none", None)
    plan, items = _plan(request, data, parts[0][1])
    for part, _ in parts:
        _need_answers(plan, part.items, named(part.source))
    names, _ = named_groups([item.category or UNNAMED for item in items])
    many = replace(plan, goal=goal.spec(), tasks=names, data_name=", ".join(map(named, files)))
    return opened(many, items, circumstances_of(request))


def growing(request: Request) -> Prepared:
    """The first version of a data set that will grow."""
    _left_out(request, "method", "weights", "mix", "at_least")
    plan, items = _plan(request, *read_data(request, combined=True))
    growth = {"sizes": [plan.n_items], "after": None}
    return opened(replace(plan, method="growing", growth=growth), items, circumstances_of(request))


def extended(
    run_id: str, store: Store, data: DataSet, overrides: Mapping[str, Any], *, trust: bool = False
) -> Prepared:
    """The next version of a run's data: its items and those of `data` that it does not have.

    trust: confirm the code and the addresses that the stored plan names; else only what is trusted already is used.
    """
    run = store.run(run_id)
    plan = _stored_plan(run)
    if "sizes" not in plan.growth:
        raise InvalidInput("RUN", "a run that `cereval extend` started", run.run_id)
    items = stored_items(plan, store)
    examples = [str(example["id"]) for example in plan.prompt.get("examples", ())]
    fresh = new_items(items, data, examples)
    _need_answers(plan, fresh, named(data.source))
    larger = replace(
        plan,
        data_hash=content_hash((*items, *fresh)),
        n_items=len(items) + len(fresh),
        data_name=f"{plan.data_name}, {named(data.source)}",
        growth={"sizes": [*plan.growth["sizes"], len(fresh)], "after": run.run_id},
        max_calls=overrides.get("max_calls"),
    )
    _check_extension(larger, store)
    given = {name: value for name, value in overrides.items() if name != "max_calls"}
    circumstances = _circumstances(run.run_id, store, given)
    _weigh(lambda: named_by_plan(larger, circumstances), run.run_id, trust)
    return opened(larger, (*items, *fresh), circumstances)


def _check_extension(plan: Plan, store: Store) -> None:
    """Extend a version once it has ended, and once only: else not all certificates would hold at once."""
    after = plan.growth["after"]
    for run_id, values in store.plans():
        if kind_of(values).before(values) == after and run_id != plan.run_id:
            raise InvalidInput("RUN", f"the newest version: it was extended by run {run_id}", after)
    try:
        kind_of(plan).session(plan, Known(), reader(store))
    except Misuse as error:
        raise InvalidInput(
            "RUN", f"a version that has ended (`cereval resume {after}`): {error}", after
        ) from None


# -- from the store ---------------------------------------------------------------------------------------------------


def recalled(run_id: str, store: Store, overrides: Mapping[str, Any], *, trust: bool = False) -> Prepared:
    """A run as it was started, from the store alone; circumstances may be overridden.

    trust: confirm the code and the addresses that the stored plan names; else only what is trusted already is used.
    """
    run = store.run(run_id)
    plan = _stored_plan(run)
    refusal = kind_of(plan).refusal(plan)
    if refusal is not None:
        raise InvalidInput("RUN", refusal, run.run_id)
    circumstances = _circumstances(run.run_id, store, overrides)
    _weigh(lambda: named_by_plan(plan, circumstances), run.run_id, trust)
    return opened(plan, stored_items(plan, store), circumstances)


def _stored_plan(run: Run) -> Plan:
    """The plan of a stored run; refused where it is not the one that the run's id was made from."""
    plan = Plan.from_dict(run.plan)
    if plan.run_id != run.run_id:
        raise StoreError(
            f"the plan of run {shown(run.run_id)} in the store was changed: it is that of {plan.run_id}; nothing was "
            "run or sent. Start a new run"
        )
    return plan


def _weigh(read: Callable[[], tuple[Named, ...]], run_id: str, trust: bool) -> None:
    """Confirm what a stored plan names where the user says so; else refuse what is not trusted yet."""
    try:
        names = read()
    except (AttributeError, KeyError, TypeError):
        raise StoreError(f"the plan of run {run_id} in the store is damaged; start a new run") from None
    if trust:
        remember(names)
    require(names, f"run {run_id}")


def unasked(plan: Plan, items: tuple[Item, ...]) -> Prepared:
    """A run that goes on with the answers it has: nobody is asked."""
    prompt, scorer = Prompt(plan.prompt.get("template"), plan.prompt.get("system")), build_scorer("exact")
    circumstances = circumstances_of(Request())
    return Prepared(plan, items, NobodyToAsk(), scorer, prompt, Limits(), circumstances)


def rescored(run_id: str, store: Store, settings: Mapping[str, Any], *, trust: bool = False) -> Prepared:
    """A run with another scorer, on the answers that it has: nobody is asked but a judge.

    trust: confirm the scorer and the address that the stored plan names; else only what is trusted already is used.
    """
    run = store.run(run_id)
    plan = _stored_plan(run)
    items = stored_items(plan, store)
    given = {name: settings.get(name) for name in ("judge", "judge_base_url")}
    wanted = settings.get("scorer") or plan.scorer.get("spec") or plan.scorer
    wanted = _with_texts(wanted, settings.get("rubric"), settings.get("judge_template"))
    # No seal fixed this: without its nonce it does not say so.
    other = replace(plan, scorer={"spec": wanted, **given}, max_calls=None, nonce="")
    prices = {name: settings.get(name) for name in ("judge_price_in", "judge_price_out")}
    circumstances = _circumstances(run.run_id, store, prices)
    typed = named_by_model(given["judge"], given["judge_base_url"])
    remember(typed if settings.get("scorer") is None else (*typed, *named_by_scorer(settings["scorer"])))
    _weigh(lambda: named_by_scoring(other, circumstances), run.run_id, trust)
    scorer, _ = _scorer(other, items, _options(items, circumstances), circumstances)
    whole = replace(other, scorer=_scorer_spec(other, scorer))
    prompt = Prompt(plan.prompt.get("template"), plan.prompt.get("system"))
    return Prepared(whole, items, NobodyToAsk(), scorer, prompt, Limits(), circumstances)


def _circumstances(run_id: str, store: Store, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Those that a run last had, but for what is given now."""
    given = {key: value for key, value in overrides.items() if value is not None}
    remember(named_by_model(None, given.get("base_url")))
    last = _last_circumstances(run_id, store)
    stored = {name: last[name] for name in (*CIRCUMSTANCES, "base_url") if name in last}
    return {**circumstances_of(Request()), **stored, **given}


def _last_circumstances(run_id: str, store: Store) -> Mapping[str, Any]:
    """Those of the last calls; a run that needed none has those of the run that it goes on from."""
    running: list[Mapping[str, Any]]
    running = [event["detail"] for event in store.events(run_id) if event["status"] == "running"]
    plan = store.run(run_id).plan
    before = kind_of(plan).before(plan)
    if running or before is None:
        return running[-1] if running else {}
    return _last_circumstances(before, store)


def circumstances_of(request: Request) -> dict[str, Any]:
    """The settings of a request that are no part of its plan."""
    return {name: getattr(request, name) for name in CIRCUMSTANCES}


# -- models, prompts and scorers --------------------------------------------------------------------------------------


def opened(plan: Plan, items: tuple[Item, ...], circumstances: Mapping[str, Any]) -> Prepared:
    """Open the models and the scorer of a plan; what cannot work, or is not trusted, is refused here."""
    require(named_by_plan(plan, circumstances), "the plan")
    limits = Limits(*(circumstances[name] for name in ("connections", "max_usd", "max_minutes")))
    options = _options(items, circumstances)
    scorer, judge = _scorer(plan, items, options, circumstances)
    examples = tuple(item_from(row) for row in plan.prompt.get("examples", ()))
    prompt = Prompt(plan.prompt.get("template"), plan.prompt.get("system"), examples)
    prompt.messages(items[0])
    kind = kind_of(plan)
    if all(name.startswith(OUTSIDE) for name in kind.names(plan)):
        return replace(unasked(plan, items), prompt=prompt, limits=limits, circumstances=circumstances)
    models = [_model(spec, options, circumstances) for spec in kind.models(plan)]
    _check_prices(limits, models, judge)
    callers = Callers(items, prompt, models, scorer, judge)
    whole = replace(plan, scorer=_scorer_spec(plan, scorer))
    executor: Executor = PackedCallers(callers) if kind.packed else callers
    return Prepared(whole, items, executor, scorer, prompt, limits, circumstances)


def named_by_plan(plan: Plan, circumstances: Mapping[str, Any]) -> tuple[Named, ...]:
    """What opening the models and the scorer of a plan would run or call."""
    models = [
        named_by_model(spec["name"], _address(spec, circumstances)) for spec in kind_of(plan).models(plan)
    ]
    return (*(one for names in models for one in names), *named_by_scoring(plan, circumstances))


def named_by_scoring(plan: Plan, circumstances: Mapping[str, Any]) -> tuple[Named, ...]:
    """What scoring answers as a plan says would run or call."""
    scorer, judge = plan.scorer.get("spec") or plan.scorer, plan.scorer.get("judge")
    address = _judge_address(plan, circumstances) if judge else None
    return (*named_by_model(judge or None, address), *named_by_scorer(scorer))


def _address(spec: Mapping[str, Any], circumstances: Mapping[str, Any]) -> str | None:
    return circumstances.get("base_url") or spec.get("base_url")


def _judge_address(plan: Plan, circumstances: Mapping[str, Any]) -> str | None:
    return plan.scorer.get("judge_base_url") or _address(kind_of(plan).models(plan)[0], circumstances)


def _model(spec: Mapping[str, Any], options: ModelOptions, circumstances: Mapping[str, Any]) -> Model:
    settings, address = Settings(**spec.get("settings", {})), _address(spec, circumstances)
    return open_model(spec["name"], replace(options, base_url=address, settings=settings))


def _options(items: Sequence[Item], circumstances: Mapping[str, Any]) -> ModelOptions:
    return ModelOptions(
        price=_price(circumstances),
        timeout_s=circumstances["timeout"],
        connections=circumstances["connections"],
        answer_key={item.text: item.answer for item in items if item.answer is not None},
    )


def _check_prices(limits: Limits, models: Sequence[Model], judge: Model | None) -> None:
    """Refuse a budget of money where a price is not known."""
    if limits.max_usd is None:
        return
    if any(getattr(model, "price", Price(0, 0)) is None for model in models):
        raise InvalidInput(
            "--max-usd", "given with --price-in and --price-out for this model", limits.max_usd
        )
    if judge is not None and getattr(judge, "price", Price(0, 0)) is None:
        needed = "given with --judge-price-in and --judge-price-out for the judge"
        raise InvalidInput("--max-usd", needed, limits.max_usd)


def _price(circumstances: Mapping[str, Any], whose: str = "") -> Price | None:
    """What a model costs, or a judge (`judge_`); None: unknown."""
    per_in, per_out = (circumstances.get(f"{whose}price_{way}") for way in ("in", "out"))
    return None if per_in is None and per_out is None else Price(per_in or 0.0, per_out or 0.0)


def _scorer(
    plan: Plan, items: Sequence[Item], options: ModelOptions, circumstances: Mapping[str, Any]
) -> tuple[Scorer, Model | None]:
    spec, judge = plan.scorer.get("spec") or plan.scorer, None
    _need_answers(plan, items, "the data")
    if plan.scorer.get("judge"):
        first = kind_of(plan).models(plan)[0]
        settings, address = Settings(**first.get("settings", {})), _judge_address(plan, circumstances)
        judge = open_model(
            plan.scorer["judge"],
            replace(options, base_url=address, price=_price(circumstances, "judge_"), settings=settings),
        )
    scorer = build_scorer(spec, judge)
    _check_scorer(scorer, items)
    return scorer, judge


def _check_scorer(scorer: Scorer, items: Sequence[Item]) -> None:
    """Refuse before the first call what would fail, or score nothing, on every answer."""
    if scorer.name == "choice" and items and not any(item.choices for item in items):
        raise BadFile(
            "the data has no choices, which the scorer `choice` needs; name their field with --choices"
        )
    if scorer.name == "math":
        optional("math_verify", "math")
    if isinstance(scorer, PythonScorer) and items:
        scorer.check(items[0])


def _scorer_spec(plan: Plan, scorer: Scorer) -> Mapping[str, Any]:
    """The scorer in full, so that a default that changes later does not change the run."""
    spec = {
        key: value
        for key, value in spec_of(scorer).items()
        if key != "judge" and (value, key) != ("", "template")
    }
    # Code that was edited is another scorer: scores of the old one must not come back as its own.
    code = {"code": code_digest(scorer.function)} if isinstance(scorer, PythonScorer) else {}
    return {**plan.scorer, "spec": spec, **code}


def _need_answers(plan: Plan, items: Sequence[Item], source: str) -> None:
    """Refuse data, or a part of it, that the scorer has nothing to compare with."""
    spec = plan.scorer.get("spec") or plan.scorer
    name = str(spec).partition(":")[0] if isinstance(spec, str) else str(spec["name"])
    if name in COMPARING and items and not any(item.answers for item in items):
        raise BadFile(
            f"{source} has no field that looks like the right answer, which the scorer `{name}` needs; "
            "name it with --answer"
        )


# -- what a request says ----------------------------------------------------------------------------------------------


def _plan(request: Request, data: DataSet, examples: tuple[Item, ...]) -> tuple[Plan, tuple[Item, ...]]:
    scorer = request.scorer or ("choice" if data.items[0].choices else "exact")
    scorer = _with_texts(scorer, request.rubric, request.judge_template)
    prompt = {"template": text_of(request.template), "system": text_of(request.system)}
    plan = Plan(
        goal=request.goal.spec(),
        data_hash=data.content_hash,
        n_items=len(data.items),
        data_name=named(data.source),
        model={
            "name": request.model,
            "base_url": address_of(request),
            "settings": {"temperature": request.temperature, "max_tokens": request.max_tokens},
            **({} if request.revision is None else {"revision": request.revision}),
        },
        scorer={"spec": scorer, "judge": request.judge, "judge_base_url": request.judge_base_url},
        prompt={**prompt, "examples": [example.as_dict() for example in examples]},
        confidence=request.confidence,
        target=request.target,
        method=request.method,
        seed=fresh_seed() if request.seed is None else request.seed,
        seed_source=DRAWN if request.seed is None else "",
        max_calls=request.max_calls,
        weights=weights_for(request, data.items),
        engine=naming_engine(known_engine(None)).get("engine", 0),
    )
    return plan, data.items


def _with_texts(scorer: Any, rubric: str | None, template: str | None) -> Any:
    """A scorer; with a rubric or a template for its judge as name and arguments."""
    own = {"criteria": text_of(rubric), "template": text_of(template)}
    given = {name: value for name, value in own.items() if value is not None}
    named = scorer if isinstance(scorer, Mapping) else {"name": scorer}
    if given and named["name"] not in ("grade", "prefer"):
        raise InvalidInput(
            "--rubric and --judge-template", "given with --scorer grade or prefer", named["name"]
        )
    return {**named, **given} if given else scorer


def read_data(request: Request, *, combined: bool = False) -> tuple[DataSet, tuple[Item, ...]]:
    """The data of a request, and the worked examples that are taken out of it."""
    parts = ("input", "answer", "choices", "category", "id")
    fields = Fields(**{part: getattr(request, part) for part in parts})
    data = read_dataset(str(request.data), fields, combined=combined)
    if not request.few_shot:
        return data, ()
    examples, left = split_examples(data.items, request.few_shot)
    return DataSet.of(data.source, left), examples


def weights_for(request: Request, items: Sequence[Item]) -> dict[str, Any]:
    """The items' weights in the target, for the plan: whole, so that a run needs no other file to go on."""
    check_one(request.weights, request.mix)
    if request.mix is not None:
        found = mixed(request.mix, [item.category for item in items])
        return {"source": f"mix {_file_name(request.mix)}", **packed(found)}
    if request.weights is None:
        return {}
    ids = [item.id for item in items]
    found = weights_of_items(request.weights, ids, lambda name: _metadata(items, name))
    return {"source": _file_name(request.weights), **packed(found)}


def _file_name(value: str) -> str:
    """A file's name without its folder: a plan does not depend on where files lie."""
    return Path(value).name if is_table(value) else value


def _metadata(items: Sequence[Item], name: str) -> list[Any]:
    names = dict.fromkeys(key for item in items for key in item.metadata)
    if name not in names:
        raise InvalidInput("--weights", f"a file, or a field of the data ({did_you_mean(name, names)})", name)
    return [item.metadata.get(name) for item in items]


def address_of(request: Request) -> str | None:
    """The address of the model's server, where it has one."""
    if not str(request.model).startswith("openai/"):
        return request.base_url
    address = request.base_url or os.environ.get("OPENAI_BASE_URL") or None
    return None if address is None else checked_url(address)


def text_of(value: str | None) -> str | None:
    """A text, or the content of the file that `@FILE` names."""
    if value is None or not value.startswith("@"):
        return value
    return read_text(Path(value[1:]))
