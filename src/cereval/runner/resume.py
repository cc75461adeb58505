"""Runs that are in the store, ready to go on: as they were, with more data, or with another scorer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cereval.datasets.base import DataSet, content_hash
from cereval.datasets.items import Fields
from cereval.datasets.read import grown_by, named, read_dataset
from cereval.errors import InvalidInput, Misuse, StoreError, shown
from cereval.plan import DRAWN, Known, Plan, repeats_itself
from cereval.questions import kind_of
from cereval.questions.log import Change
from cereval.questions.session import fresh_seed
from cereval.runner.candidates import Functions, prompt_of
from cereval.runner.executor import NobodyToAsk
from cereval.runner.finding import planned, stored_items
from cereval.runner.limits import Limits
from cereval.runner.prepare import CIRCUMSTANCES, Prepared, named_by_plan, open_plan
from cereval.runner.samples import Samples
from cereval.runner.scoring import named_by_scoring, need_answers, open_scorers, rescoring_spec, whole_scorer
from cereval.runner.start import reader
from cereval.runner.trust import Named, named_by_judges, named_by_model, named_by_scorer, remember, require
from cereval.scorers.people import answering
from cereval.settings import AgainOptions, FieldOptions, check_options
from cereval.store.base import Run, Store, store_flag


def recall_run(
    run_id: str,
    store: Store,
    overrides: Mapping[str, Any],
    *,
    trust: bool = False,
    functions: Functions | None = None,
) -> Prepared:
    """Return a run as it was started, from the store alone; circumstances may be overridden.

    trust: confirm the code and the addresses that the stored plan names; else only what is trusted already is used.
    """
    run = store.run(run_id)
    plan = whole_plan(run)
    circumstances = circumstances_in(run.run_id, store, overrides)
    _require_trust(lambda: named_by_plan(plan, circumstances, functions), run.run_id, trust)
    return open_plan(plan, stored_items(plan, store), circumstances, functions)


def recall_with_change(
    run_id: str,
    store: Store,
    overrides: Mapping[str, Any],
    goal: Mapping[str, Any],
    max_calls: int | None,
    *,
    trust: bool = False,
    functions: Functions | None = None,
) -> tuple[Prepared, Change]:
    """Return a stored run, ready to go on with a new goal, a new budget, or as it was."""
    work = recall_run(run_id, store, overrides, trust=trust, functions=functions)
    if goal and not kind_of(work.plan).goal_may_change:
        raise InvalidInput("eps", "left out: only `run` and `gate` can change it on resume", goal.get("eps"))
    if goal or max_calls is not None:
        _check_newest(work.plan.run_id, store)
    return work, Change(0, 0, goal, Samples.of(work.plan.scorer).draws(max_calls))


def begin_again(
    run_id: str, store: Store, overrides: Mapping[str, Any], goal: Mapping[str, Any], *, trust: bool = False
) -> tuple[Prepared, Plan]:
    """Return a new run of the same question, with draws of its own: it uses the answers that the store has.

    After a small budget it takes fewer calls than going on, since bets are placed on the budget.
    """
    work = recall_run(run_id, store, overrides, trust=trust)
    old = work.plan
    if kind_of(old).grows:
        raise InvalidInput(
            "--new", "left out for growing data, whose versions go on from one another", run_id
        )
    max_calls = Samples.of(old.scorer).draws(overrides.get("max_calls"))
    bare = replace(
        old,
        goal=dict(goal or old.goal),
        seed=fresh_seed(),
        seed_source=DRAWN,
        max_calls=max_calls,
        history={},
        side_information=(),
        attempt=0,
        nonce="",
    )
    used_history = "history" in old.side_information
    return work, planned(bare, work.items, store, history=used_history)


def _check_newest(run_id: str, store: Store) -> None:
    """Refuse to change a run that another goes on from: its certificate is part of the other's."""
    for other, values in store.plans():
        if kind_of(values).before(values) == run_id:
            raise InvalidInput("RUN", f"the newest version: it was extended by run {other}", run_id)


def extend_run(
    run_id: str, store: Store, data: DataSet, overrides: Mapping[str, Any], *, trust: bool = False
) -> Prepared:
    """Return the next version of a run's data: its items and those of `data` that it does not have."""
    run = store.run(run_id)
    plan = stored_plan(run)
    if "sizes" not in plan.growth:
        raise InvalidInput("RUN", "a run that `cereval extend` started", run.run_id)
    items = stored_items(plan, store)
    examples = [str(example["id"]) for spec in plan.candidates for example in spec["prompt"]["examples"]]
    grown = grown_by(items, data, examples)
    need_answers(plan, grown[len(items) :], named(data.source))
    larger = replace(
        plan,
        data_hash=content_hash(grown),
        n_items=len(grown),
        data_name=f"{plan.data_name}, {named(data.source)}",
        growth={"sizes": [*plan.growth["sizes"], len(grown) - len(items)], "after": run.run_id},
        max_calls=overrides.get("max_calls"),
    )
    _check_extension(larger, store)
    given = {name: value for name, value in overrides.items() if name != "max_calls"}
    circumstances = circumstances_in(run.run_id, store, given)
    _require_trust(lambda: named_by_plan(larger, circumstances), run.run_id, trust)
    return open_plan(larger, grown, circumstances)


