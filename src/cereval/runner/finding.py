"""Find in the store the questions of a run, the run that a request goes on with, and those that it learns from.

Items are found by their content, in whatever file they were asked from: a run on another version of a data set knows
the questions that both have; edited and new ones lose only themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cereval.arrays import Floats, Ints
from cereval.datasets.base import Item, content_hash
from cereval.errors import StoreError
from cereval.forecasts.pool import content_keys
from cereval.methods.registry import MOST_FORECAST
from cereval.plan import PLAN_FORMAT, Known, Plan
from cereval.questions import kind_of
from cereval.questions.base import Kind
from cereval.store.base import AT_WORK, ENDED, Run, Store, moment

LEAST_SHARED = 10
"""Questions that other data must share for its runs to be history: a few common ones teach nothing."""


def stored_items(plan: Plan, store: Store) -> Sequence[Item]:
    return items_of(plan.data_hash, store, f"run {plan.run_id}")


def items_of(data_hash: str, store: Store, whose: str) -> Sequence[Item]:
    items = kept_items(data_hash, store)
    if content_hash(items) != data_hash:
        raise StoreError(f"the items of {whose} in the store were changed; start a new run")
    return items


def kept_items(data_hash: str, store: Store) -> tuple[Item, ...]:
    """Return the items that stand under a hash, whether or not they still have it."""
    return tuple(map(Item.from_dict, store.items(data_hash)))


def past_of(plan: Plan, items: Sequence[Item], store: Store) -> Mapping[str, int]:
    """Return the earlier runs on these items that a plan may learn from, and how far each had come.

    Scores of one candidate each, its own earlier ones among them: an earlier checkpoint, prompt or night says most.
    They are forecasts, fixed before the first draw, so that validity needs nothing of them; the draws are fresh, since
    the history is part of what they are seeded with.
    """
    own = [] if kind_of(plan).learns_from_own else [spec["model"] for spec in plan.candidates]
    found: dict[str, int] = {}
    for data_hash in data_sharing(plan, items, store, LEAST_SHARED):
        runs, known = teachers(store, data_hash, own), store.cutoffs(data_hash)
        found |= {run: known[run] for run in runs if known.get(run)}
    return found


def data_sharing(plan: Plan, items: Sequence[Item], store: Store, least: int = 1) -> list[str]:
    """Return the plan's data set, and those in the store that share at least so many of its items."""
    shared = store.sharing(keys_of(items))
    others = [data for data, count in shared.items() if count >= least and data != plan.data_hash]
    return [plan.data_hash, *sorted(others)]


def keys_of(items: Sequence[Item]) -> list[str]:
    return content_keys(item.as_dict() for item in items)


def teachers(store: Store, data_hash: str, own: Sequence[str]) -> tuple[str, ...]:
    """Runs on a data set whose scores are those of one model, none of the models named `own`."""
    plans = [(run, values) for run, values in store.plans(data_hash) if values.get("format") == PLAN_FORMAT]
    return tuple(
        run
        for run, values in plans
        if not any(same_model(Plan.from_dict(values).candidates[0]["model"], name) for name in own)
    )


def same_model(stored: str, model: str) -> bool:
    """Tell whether a run's model is another's, with or without its provider.

    >>> same_model("openai/gpt-4o", "gpt-4o"), same_model("gpt-4o", "gpt-4")
    (True, False)
    """
    return model in (stored, stored.rpartition("/")[2])


def past_table(plan: Plan, items: Sequence[Item], store: Store) -> Floats:
    """Items x the runs of a plan's history, by run id; NaN where one was not asked."""
    columns = {run: number for number, run in enumerate(sorted(plan.history))}
    data = dict.fromkeys(columns, plan.data_hash) | dict(store.data_of(columns))
    table = np.full((plan.n_items, len(columns)), np.nan)
    for data_hash in dict.fromkeys(data[run] for run in columns):
        cutoffs = {run: plan.history[run] for run in columns if data[run] == data_hash}
        past = store.past_scores(data_hash, cutoffs)
        known = places(plan, items, data_hash, store)
        if len(past.items) and not 0 <= int(past.items.min()) <= int(past.items.max()) < len(known):
            raise StoreError(
                f"an earlier run drew items that its data {data_hash} does not have in the store"
            )
        rows = known[past.items]
        numbers = np.array([columns[run] for run in cutoffs], dtype=np.int64)[past.columns]
        there = rows >= 0
        table[rows[there], numbers[there]] = past.values[there]
    return table


def places(plan: Plan, items: Sequence[Item], data_hash: str, store: Store) -> Ints:
    """For each item of a data set in the store its number among the plan's items, -1 where they do not have it."""
    if data_hash == plan.data_hash:
        return np.arange(plan.n_items)
    numbers = {key: number for number, key in enumerate(keys_of(items))}
    return np.array([numbers.get(key, -1) for key in store.content_keys(data_hash)], dtype=np.int64)


