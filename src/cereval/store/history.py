"""Read the scores of earlier runs on the same data, in two queries whatever their number."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from sqlalchemy import Connection, Select, and_, case, func, select

from cereval.errors import StoreError
from cereval.store.base import PastScores
from cereval.store.cells import checked, whole
from cereval.store.schema import answers, draws, runs

_ANSWERED = and_(answers.c.run_id == draws.c.run_id, answers.c.draw == draws.c.draw)


def past_scores(
    connection: Connection,
    data_hash: str,
    wanted: Collection[str] | None,
    cutoffs: Mapping[str, int] | None,
    place: str,
) -> PastScores:
    """Read the scores of all draws before each run's cutoff; runs without any are left out, unless asked for."""
    models = _models(connection, data_hash)
    if cutoffs is not None:
        _check(cutoffs, models)
    used = first_open(connection, data_hash, place) if cutoffs is None else dict(cutoffs)
    kept = [run for run in models if run in used and (wanted is None or run in wanted)]
    if cutoffs is not None:
        kept = list(cutoffs)
    columns = {run: column for column, run in enumerate(kept)}
    told = checked(connection.execute(_scores(data_hash)).mappings().all(), place)
    rows = [
        (row["item"], columns[row["run_id"]], row["score"])
        for row in told
        if row["run_id"] in columns and row["draw"] < used[row["run_id"]]
    ]
    table = PastScores(
        runs=tuple(kept),
        models=tuple(models[run] for run in kept),
        cutoffs={run: used[run] for run in kept},
        items=np.array([item for item, _, _ in rows], dtype=np.int64),
        columns=np.array([column for _, column, _ in rows], dtype=np.int64),
        values=np.array([score for _, _, score in rows], dtype=np.float64),
    )
    return table if cutoffs is not None else _without_empty(table)


def _models(connection: Connection, data_hash: str) -> dict[str, str]:
    query = select(runs.c.run_id, runs.c.model).where(runs.c.data_hash == data_hash)
    rows = connection.execute(query.order_by(runs.c.created_at, runs.c.run_id))
    return {row.run_id: row.model for row in rows}


def first_open(connection: Connection, data_hash: str, place: str) -> dict[str, int]:
    """Find the first draw without an answer of each run that has a score: what lies before it can never change."""
    waiting = func.min(case((answers.c.draw.is_(None), draws.c.draw)))
    query = (
        select(draws.c.run_id, func.coalesce(waiting, func.max(draws.c.draw) + 1))
        .select_from(draws.join(runs, runs.c.run_id == draws.c.run_id).outerjoin(answers, _ANSWERED))
        .where(runs.c.data_hash == data_hash)
        .group_by(draws.c.run_id)
        .having(func.count(answers.c.score) > 0)
    )
    return {run: whole(cutoff, "draw", place) for run, cutoff in connection.execute(query)}


def _scores(data_hash: str) -> Select[Any]:
    joined = draws.join(runs, runs.c.run_id == draws.c.run_id).join(answers, _ANSWERED)
    return (
        select(draws.c.run_id, draws.c.draw, draws.c.item, answers.c.score)
        .select_from(joined)
        .where(runs.c.data_hash == data_hash, answers.c.score.is_not(None))
        .order_by(draws.c.run_id, draws.c.draw)
    )


def _without_empty(past: PastScores) -> PastScores:
    """Return the same without the runs that have no score."""
    there = np.unique(past.columns)
    numbers = {int(old): new for new, old in enumerate(there)}
    return PastScores(
        runs=tuple(past.runs[old] for old in numbers),
        models=tuple(past.models[old] for old in numbers),
        cutoffs={past.runs[old]: past.cutoffs[past.runs[old]] for old in numbers},
        items=past.items,
        columns=np.array([numbers[int(old)] for old in past.columns], dtype=np.int64),
        values=past.values,
    )


def _check(cutoffs: Mapping[str, int], models: Mapping[str, Any]) -> None:
    missing = [run for run in cutoffs if run not in models]
    if missing:
        raise StoreError(
            f"the run {missing[0]} is history of this one but not in this store; use the store it was made in"
        )