def new_items(
    file: str, options: Mapping[str, Any], data: DataSet | None = None
) -> tuple[DataSet, dict[str, Any]]:
    """Return the data of a new version, and what else is given for it: budgets, prices, an address.

    data: the file's, where it was read already.
    """
    fields = Fields(**{name: options.get(name) for name in FieldOptions.__annotations__})
    now = {name: options[name] for name in AgainOptions.__annotations__ if options.get(name) is not None}
    return data or read_dataset(file, fields, combined=True), now


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


def rescore_run(run_id: str, store: Store, wanted: Mapping[str, Any], *, trust: bool = False) -> Prepared:
    """Return a run with another scorer, on the answers that it has: nobody is asked but a judge."""
    run = store.run(run_id)
    plan = whole_plan(run)
    items = stored_items(plan, store)
    # No seal fixed this: without its nonce it does not say so.
    other = replace(plan, scorer=rescoring_spec(plan.scorer, wanted), max_calls=None, nonce="")
    prices = {name: wanted.get(name) for name in ("judge_price_in", "judge_price_out")}
    circumstances = circumstances_in(run.run_id, store, prices)
    typed = named_by_judges(wanted.get("judge"), wanted.get("judge_base_url"))
    remember(typed if wanted.get("scorer") is None else (*typed, *named_by_scorer(wanted["scorer"])))
    _require_trust(lambda: named_by_scoring(other, circumstances), run.run_id, trust)
    if "cluster" in plan.scorer:
        raise InvalidInput("RUN", "one without --cluster, whose answers are kept together", run.run_id)
    if not all(map(repeats_itself, plan.candidates)):
        raise InvalidInput(
            "RUN", "one at temperature 0: other answers are no facts about a model", run.run_id
        )
    prompts = tuple(map(prompt_of, plan.candidates))
    scorers, _ = open_scorers(other, items, circumstances, prompts)
    whole = replace(other, scorer=whole_scorer(other, scorers[0]))
    scoring = tuple(map(answering, scorers))
    return Prepared(whole, items, NobodyToAsk(), scoring, prompts, Limits(), circumstances)


def whole_plan(run: Run) -> Plan:
    """Return the plan of a stored run; refused where the run is a part of another, which decides what is asked."""
    plan = stored_plan(run)
    refusal = kind_of(plan).refusal(plan)
    if refusal is not None:
        raise InvalidInput("RUN", refusal, run.run_id)
    return plan


def stored_plan(run: Run) -> Plan:
    """Return the plan of a stored run; refused where it is not the one that the run's id was made from."""
    plan = Plan.from_dict(run.plan)
    if plan.run_id != run.run_id:
        raise StoreError(
            f"the plan of run {shown(run.run_id)} in the store was changed: it is that of {plan.run_id}; nothing was "
            "run or sent. Start a new run"
        )
    return plan


def _require_trust(read: Callable[[], tuple[Named, ...]], run_id: str, trust: bool) -> None:
    """Confirm what a stored plan names where the user says so; else refuse what is not trusted yet."""
    try:
        names = read()
    except (AttributeError, KeyError, TypeError):
        raise StoreError(f"the plan of run {run_id} in the store is damaged; start a new run") from None
    if trust:
        remember(names)
    require(names, f"run {run_id}")


# -- circumstances ----------------------------------------------------------------------------------------------------


def circumstances_in(run_id: str, store: Store, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return those that a run last had, but for what is given now."""
    given = {key: value for key, value in overrides.items() if value is not None}
    remember(named_by_model(None, given.get("base_url")))
    last = last_circumstances(run_id, store)
    kept = check_options(
        {name: last[name] for name in AgainOptions.__annotations__ if name in last}, AgainOptions
    )
    others = {
        name: last.get(name)
        for name in (*CIRCUMSTANCES, "candidates")
        if name not in AgainOptions.__annotations__
    }
    # The moment that a fleet's answers must not be older than.
    since = {"since": last["since"]} if isinstance(last.get("since"), float) else {}
    usual = {**dict.fromkeys(CIRCUMSTANCES), "connections": 8, "candidates": None}
    found = {**usual, **others, **kept, **since, **given}
    found["candidates"] = _checked_calls(found["candidates"], run_id)
    return found


def _checked_calls(candidates: Any, run_id: str) -> list[dict[str, Any]]:
    parts = candidates or [{}]
    source = f"the store, run {run_id}"
    return [{"timeout": 120.0, **check_options(one, AgainOptions, source)} for one in parts]


def last_circumstances(run_id: str, store: Store) -> Mapping[str, Any]:
    """Return those of the last calls; a run that needed none has those of the run that it goes on from."""
    running: list[Mapping[str, Any]]
    running = [event["detail"] for event in store.events(run_id) if event["status"] == "running"]
    plan = store.run(run_id).plan
    before = kind_of(plan).before(plan)
    if running or before is None:
        return running[-1] if running else {}
    return last_circumstances(before, store)
