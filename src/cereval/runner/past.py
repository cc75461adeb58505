"""Say what earlier runs know of a plan's items: found by the items' content, in whatever file they were asked from.

A run on another version of a data set knows the questions that both have; edited and new ones lose only themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cereval.datasets.base import Item
from cereval.errors import StoreError
from cereval.forecasts.pool import content_keys
from cereval.plan import PLAN_FORMAT, Plan
from cereval.questions import kind_of
from cereval.store.base import Store

LEAST_SHARED = 10
"""Questions that other data must share for its runs to be history: a few common ones teach nothing."""


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
    """Return the items' keys, by which other data sets are searched."""
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


def past_table(plan: Plan, items: Sequence[Item], store: Store) -> NDArray[np.float64]:
    """Items x the runs of a plan's history, by run id; NaN where one was not asked."""
    columns = {run: number for number, run in enumerate(sorted(plan.history))}
    data = dict.fromkeys(columns, plan.data_hash) | dict(store.data_of(columns))
    table = np.full((plan.n_items, len(columns)), np.nan)
    for data_hash in dict.fromkeys(data[run] for run in columns):
        cutoffs = {run: plan.history[run] for run in columns if data[run] == data_hash}
        past = store.past_scores(data_hash, cutoffs=cutoffs)
        known = places(plan, items, data_hash, store)
        if len(past.items) and not 0 <= int(past.items.min()) <= int(past.items.max()) < len(known):
            raise StoreError(
                f"an earlier run drew items that its data {data_hash} does not have in the store"
            )
        rows = known[past.items]
        numbers = np.array([columns[run] for run in past.runs], dtype=np.int64)[past.columns]
        there = rows >= 0
        table[rows[there], numbers[there]] = past.values[there]
    return table


def places(plan: Plan, items: Sequence[Item], data_hash: str, store: Store) -> NDArray[np.int64]:
    """For each item of a data set in the store its number among the plan's items, -1 where they do not have it."""
    if data_hash == plan.data_hash:
        return np.arange(plan.n_items)
    numbers = {key: number for number, key in enumerate(keys_of(items))}
    return np.array([numbers.get(key, -1) for key in store.content_keys(data_hash)], dtype=np.int64)
