"""Prepare everything that a run needs, from a request or from a run in the store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cereval.arrays import packed
from cereval.datasets.base import DataSet, Item
from cereval.datasets.fields import Fields, list_names
from cereval.datasets.large import HEAD, FileItems, answer_key_of, categories_of, first_of, hash_of
from cereval.datasets.prompts import Prompt, split_examples, split_large
from cereval.datasets.read import grown_by, joined, named, read_dataset
from cereval.datasets.weights import (
    check_one,
    is_table,
    may_stay_on_disk,
    mixed,
    mixed_codes,
    numbers,
    weights_of_items,
)
from cereval.errors import BadFile, CallError, InvalidInput, Misuse, StoreError, shown
from cereval.files import read_text
from cereval.imports import optional
from cereval.models import ModelOptions, open_model
from cereval.models.base import Model, Settings
from cereval.models.given import GIVEN
from cereval.models.openai_model import checked_url, provider_of
from cereval.models.prices import Price
from cereval.plan import DRAWN, Known, Plan
from cereval.questions import kind_of
from cereval.questions.goals import Goal
from cereval.questions.session import fresh_seed
from cereval.questions.tasks import UNNAMED
from cereval.questions.tasks.session import named_groups
from cereval.runner.executor import Callers, Executor, NobodyToAsk, Sampled
from cereval.runner.items import item_from, stored_items
from cereval.runner.limits import Limits
from cereval.runner.outside import OUTSIDE, is_asked_outside
from cereval.runner.request import Request, settings_from
from cereval.runner.samples import Samples
from cereval.runner.start import reader
from cereval.runner.trust import Named, named_by_model, named_by_scorer, remember, require
from cereval.scorers import JUDGES, build_scorer
from cereval.scorers.base import Scorer, spec_of
from cereval.scorers.judge import Grade, Panel, Prefer
from cereval.scorers.people import People, answering
from cereval.scorers.python_scorer import PythonScorer
from cereval.store.base import Run, Store, store_flag
from cereval.text import did_you_mean

COMPARING = frozenset({"exact", "contains", "choice", "numeric", "math", "f1", "prefer"})
"""Scorers that need the right answer."""

CIRCUMSTANCES = (
    *("connections", "max_usd", "max_minutes", "price_in", "price_out", "timeout"),
    *("judge_price_in", "judge_price_out", "fresh", "max_age"),
)
"""The settings of a request that are no part of its plan."""

BY_LOGPROBS = "logprobs"
"""The way of choosing by the log-probabilities of the letters."""

SAMPLING = ("samples", "pass_at")
"""Settings of questions about one mean only."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Hold a plan and what carries it out; `circumstances` are what `resume` needs beyond the plan."""

    plan: Plan
    items: Sequence[Item]
    executor: Executor
    scorer: Scorer
    prompt: Prompt
    limits: Limits
    circumstances: Mapping[str, Any]

    async def close(self) -> None:
        await self.executor.close()


# -- new runs, kind by kind -------------------------------------------------------------------------------------------


def prepared(request: Request, *, on_disk: bool = True) -> Prepared:
    """Read the data, open the model, and check all that can be checked before the first call.

    on_disk: the questions of a large file may stay where they are; not of one that will be gone soon.
    """
    plan, items = _plan(request, *read_data(request, on_disk=on_disk))
    return opened(plan, items, circumstances_of(request))


def against(request: Request, models: Sequence[str], goal: Goal, *, on_disk: bool = True) -> Prepared:
    """Return two models on the same items."""
    _left_out(request, "method", "target", *SAMPLING)
    plan, items = _several(request, models, " against ", on_disk=on_disk)
    return opened(replace(plan, kind="compare", goal=goal.spec()), items, circumstances_of(request))


