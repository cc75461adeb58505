"""From settings to a run that is ready: read the data, describe the candidates, make the plan, open what answers."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from pathlib import Path
from typing import Any

from cereval.arrays import packed
from cereval.datasets.base import DataSet, Item
from cereval.datasets.items import Fields
from cereval.datasets.prompts import Prompt, renders_alike, split_examples
from cereval.datasets.read import clustered, joined, named, read_dataset
from cereval.datasets.weights import (
    check_one,
    is_table,
    mixed,
    weights_of_items,
)
from cereval.errors import InvalidInput
from cereval.methods.uniform import Whole
from cereval.models.base import Model
from cereval.models.openai_model import OpenAIModel
from cereval.models.prices import FREE, Tokens
from cereval.models.scripted import GIVEN, field_of, is_given
from cereval.plan import DRAWN, CandidateSpec, Plan, repeats_itself
from cereval.questions import kind_named
from cereval.questions.compare.goal import Difference
from cereval.questions.mean.goal import Estimate
from cereval.questions.session import fresh_seed
from cereval.runner.batches import refuse_batches
from cereval.runner.book import names_runs, read_run, take_runs
from cereval.runner.candidates import (
    BY_LOGPROBS,
    OF_A_CALL,
    OUTSIDE,
    RUN,
    Functions,
    describe_candidates,
    is_asked_outside,
    named_by_candidate,
    open_candidate,
    prompt_of,
)
from cereval.runner.executor import Callers, Clustered, Executor, NobodyToAsk, Sampled, questions_of
from cereval.runner.limits import Limits
from cereval.runner.pace import LARGEST_ROUND
from cereval.runner.samples import Samples
from cereval.runner.scoring import (
    describe_scorer,
    functions_in,
    named_by_scoring,
    need_answers,
    open_scorers,
    samples_of,
    scorer_name,
    whole_scorer,
)
from cereval.runner.trust import Named, require
from cereval.scorers import JUDGES, build_scorer
from cereval.scorers.base import Scorer
from cereval.scorers.people import People, answering
from cereval.settings import ACCEPTED, Settings, declared, goal_of
from cereval.store.base import opened_store
from cereval.text import did_you_mean

USUAL = {
    "exact": "equals the reference (case, spaces and marks around it do not count)",
    "choice": "is the letter or the text of the right choice",
}
"""Which answers are right by the scorers that are chosen where nobody names one."""

FIRST = 100
"""Questions that are looked at to see whether prompts differ."""

CIRCUMSTANCES = (
    *("connections", "max_usd", "max_minutes"),
    *("judge_price_in", "judge_price_out", "fresh", "max_age", "batch"),
)
"""The options that are no part of a plan: they may differ whenever a run goes on."""

MOST_PROMPTS = 200
"""Prompts whose length is looked at."""
LONG_ANSWER = 2000
"""Tokens of a long answer, where --max-tokens does not say how long one may be."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan, and what carries it out; `circumstances` are what `resume` needs beyond the plan.

    notes: what whoever asks should know before the first call. served: of each candidate, under which names a server
    answered, and how often. models: the candidates, opened. asked: the settings, where nobody chose the target and
    it goes by whether candidates repeat themselves.
    """

    plan: Plan
    items: Sequence[Item]
    executor: Executor
    scorers: tuple[Scorer, ...]
    prompts: tuple[Prompt, ...]
    limits: Limits
    circumstances: Mapping[str, Any]
    functions: Functions = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    served: tuple[Counter[str], ...] = ()
    models: tuple[Model, ...] = ()
    asked: Settings | None = None

    async def close(self) -> None:
        await self.executor.close()


def prepare(settings: Settings, *, data: DataSet | None = None) -> Prepared:
    """Return the run that settings ask for, ready for its first call; what cannot work is refused here.

    data: in place of the file that the settings name.
    """
    examples: tuple[Item, ...] = ()
    if data is None:
        data, examples = read_data(settings)
    functions, specs = functions_in(settings), dict[int, CandidateSpec]()
    if settings["baseline"] is not None or names_runs(settings):
        with opened_store(settings["store"], reading=True) as store:
            plan = make_plan(settings, data, examples)
            taken = take_runs(settings, plan, data, circumstances_of(settings), functions, store)
        settings, specs, data = taken.settings, taken.specs, taken.data
    questions = data
    if settings["cluster"] is not None:
        data = _clusters(settings, questions)
    if all("not_asked" in spec for spec in specs.values()):
        settings = use_all(settings, len(data.items))
    plan = make_plan(settings, questions, examples)
    plan = replace(plan, data_hash=data.content_hash, n_items=len(data.items))
    if settings["cluster"] is not None:
        plan = replace(plan, scorer={**plan.scorer, "cluster": settings["cluster"]})
    if specs:
        live = dict(enumerate(plan.candidates))
        plan = replace(plan, candidates=tuple(one for _, one in sorted({**live, **specs}.items())))
    plan = replace(plan, data_name=data.source if specs else plan.data_name)
    work = open_plan(plan, data.items, circumstances_of(settings), functions)
    return replace(
        work,
        notes=(*_chosen_scorer(settings, work), *_equal_prompts(work)),
        asked=settings if settings["target"] is None and _knows_fresh(settings.kind, plan.scorer) else None,
    )


def _chosen_scorer(settings: Settings, work: Prepared) -> list[str]:
    name = scorer_name(work.plan.scorer["spec"])
    if settings["scorer"] is not None or name not in USUAL or is_asked_outside(work.plan):
        return []
    return [f"no --scorer was given: `{name}` is used, by which an answer is right if it {USUAL[name]}"]


def _equal_prompts(work: Prepared) -> list[str]:
    some = questions_of(work.plan, work.items)[:FIRST]
    return [
        f"warning: {spec['name']} is asked the same whatever the question: its template has no placeholder such as "
        "{{ question }}"
        for spec, prompt in zip(work.plan.candidates, work.prompts, strict=True)
        if spec["prompt"]["template"] is not None and renders_alike(prompt, some)
    ]


def _clusters(settings: Settings, data: DataSet) -> DataSet:
    if settings["target"] != "population":
        wanted = "left out but for --target population: about these questions the answer is the same without"
        raise InvalidInput("cluster", wanted, settings["cluster"])
    if samples_of(settings).count > 1 or names_runs(settings) or settings["baseline"] is not None:
        wanted = "left out with --samples, a baseline or earlier runs"
        raise InvalidInput("cluster", wanted, settings["cluster"])
    return clustered(data, settings["cluster"])


# -- data -------------------------------------------------------------------------------------------------------------


def read_data(settings: Settings) -> tuple[DataSet, tuple[Item, ...]]:
    if settings.data[0].startswith(RUN):
        return read_run(settings.data[0].removeprefix(RUN), settings["store"]), ()
    if len(settings.data) > 1:
        return _read_files(settings), ()
    combined = kind_named(settings.kind).grows
    data = read_dataset(settings.data[0], _fields(settings), combined=combined)
    shots = max(one.options.get("few_shot", 0) for one in settings.candidates)
    if not shots:
        return data, ()
    examples, left = split_examples(data.items, shots)
    return DataSet.of(data.source, left), examples


def _read_files(settings: Settings) -> DataSet:
    """Return several files as one data set, each a category of its own; they are read whole."""
    for one in settings.candidates:
        if one.options.get("few_shot"):
            wanted = "left out where each of several files is a task"
            raise InvalidInput("few_shot", wanted, one.options["few_shot"])
    parts = [read_dataset(file, _fields(settings), combined=True) for file in settings.data]
    for part in parts:
        scorer = settings["scorer"] or ("choice" if part.items[0].choices else "exact")
        need_answers_of(scorer, part.items, named(part.source))
    return joined(parts)


def need_answers_of(scorer: Any, items: Sequence[Item], source: str) -> None:
    probe = Plan("", {"goal": ""}, "", len(items), (), {"spec": scorer})
    need_answers(probe, items, source)


def _fields(settings: Settings) -> Fields:
    given = {part: settings[part] for part in ("input", "answer", "choices", "category", "id")}
    if settings["by"] is not None:
        given["category"] = settings["by"]
    answers = (field_of(one.model_name) for one in settings.candidates if one.model_name.startswith(GIVEN))
    return Fields(**given, taken=tuple(answers))


# -- the plan ---------------------------------------------------------------------------------------------------------


def make_plan(settings: Settings, data: DataSet, examples: Sequence[Item] = ()) -> Plan:
    scorer = describe_scorer(settings, data.items)
    candidates = describe_candidates(settings.candidates, examples, data.items, scorer_name(scorer["spec"]))
    plan = Plan(
        kind=settings.kind,
        goal=dict(settings.goal.spec()),
        data_hash=data.content_hash,
        n_items=len(data.items),
        candidates=candidates,
        scorer=scorer,
        data_name=", ".join(map(named, settings.data)),
        confidence=settings["confidence"],
        target=settings["target"] or _usual_target(settings, candidates, scorer),
        method=settings["method"] or "auto",
        seed=fresh_seed() if settings["seed"] is None else settings["seed"],
        seed_source=DRAWN if settings["seed"] is None else "",
        max_calls=samples_of(settings).draws(settings["max_calls"]),
        weights=_weights(settings, data.items),
    )
    return kind_named(settings.kind).complete_plan(plan, [item.category for item in data.items])


def _usual_target(settings: Settings, candidates: Sequence[CandidateSpec], scorer: Mapping[str, Any]) -> str:
    """Return what a mean is over where nobody says: fresh answers where a candidate's differ from call to call.

    People score each answer once, and other kinds know no target: their results say that they are of these answers.
    """
    if settings.kind == "each":
        return "expected"
    several = samples_of(settings).count > 1
    random = several or not all(map(repeats_itself, candidates))
    return "expected" if random and _knows_fresh(settings.kind, scorer) else "benchmark"


def _knows_fresh(kind: str, scorer: Mapping[str, Any]) -> bool:
    knows = "target" in declared(ACCEPTED[kind]) and not kind_named(kind).grows
    return knows and scorer_name(scorer["spec"]) != People.name


def turned(work: Prepared) -> Prepared:
    """Return the same question about fresh answers, where a server refuses the temperature: asked without it."""
    refused = [_lacks_temperature(model) for model in work.models]
    candidates = tuple(copy.deepcopy(spec) for spec in work.plan.candidates)
    for spec, turn in zip(candidates, refused, strict=True):
        spec["settings"] |= {"temperature": None} if turn else {}
    plan = replace(work.plan, candidates=candidates, target="expected")
    names = ", ".join(name for name, turn in zip(plan.names, refused, strict=True) if turn)
    note = (
        f"the server refuses a temperature: {names} asked without one; answers may differ from call to call"
    )
    found = open_plan(plan, work.items, work.circumstances, work.functions)
    return replace(found, notes=(*work.notes, note))


def need_temperature(work: Prepared) -> None:
    """Have the run end before its first answer where a server refuses the temperature and nobody chose the target."""
    for model in work.models if work.asked is not None else ():
        if isinstance(model, OpenAIModel):
            model.contact.needs_temperature = True


def needs_turn(work: Prepared) -> bool:
    return any(map(_lacks_temperature, work.models))


def _lacks_temperature(model: Model) -> bool:
    return isinstance(model, OpenAIModel) and model.contact.lacks_temperature


def _weights(settings: Settings, items: Sequence[Item]) -> dict[str, Any]:
    """Return the items' weights in the target, for the plan: whole, so that a run needs no other file to go on."""
    weights, mix = settings["weights"], settings["mix"]
    check_one(weights, mix)
    if mix is not None:
        found = mixed(mix, [item.category for item in items])
        return {"source": f"mix {_file_name(mix)}", **packed(found)}
    if weights is None:
        return {}
    ids = [item.id for item in items]
    found = weights_of_items(weights, ids, lambda name: _metadata(items, name))
    return {"source": _file_name(weights), **packed(found)}