# -- the run that a request goes on with ------------------------------------------------------------------------------


END_OF_TIME = "9999"
"""Later than every moment that a store has."""


def run_ids(plan: Plan) -> tuple[str, ...]:
    return tuple(dict.fromkeys([plan.run_id, *(part.run_id for part in kind_of(plan).parts(plan))]))


def planned(
    plan: Plan,
    items: Sequence[Item],
    store: Store,
    *,
    history: bool,
    fresh: bool = False,
    since: float | None = None,
    lessons: Mapping[str, int] | None = None,
    taught: Mapping[str, int] | None = None,
) -> Plan:
    """Return the plan with what is known of its items now; an earlier run of the same request is continued.

    fresh: unless it has ended, or was killed, for then the question is asked anew; since: unless it began before that
    moment, in seconds since 1970. Of several the newest is continued. lessons: the earlier runs that may be learnt
    from, and how many draws of each; None: all that the store has. taught: runs that are history in any case.
    """
    before = [one for one in earlier_runs(plan, store) if history or taught or not one.history]
    too_old = "" if since is None else moment(since)
    going = [one for one in before if not _is_over(plan, store.run(one.run_id), fresh, too_old)]
    if going:
        return going[-1]
    if kind_of(plan).learns and learns(plan):
        past = past_of(plan, items, store) if history and forecasts_pay(plan) else {}
        if lessons is not None:
            past = {run: min(lessons[run], count) for run, count in past.items() if lessons.get(run)}
        plan = _informed(plan, items, {**past, **(taught or {})})
    if plan.run_id in {one.run_id for one in before}:
        plan = replace(plan, attempt=1 + max(one.attempt for one in before))
    return _with_parts_of_its_own(plan, store, too_old) if fresh or too_old else plan


def _informed(plan: Plan, items: Sequence[Item], past: Mapping[str, int]) -> Plan:
    kind = kind_of(plan)
    names = ["groups"] if _groups(kind, plan, items) is not None else []
    names += ["history"] if past else []
    return replace(plan, side_information=tuple(names), history=dict(sorted(past.items())))


def _with_parts_of_its_own(plan: Plan, store: Store, too_old: str) -> Plan:
    """Return a plan none of whose parts was begun by another run, or too long ago: they are shared by their seed."""
    there = {run.run_id: run for run in store.runs()} if len(run_ids(plan)) > 1 else {}
    while any(run in there and there[run].created_at < (too_old or END_OF_TIME) for run in run_ids(plan)[1:]):
        plan = replace(plan, attempt=plan.attempt + 1)
    return plan


def _is_over(plan: Plan, run: Run, fresh: bool, too_old: str) -> bool:
    """Tell whether a run does not answer a plan's question any more: a fresh one is wanted, or a later one.

    Also one that was killed: its answers may be those of another checkpoint. `resume` goes on with it, and so does the
    same command where it names the seed, for then it asks for the same questions.
    """
    if run.status in AT_WORK:
        return False
    return run.created_at < too_old or (fresh and (run.status in ENDED or plan.seed_drawn))


def left_behind(plan: Plan, store: Store) -> Run | None:
    """Return the newest run of the same request, if it is unfinished and not gone on with by this plan."""
    before = [store.run(one.run_id) for one in earlier_runs(plan, store) if one.run_id != plan.run_id]
    return before[-1] if before and before[-1].status != "finished" else None


def earlier_runs(plan: Plan, store: Store) -> list[Plan]:
    plans = [values for _, values in store.plans(plan.data_hash) if values.get("format") == PLAN_FORMAT]
    return [one for one in map(Plan.from_dict, plans) if one.request == plan.request]


def learns(plan: Plan) -> bool:
    if plan.tasks or plan.method in ("active", "memory", "partition", "oracle", "cer-eval", "pairs"):
        return True
    return plan.method == "auto" and forecasts_pay(plan)


def forecasts_pay(plan: Plan) -> bool:
    """Tell whether forecasts of the items help: not of a population, nor of a pool so large that they take longer than
    the calls that they save."""
    return plan.target != "population" and (plan.method != "auto" or plan.n_items <= MOST_FORECAST)


def known_items(plan: Plan, items: Sequence[Item], store: Store) -> Known:
    """Return what a plan says is known, taken from the items and the store, as it was when the run started."""
    groups = _groups(kind_of(plan), plan, items) if "groups" in plan.side_information else None
    if "history" not in plan.side_information:
        return Known(groups)
    return Known(groups, past_table(plan, items, store))


def _groups(kind: Kind, plan: Plan, items: Sequence[Item]) -> Any:
    return kind.groups(plan, tuple(item.category for item in items))
