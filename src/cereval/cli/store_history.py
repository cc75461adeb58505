"""Earlier runs in the results database as history of a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cereval.cli.stores import existing_store
from cereval.errors import InvalidInput

if TYPE_CHECKING:
    from cereval.store.base import Store

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class StoredScores:
    """Items x earlier runs, NaN where one was not asked; notes on the runs used and left out."""

    scores: Floats
    notes: tuple[str, ...]


def stored_scores(url: str | None, items: Sequence[str], model: str) -> StoredScores:
    """The runs on data that share items with the table, by the items' ids; never runs of the model itself."""
    store = existing_store(url)
    try:
        rows = {item: row for row, item in enumerate(items)}
        parts = [
            _on_data(store, data, rows, model) for data in dict.fromkeys(r.data_hash for r in store.runs())
        ]
    finally:
        store.close()
    scores = np.hstack([np.empty((len(items), 0)), *(scores for scores, _ in parts)])
    if not scores.shape[1]:
        raise InvalidInput("--history", "runs of other models on the items of SCORES", "store")
    left_out = sum(own for _, own in parts)
    notes = [f"history: {scores.shape[1]} earlier runs from the store, {np.isfinite(scores).sum():,} answers"]
    notes += [f"history: {left_out} runs of {model!r} itself were left out"] if left_out else []
    return StoredScores(scores, tuple(notes))


def _on_data(store: Store, data_hash: str, rows: Mapping[str, int], model: str) -> tuple[Floats, int]:
    """The other models' scores on one data set, in the table's rows; how many runs were its own."""
    known = [str(item["id"]) for item in store.items(data_hash)]
    places = np.array([rows.get(item, -1) for item in known], dtype=np.int64)
    past = store.past_scores(data_hash)
    others = [run for run, name in enumerate(past.models) if not _same(name, model)]
    scores = np.full((len(rows), len(others)), np.nan)
    shared = places >= 0
    scores[places[shared]] = past.table(len(known))[shared][:, others]
    seen = np.isfinite(scores).any(axis=0)
    return scores[:, seen], len(past.models) - len(others)


def _same(stored: str, model: str) -> bool:
    """Whether a run's model is the column's, with or without its provider.

    >>> _same("openai/gpt-4o", "gpt-4o"), _same("gpt-4o", "gpt-4")
    (True, False)
    """
    return model in (stored, stored.rpartition("/")[2])