def ranked(request: Request, models: Sequence[str], goal: Any, *, on_disk: bool = True) -> Prepared:
    """Return many models on the same items."""
    _left_out(request, "method", "target", "weights", "mix", *SAMPLING)
    plan, items = _several(request, models, ", ", on_disk=on_disk)
    ranking = replace(plan, kind="rank", goal=goal.spec(), method="pairs", target="benchmark")
    return opened(ranking, items, circumstances_of(request))


def _left_out(request: Request, *names: str) -> None:
    """Refuse settings that a question does not look at: accepted and ignored, they would mislead."""
    usual = Request()
    for name in names:
        if getattr(request, name) != getattr(usual, name):
            flag = f"--{name.replace('_', '-')}"
            raise InvalidInput(flag, "left out for this kind of question", getattr(request, name))


def _several(
    request: Request, models: Sequence[str], between: str, *, on_disk: bool
) -> tuple[Plan, Sequence[Item]]:
    # Several models are always typed: a task file names one.
    addresses = [_own_address(request, name) for name in models]
    for name, address in zip(models, addresses, strict=True):
        remember(named_by_model(name, address))
    plan, items = _plan(request, *read_data(request, on_disk=on_disk))
    specs = [
        {**plan.model, "name": name, "base_url": address}
        for name, address in zip(models, addresses, strict=True)
    ]
    return replace(plan, model={"name": between.join(models), "models": specs}), items


def _own_address(request: Request, model: str) -> str | None:
    """Return the address of one of several models: --base-url is that of those which take one."""
    return None if provider_of(model) else address_of(replace(request, model=model))


def divided(request: Request, files: Sequence[str], goal: Any, *, on_disk: bool = True) -> Prepared:
    """Return one run on many tasks: the categories of one data set, or one task for each of several.

    on_disk: the questions of one large file may stay where they are; several files are read whole.
    """
    _left_out(request, "method", "target", "weights", "mix", *SAMPLING)
    if len(files) > 1 and request.few_shot:
        raise InvalidInput("--few-shot", "left out where each of several files is a task", request.few_shot)
    several = len(files) > 1
    parts = [
        read_data(replace(request, data=file), combined=several, on_disk=on_disk and not several)
        for file in files
    ]
    data = joined([part for part, _ in parts])
    if request.scorer is None and len({bool(item.choices) for item in first_of(data.items)}) > 1:
        raise InvalidInput("--scorer", "given where some questions have choices and some have none", None)
    plan, items = _plan(request, data, parts[0][1])
    for part, _ in parts:
        _need_answers(plan, part.items, named(part.source))
    names, _ = named_groups([category or UNNAMED for category in categories_of(items)])
    many = replace(plan, goal=goal.spec(), tasks=names, data_name=", ".join(map(named, files)))
    return opened(many, items, circumstances_of(request))


def growing(request: Request, *, on_disk: bool = True) -> Prepared:
    """Return the first version of a data set that will grow."""
    _left_out(request, "method", "weights", "mix", "at_least", *SAMPLING)
    plan, items = _plan(request, *read_data(request, combined=True, on_disk=on_disk))
    growth = {"sizes": [plan.n_items], "after": None}
    return opened(replace(plan, method="growing", growth=growth), items, circumstances_of(request))


def extended(
    run_id: str, store: Store, data: DataSet, overrides: Mapping[str, Any], *, trust: bool = False
) -> Prepared:
    """Return the next version of a run's data: its items and those of `data` that it does not have.

    trust: confirm the code and the addresses that the stored plan names; else only what is trusted already is used.
    """
    run = store.run(run_id)
    plan = _stored_plan(run)
    if "sizes" not in plan.growth:
        raise InvalidInput("RUN", "a run that `cereval extend` started", run.run_id)
    items = stored_items(plan, store)
    examples = [str(example["id"]) for example in plan.prompt.get("examples", ())]
    grown = grown_by(items, data, examples)
    _need_answers(plan, grown[len(items) : len(items) + HEAD], named(data.source))
    larger = replace(
        plan,
        data_hash=hash_of(grown),
        n_items=len(grown),
        data_name=f"{plan.data_name}, {named(data.source)}",
        growth={"sizes": [*plan.growth["sizes"], len(grown) - len(items)], "after": run.run_id},
        max_calls=overrides.get("max_calls"),
    )
    _check_extension(larger, store)
    given = {name: value for name, value in overrides.items() if name != "max_calls"}
    circumstances = circumstances_in(run.run_id, store, given)
    _weigh(lambda: named_by_plan(larger, circumstances), run.run_id, trust)
    return opened(larger, grown, circumstances)


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
            "RUN", f"a version that has ended (`cereval resume {after}{store_flag(store)}`): {error}", after
        ) from None