def _file_name(value: str) -> str:
    """Return a file's name without its folder: a plan does not depend on where files lie."""
    return Path(value).name if is_table(value) else value


def _metadata(items: Sequence[Item], name: str) -> list[Any]:
    known = dict.fromkeys(key for item in items for key in item.metadata)
    if name not in known:
        raise InvalidInput("weights", f"a file, or a field of the data ({did_you_mean(name, known)})", name)
    return [item.metadata.get(name) for item in items]


def circumstances_of(settings: Settings) -> dict[str, Any]:
    """Return the options that are no part of the plan."""
    shared = {name: settings[name] for name in CIRCUMSTANCES}
    patience = {"timeout": 120.0}
    own = [
        {**patience, **{name: one.options[name] for name in OF_A_CALL if name in one.options}}  # type: ignore[literal-required]
        for one in settings.candidates
    ]
    return {**shared, "candidates": own}


# -- what answers -----------------------------------------------------------------------------------------------------


def open_plan(
    plan: Plan, items: Sequence[Item], circumstances: Mapping[str, Any], functions: Functions | None = None
) -> Prepared:
    """Open the candidates and the scorer of a plan; what cannot work, or is not trusted, is refused here."""
    functions = functions or {}
    require(named_by_plan(plan, circumstances, functions), "the plan")
    limits = Limits(*(circumstances[name] for name in ("connections", "max_usd", "max_minutes")))
    prompts = tuple(map(prompt_of, plan.candidates))
    questions = questions_of(plan, items)
    scorers, judges = open_scorers(plan, questions, circumstances, prompts, functions)
    for prompt in prompts:
        prompt.messages(questions[0])
    if is_asked_outside(plan):
        exact = (build_scorer("exact"),)
        return Prepared(plan, items, NobodyToAsk(), exact, prompts, limits, circumstances)
    for spec in plan.candidates:
        if spec["model"].startswith(OUTSIDE) and "not_asked" not in spec:
            raise InvalidInput(
                "model", f"{OUTSIDE}NAME for all candidates of a run, or for none", spec["model"]
            )
    models = [
        open_candidate(spec, questions, circumstances, number, functions)
        for number, spec in enumerate(plan.candidates)
    ]
    _check_prices(limits, models, judges)
    in_batches = bool(circumstances.get("batch"))
    if in_batches:
        refuse_batches(models)
        limits = replace(limits, call_usd=_most_usd(plan, models, prompts, items))
    circumstances = {**circumstances, "priced_by": priced_by(*models, *judges)}
    choose = [spec["prompt"].get("choose") == BY_LOGPROBS for spec in plan.candidates]
    steady = [repeats_itself(spec) and plan.target != "expected" for spec in plan.candidates]
    served = tuple(Counter[str]() for _ in models)
    scoring = tuple(map(answering, scorers))
    executor: Executor = Callers(
        questions, prompts, models, scoring, judges, choose, names=plan.names, steady=steady, served=served
    )
    whole = replace(plan, scorer=whole_scorer(plan, scorers[0]))
    samples = Samples.of(plan.scorer)
    if "cluster" in plan.scorer:
        executor = Clustered.of(executor, items)
    if samples.count > 1:
        at_once = LARGEST_ROUND * samples.count if in_batches else limits.connections
        executor = Sampled(executor, samples, asyncio.Semaphore(at_once))
    return Prepared(
        whole,
        items,
        executor,
        scoring,
        prompts,
        limits,
        circumstances,
        functions,
        served=served,
        models=tuple(models),
    )


