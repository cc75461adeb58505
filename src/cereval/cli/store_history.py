"""Earlier runs in the results database as history of a replay or of a comparison of recorded scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cereval.cli.stores import existing_store
from cereval.errors import InvalidInput

if TYPE_CHECKING:
    from cereval.store.base import Run, Store

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class StoredScores:
    """Items x earlier runs, NaN where one was not asked; notes on the runs used and left out."""

    scores: Floats
    notes: tuple[str, ...]


def stored_scores(url: str | None, items: Sequence[str], evaluated: Sequence[str]) -> StoredScores:
    """The runs on data that share items with the table, by the items' ids; never runs of the models evaluated.

    Comparisons are left out too: their scores are differences, perhaps of the very models.
    """
    store = existing_store(url)
    try:
        rows = {item: row for row, item in enumerate(items)}
        runs = store.runs()
        single = {run.run_id for run in runs if not _is_comparison(run)}
        parts = [
            _on_data(store, data, rows, evaluated, single)
            for data in dict.fromkeys(r.data_hash for r in runs)
        ]
    finally:
        store.close()
    scores = np.hstack([np.empty((len(items), 0)), *(scores for scores, _ in parts)])
    if not scores.shape[1]:
        raise InvalidInput("--history", "runs of other models on the items of SCORES", "store")
    left_out, names = sum(own for _, own in parts), " or ".join(map(repr, evaluated))
    notes = [f"history: {scores.shape[1]} earlier runs from the store, {np.isfinite(scores).sum():,} answers"]
    notes += [f"history: {left_out} runs of {names} itself were left out"] if left_out else []
    if len(single) < len(runs):
        notes.append(f"history: {len(runs) - len(single)} comparisons were left out")
    return StoredScores(scores, tuple(notes))


def _on_data(
    store: Store, data_hash: str, rows: Mapping[str, int], evaluated: Sequence[str], single: Set[str]
) -> tuple[Floats, int]:
    """The other models' scores on one data set, in the table's rows; how many runs were those evaluated."""
    known = [str(item["id"]) for item in store.items(data_hash)]
    places = np.array([rows.get(item, -1) for item in known], dtype=np.int64)
    past = store.past_scores(data_hash)
    alone = [column for column, run in enumerate(past.runs) if run in single]
    others = [column for column in alone if not any(_same(past.models[column], model) for model in evaluated)]
    scores = np.full((len(rows), len(others)), np.nan)
    shared = places >= 0
    scores[places[shared]] = past.table(len(known))[shared][:, others]
    seen = np.isfinite(scores).any(axis=0)
    return scores[:, seen], len(alone) - len(others)


def _is_comparison(run: Run) -> bool:
    model = run.plan["model"]
    return isinstance(model, Mapping) and "second" in model


def _same(stored: str, model: str) -> bool:
    """Whether a run's model is the column's, with or without its provider.

    >>> _same("openai/gpt-4o", "gpt-4o"), _same("gpt-4o", "gpt-4")
    (True, False)
    """
    return model in (stored, stored.rpartition("/")[2])