# -- from the store ---------------------------------------------------------------------------------------------------


def recalled(run_id: str, store: Store, overrides: Mapping[str, Any], *, trust: bool = False) -> Prepared:
    """Return a run as it was started, from the store alone; circumstances may be overridden.

    trust: confirm the code and the addresses that the stored plan names; else only what is trusted already is used.
    """
    run = store.run(run_id)
    plan = _stored_plan(run)
    refusal = kind_of(plan).refusal(plan)
    if refusal is not None:
        raise InvalidInput("RUN", refusal, run.run_id)
    circumstances = circumstances_in(run.run_id, store, overrides)
    _weigh(lambda: named_by_plan(plan, circumstances), run.run_id, trust)
    return opened(plan, stored_items(plan, store), circumstances)


def _stored_plan(run: Run) -> Plan:
    """Return the plan of a stored run; refused where it is not the one that the run's id was made from."""
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


def unasked(plan: Plan, items: Sequence[Item]) -> Prepared:
    """Return a run that goes on with the answers it has: nobody is asked."""
    prompt, scorer = Prompt(plan.prompt.get("template"), plan.prompt.get("system")), build_scorer("exact")
    circumstances = circumstances_of(Request())
    return Prepared(plan, items, NobodyToAsk(), scorer, prompt, Limits(), circumstances)


def rescored(run_id: str, store: Store, settings: Mapping[str, Any], *, trust: bool = False) -> Prepared:
    """Return a run with another scorer, on the answers that it has: nobody is asked but a judge.

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
    circumstances = circumstances_in(run.run_id, store, prices)
    typed = named_by_model(given["judge"], given["judge_base_url"])
    remember(typed if settings.get("scorer") is None else (*typed, *named_by_scorer(settings["scorer"])))
    _weigh(lambda: named_by_scoring(other, circumstances), run.run_id, trust)
    if not all(map(_at_zero, kind_of(plan).models(plan))):
        raise InvalidInput(
            "RUN", "one at temperature 0: other answers are no facts about a model", run.run_id
        )
    prompt = Prompt(plan.prompt.get("template"), plan.prompt.get("system"))
    scorer, _ = _scorer(other, items, _options(items, circumstances), circumstances, prompt)
    whole = replace(other, scorer=_scorer_spec(other, scorer))
    return Prepared(whole, items, NobodyToAsk(), answering(scorer), prompt, Limits(), circumstances)


def _at_zero(model: Any) -> bool:
    """Tell whether a stored model answers at temperature 0, as far as its plan can be read."""
    settings = model.get("settings") if isinstance(model, Mapping) else None
    return not isinstance(settings, Mapping) or settings.get("temperature", 0) == 0


def circumstances_in(run_id: str, store: Store, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return those that a run last had, but for what is given now."""
    given = {key: value for key, value in overrides.items() if value is not None}
    remember(named_by_model(None, given.get("base_url")))
    last = last_circumstances(run_id, store)
    kept = {name: last[name] for name in (*CIRCUMSTANCES, "base_url") if name in last}
    stored = settings_from(kept, f"the store, run {run_id}")
    # The moment that a fleet's answers must not be older than.
    since = {"since": last["since"]} if isinstance(last.get("since"), float) else {}
    return {**circumstances_of(Request()), **stored, **since, **given}