def _most_usd(
    plan: Plan, models: Sequence[Model], prompts: Sequence[Prompt], items: Sequence[Item]
) -> float | None:
    """Guess what the dearest call costs, on the far side: a round goes out before any call has told."""
    costs = []
    for spec, model, prompt in zip(plan.candidates, models, prompts, strict=True):
        chats = [prompt.messages(item) for item in items[:: max(len(items) // MOST_PROMPTS, 1)]]
        letters = max(sum(len(turn["content"]) for turn in chat) for chat in chats)
        longest = spec["settings"].get("max_tokens") or LONG_ANSWER
        price = getattr(model, "price", FREE)
        costs.append(None if price is None else price.cost(Tokens(letters // 3 + 1, longest)))
    return None if None in costs else max(cost for cost in costs if cost is not None)


def leave_unasked(plan: Plan, items: Sequence[Item]) -> Prepared:
    """Return a run that goes on with the answers it has: nobody is asked."""
    circumstances = {**dict.fromkeys(CIRCUMSTANCES), "connections": 8}
    prompts = tuple(map(prompt_of, plan.candidates))
    return Prepared(plan, items, NobodyToAsk(), (build_scorer("exact"),), prompts, Limits(), circumstances)


def named_by_plan(
    plan: Plan, circumstances: Mapping[str, Any], functions: Functions | None = None
) -> tuple[Named, ...]:
    """Return what opening the candidates and the scorer of a plan would run or call, but for given functions."""
    moved = circumstances.get("base_url")
    asked = [
        spec
        for spec in plan.candidates
        if spec.get("code", "") not in (functions or {}) and "not_asked" not in spec
    ]
    named = (one for spec in asked for one in named_by_candidate(spec, moved))
    return (*named, *named_by_scoring(plan, circumstances, functions))


def priced_by(*models: Model) -> str:
    """Say which tables or flags the prices of models were taken from; empty where none was needed."""
    prices = [getattr(model, "price", None) for model in models]
    return ", ".join(dict.fromkeys(price.source for price in prices if price is not None and price.source))


def _check_prices(limits: Limits, models: Sequence[Model], judges: Sequence[Model]) -> None:
    if limits.max_usd is None:
        return
    if any(getattr(model, "price", FREE) is None for model in models):
        raise InvalidInput("max_usd", "given with --price-in and --price-out for this model", limits.max_usd)
    if any(getattr(judge, "price", FREE) is None for judge in judges):
        needed = "given with --judge-price-in and --judge-price-out for the judge"
        raise InvalidInput("max_usd", needed, limits.max_usd)


# -- answers that cost nothing ---------------------------------------------------------------------------------------


KINDS = ("estimate", "compare", "rank", "tasks")
"""The kinds of question that take the whole."""

HOW_MUCH = {"estimate": Estimate, "compare": Difference}
"""Of those that may be about a population, the goal that asks how much."""

AT_ONCE = 500
"""Answers in hand at a time: written together, thousands take seconds."""


def use_all(settings: Settings, n_items: int) -> Settings:
    """Return settings that ask every item, where that costs nothing and nobody says otherwise.

    The result is then exact for the target `benchmark`. A population is estimated as well as the sample allows: its
    bets have all of it as their horizon, and a goal that is finer.
    """
    if not answers_are_free(settings) or settings["max_calls"] is not None:
        return settings
    options = {**settings.options, "method": Whole.name, "history": ["none"], "connections": AT_ONCE}
    if settings["target"] != "population":
        return replace(settings, options=options)
    usual = settings.goal == goal_of(settings.kind, {}, settings.candidates)
    goal = HOW_MUCH[settings.kind](float(f"{0.1 / sqrt(n_items):.1g}")) if usual else settings.goal
    return replace(settings, goal=goal, options={**options, "max_calls": n_items})


def answers_are_free(settings: Settings) -> bool:
    """Tell whether no call is made for a question about these candidates."""
    if (
        settings.kind not in KINDS
        or settings["method"] not in (None, "auto")
        or settings["target"] == "expected"
    ):
        return False
    scorer = settings["scorer"]
    name = "" if scorer is None or callable(scorer) else scorer_name(scorer)
    paid = bool(settings["judge"]) or name in (*JUDGES, People.name)
    names = [one.model_name for one in settings.candidates]
    return not paid and all(is_given(name) or name.startswith(RUN) for name in names)