def last_circumstances(run_id: str, store: Store) -> Mapping[str, Any]:
    """Return those of the last calls; a run that needed none has those of the run that it goes on from."""
    running: list[Mapping[str, Any]]
    running = [event["detail"] for event in store.events(run_id) if event["status"] == "running"]
    plan = store.run(run_id).plan
    before = kind_of(plan).before(plan)
    if running or before is None:
        return running[-1] if running else {}
    return last_circumstances(before, store)


def circumstances_of(request: Request) -> dict[str, Any]:
    """Return the settings of a request that are no part of its plan."""
    return {name: getattr(request, name) for name in CIRCUMSTANCES}


# -- models, prompts and scorers --------------------------------------------------------------------------------------


def opened(plan: Plan, items: Sequence[Item], circumstances: Mapping[str, Any]) -> Prepared:
    """Open the models and the scorer of a plan; what cannot work, or is not trusted, is refused here."""
    require(named_by_plan(plan, circumstances), "the plan")
    limits = Limits(*(circumstances[name] for name in ("connections", "max_usd", "max_minutes")))
    options = _options(items, circumstances)
    examples = tuple(item_from(row) for row in plan.prompt.get("examples", ()))
    prompt = Prompt(plan.prompt.get("template"), plan.prompt.get("system"), examples)
    scorer, judge = _scorer(plan, items, options, circumstances, prompt)
    prompt.messages(items[0])
    kind = kind_of(plan)
    if is_asked_outside(plan):
        return replace(unasked(plan, items), prompt=prompt, limits=limits, circumstances=circumstances)
    for name in kind.names(plan):
        if name.startswith(OUTSIDE):
            raise InvalidInput("--model", f"{OUTSIDE}NAME for all models of a run, or for none", name)
    models = [
        _model(spec, replace(options, given=_given(spec, items, prompt)), circumstances)
        for spec in kind.models(plan)
    ]
    _check_prices(limits, models, judge)
    circumstances = {**circumstances, "priced_by": priced_by(*models, *(() if judge is None else (judge,)))}
    choose = plan.prompt.get("choose") == BY_LOGPROBS
    callers = Callers(items, prompt, models, answering(scorer), judge, choose)
    whole = replace(plan, scorer=_scorer_spec(plan, scorer))
    executor: Executor = callers
    samples = Samples.of(plan.scorer)
    if samples.count > 1:
        executor = Sampled(executor, samples, asyncio.Semaphore(limits.connections))
    return Prepared(whole, items, executor, answering(scorer), prompt, limits, circumstances)


def named_by_plan(plan: Plan, circumstances: Mapping[str, Any]) -> tuple[Named, ...]:
    """Return what opening the models and the scorer of a plan would run or call."""
    models = [
        named_by_model(spec["name"], _address(spec, circumstances)) for spec in kind_of(plan).models(plan)
    ]
    return (*(one for names in models for one in names), *named_by_scoring(plan, circumstances))


def named_by_scoring(plan: Plan, circumstances: Mapping[str, Any]) -> tuple[Named, ...]:
    """Return what scoring answers as a plan says would run or call."""
    scorer, judge = plan.scorer.get("spec") or plan.scorer, plan.scorer.get("judge")
    address = _judge_address(plan, circumstances) if judge else None
    return (*named_by_model(judge or None, address), *named_by_scorer(scorer))


def _address(spec: Mapping[str, Any], circumstances: Mapping[str, Any]) -> str | None:
    moved = None if provider_of(spec["name"]) else circumstances.get("base_url")
    return moved or spec.get("base_url")


def _judge_address(plan: Plan, circumstances: Mapping[str, Any]) -> str | None:
    given = plan.scorer.get("judge_base_url")
    if given or not str(plan.scorer.get("judge")).startswith("openai/"):
        return None if given is None else str(given)
    return _address(kind_of(plan).models(plan)[0], circumstances)


def _model(spec: Mapping[str, Any], options: ModelOptions, circumstances: Mapping[str, Any]) -> Model:
    try:
        settings = Settings(**spec.get("settings", {}))
    except TypeError:
        raise InvalidInput("settings of the model", "those that a run writes", spec["settings"]) from None
    address = _address(spec, circumstances)
    return open_model(spec["name"], replace(options, base_url=address, settings=settings))


def _given(spec: Mapping[str, Any], items: Sequence[Item], prompt: Prompt) -> dict[str, str] | None:
    """Give the answers that the data has under the field of `given/FIELD`, by the prompts that ask for them."""
    name = str(spec["name"])
    if not name.startswith(GIVEN):
        return None
    field, found = name.removeprefix(GIVEN), dict[str, str]()
    if not any(field in item.metadata for item in items):
        known = dict.fromkeys(key for item in items for key in item.metadata)
        raise InvalidInput("--model", f"given/ and a field of the data ({did_you_mean(field, known)})", name)
    for item in items:
        if item.metadata.get(field) is not None:
            asked, text = prompt.messages(item)[-1]["content"], str(item.metadata[field])
            if found.setdefault(asked, text) != text:
                raise BadFile(
                    f"item {item.id} asks what another asks, with another answer; tell them apart with --template"
                )
    return found


def _options(items: Sequence[Item], circumstances: Mapping[str, Any]) -> ModelOptions:
    return ModelOptions(
        price=_price(circumstances),
        timeout_s=circumstances["timeout"],
        connections=circumstances["connections"],
        answer_key=answer_key_of(items),
    )


def priced_by(*models: Model) -> str:
    """Say which tables or flags the prices of models were taken from; empty where none was needed."""
    prices = [getattr(model, "price", None) for model in models]
    return ", ".join(dict.fromkeys(price.source for price in prices if price is not None and price.source))


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
    """Return what a model costs, or a judge (`judge_`); None: unknown."""
    per_in, per_out = (circumstances.get(f"{whose}price_{way}") for way in ("in", "out"))
    flags = f"--{whose.replace('_', '-')}price-in and -out"
    return None if per_in is None and per_out is None else Price(per_in or 0.0, per_out or 0.0, flags)


def _scorer(
    plan: Plan, items: Sequence[Item], options: ModelOptions, circumstances: Mapping[str, Any], prompt: Prompt
) -> tuple[Scorer, Model | None]:
    spec, named = plan.scorer.get("spec") or plan.scorer, plan.scorer.get("judge")
    _need_answers(plan, items, "the data")
    judge = _judge(plan, options, circumstances) if named and _scorer_name(spec) in JUDGES else None
    scorer = build_scorer(spec, judge, prompt.messages)
    # Where people score, a judge only grades beforehand (`cereval.runner.people`).
    if named and judge is None and not isinstance(scorer, People):
        raise InvalidInput("judge", f"left out for the scorer `{scorer.name}`", named)
    _check_scorer(scorer, items)
    return scorer, judge


def _judge(plan: Plan, options: ModelOptions, circumstances: Mapping[str, Any]) -> Model:
    address = _judge_address(plan, circumstances)
    price = _price(circumstances, "judge_")
    try:
        return open_model(
            plan.scorer["judge"], replace(options, base_url=address, price=price, settings=Settings())
        )
    except InvalidInput as error:
        raise InvalidInput(error.field.replace("model", "judge"), error.allowed, error.received) from None
    except CallError as error:
        remedy = str(error).replace("--base-url", "--judge-base-url")
        raise CallError(f"the judge {plan.scorer['judge']} cannot be asked: {remedy}") from None


def _check_scorer(scorer: Scorer, items: Sequence[Item]) -> None:
    """Refuse before the first call what would fail, or score nothing, on every answer."""
    if scorer.name == "choice" and items and not any(item.choices for item in first_of(items)):
        raise BadFile(
            "the data has no choices, which the scorer `choice` needs; name their field with --choices"
        )
    if scorer.name == "math":
        optional("math_verify", "math")
    if isinstance(scorer, People) and scorer.how == "prefer" and not all(item.answers for item in items):
        raise BadFile(
            "people compare the model's answer with the data's own, and some items have none; name it with --answer"
        )
    if isinstance(scorer, PythonScorer | Grade | Prefer | Panel) and items:
        scorer.check(first_of(items))


def _scorer_spec(plan: Plan, scorer: Scorer) -> Mapping[str, Any]:
    """Return the scorer in full, so that a default that changes later does not change the run."""
    spec = {
        key: value
        for key, value in spec_of(scorer).items()
        if key != "judge" and (value, key) != ("", "template")
    }
    # Code that was edited is another scorer: scores of the old one must not come back as its own.
    code = {"code": scorer.code} if isinstance(scorer, PythonScorer) else {}
    return {**plan.scorer, "spec": spec, **code}


def _scorer_name(spec: Any) -> str:
    return spec.partition(":")[0] if isinstance(spec, str) else str(spec.get("name"))


def _need_answers(plan: Plan, items: Sequence[Item], source: str) -> None:
    """Refuse data, or a part of it, that the scorer has nothing to compare with."""
    spec = plan.scorer.get("spec") or plan.scorer
    name = _scorer_name(spec)
    if name in COMPARING and items and not any(item.answers for item in first_of(items)):
        raise BadFile(
            f"{source} has no field that looks like the right answer, which the scorer `{name}` needs; name it with "
            f"--answer (it has {list_names(dict.fromkeys(key for item in first_of(items) for key in item.metadata))})"
        )


# -- what a request says ----------------------------------------------------------------------------------------------


def _plan(request: Request, data: DataSet, examples: tuple[Item, ...]) -> tuple[Plan, Sequence[Item]]:
    scorer = request.scorer or ("choice" if data.items[0].choices else "exact")
    scorer = _with_texts(scorer, request.rubric, request.judge_template, request.raters)
    prompt = {"template": text_of(request.template), "system": text_of(request.system)}
    samples = _samples(request)
    choose = _choosing(request, scorer, data.items)
    longest = 1 if choose and request.max_tokens is None else request.max_tokens
    plan = Plan(
        goal=request.goal.spec(),
        data_hash=data.content_hash,
        n_items=len(data.items),
        data_name=named(data.source),
        model={
            "name": request.model,
            "base_url": address_of(request),
            "settings": {"temperature": request.temperature, "max_tokens": longest},
            **({} if request.revision is None else {"revision": request.revision}),
        },
        scorer={
            "spec": scorer,
            "judge": request.judge,
            "judge_base_url": request.judge_base_url,
            **samples.spec(),
        },
        prompt={**prompt, "examples": [example.as_dict() for example in examples], **choose},
        confidence=request.confidence,
        target=request.target,
        method=request.method,
        seed=fresh_seed() if request.seed is None else request.seed,
        seed_source=DRAWN if request.seed is None else "",
        max_calls=samples.draws(request.max_calls),
        weights=weights_for(request, data.items),
    )
    return plan, data.items


def _choosing(request: Request, scorer: Any, items: Sequence[Item]) -> dict[str, str]:
    """Return how a choice is read, as a part of the prompt: it decides what is asked; nothing where it is the
    text's."""
    if request.choose in (None, "text"):
        return {}
    if request.choose != BY_LOGPROBS:
        raise InvalidInput("--choose", f"text or {BY_LOGPROBS}", request.choose)
    if scorer != "choice" or not all(item.choices for item in items):
        wanted = "left out where a question has no choices, or the scorer is not `choice`"
        raise InvalidInput("--choose", wanted, request.choose)
    return {"choose": BY_LOGPROBS}


def _samples(request: Request) -> Samples:
    """Return how often every question is asked; more than once only where answers differ."""
    samples = Samples.wanted(request.samples, request.pass_at)
    flag = "--pass-at" if request.samples is None else "--samples"
    if samples.count > 1 and request.temperature == 0 and not str(request.model).startswith("python:"):
        wanted = "given with a --temperature above 0: at 0 all answers are alike"
        raise InvalidInput(flag, wanted, samples.count)
    if samples.count > 1 and str(request.model).startswith(OUTSIDE):
        raise InvalidInput(flag, "left out where answers come from outside", samples.count)
    return samples


def _with_texts(scorer: Any, rubric: str | None, template: str | None, raters: int | None = None) -> Any:
    """Return a scorer; with a rubric or a template for its judge as name and arguments."""
    own = {"criteria": text_of(rubric), "template": text_of(template)}
    given = {name: value for name, value in own.items() if value is not None}
    if _scorer_name(scorer) == People.name and template is None:
        found = build_scorer(scorer)
        assert isinstance(found, People)
        return spec_of(
            replace(
                found,
                criteria=given.get("criteria", found.criteria),
                raters=found.raters if raters is None else raters,
            )
        )
    if raters is not None:
        raise InvalidInput("--raters", "given with --scorer people", raters)
    named = scorer if isinstance(scorer, Mapping) else {"name": scorer}
    if given and named["name"] not in JUDGES:
        raise InvalidInput(
            "--rubric and --judge-template", "given with --scorer grade or prefer", named["name"]
        )
    return {**named, **given} if given else scorer


def read_data(
    request: Request, *, combined: bool = False, on_disk: bool = False
) -> tuple[DataSet, tuple[Item, ...]]:
    """Return the data of a request, and the worked examples that are taken out of it."""
    on_disk = on_disk and may_stay_on_disk(request.weights)
    parts = ("input", "answer", "choices", "category", "id")
    fields = Fields(**{part: getattr(request, part) for part in parts})
    data = read_dataset(str(request.data), fields, combined=combined, on_disk=on_disk)
    if not request.few_shot:
        return data, ()
    if isinstance(data.items, FileItems):
        examples, others = split_large(data.items, request.few_shot)
        return DataSet(data.source, others, others.content_hash), examples
    examples, left = split_examples(data.items, request.few_shot)
    return DataSet.of(data.source, left), examples


def weights_for(request: Request, items: Sequence[Item]) -> dict[str, Any]:
    """Return the items' weights in the target, for the plan: whole, so that a run needs no other file to go on."""
    check_one(request.weights, request.mix)
    if request.mix is not None:
        found = (
            mixed_codes(request.mix, *items.groups)
            if isinstance(items, FileItems)
            else mixed(request.mix, [item.category for item in items])
        )
        return {"source": f"mix {_file_name(request.mix)}", **packed(found)}
    if request.weights is None:
        return {}
    return {"source": _file_name(request.weights), **packed(_weights(request.weights, items))}


def _weights(value: str, items: Sequence[Item]) -> Any:
    if isinstance(items, FileItems):
        _check_field(value, items.metadata)
        return numbers(items.column(value), value, lambda row: items[row].id)
    return weights_of_items(value, [item.id for item in items], lambda name: _metadata(items, name))


def _file_name(value: str) -> str:
    """Return a file's name without its folder: a plan does not depend on where files lie."""
    return Path(value).name if is_table(value) else value


def _metadata(items: Sequence[Item], name: str) -> list[Any]:
    _check_field(name, dict.fromkeys(key for item in items for key in item.metadata))
    return [item.metadata.get(name) for item in items]


def _check_field(name: str, known: Iterable[str]) -> None:
    names = list(known)
    if name not in names:
        raise InvalidInput("--weights", f"a file, or a field of the data ({did_you_mean(name, names)})", name)


def address_of(request: Request) -> str | None:
    """Return the address of the model's server, where it has one."""
    if not str(request.model).startswith("openai/"):
        return request.base_url
    address = request.base_url or os.environ.get("OPENAI_BASE_URL") or None
    return None if address is None else checked_url(address)


def text_of(value: str | None) -> str | None:
    """Return a text, or the content of the file that `@FILE` names."""
    if value is None or not value.startswith("@"):
        return value
    return read_text(Path(value[1:]))
