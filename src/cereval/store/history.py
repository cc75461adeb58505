"""Read the scores of earlier runs on the same data, one short query for each run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from sqlalchemy import Connection, and_, bindparam, case, func, select

from cereval.errors import StoreError
from cereval.store.base import PastScores
from cereval.store.cells import LARGEST, checked, read, whole
from cereval.store.schema import answers, draws, runs

_ANSWERED = and_(answers.c.run_id == draws.c.run_id, answers.c.draw == draws.c.draw)

_SCORES = (
    select(draws.c.item, answers.c.score)
    .select_from(draws.join(answers, _ANSWERED))
    .where(draws.c.run_id == bindparam("run"), draws.c.draw < bindparam("cutoff"))
    .where(answers.c.score.is_not(None))
    .order_by(draws.c.draw)
)


def past_scores(
    connection: Connection,
    data_hash: str,
    wanted: Collection[str] | None,
    cutoffs: Mapping[str, int] | None,
    place: str,
) -> PastScores:
    """Read the scores of all draws before each run's cutoff; runs without any are left out, unless asked for."""
    models = _models(connection, data_hash, place)
    if cutoffs is None:
        used = first_open(connection, data_hash, place)
        kept = [run for run in models if run in used and (wanted is None or run in wanted)]
    else:
        _check(cutoffs, models)
        used, kept = dict(cutoffs), list(cutoffs)
    # One array a run: a loop over every score would take longer than reading them.
    tables = [_scores(connection, run, used[run], place) for run in kept]
    if cutoffs is None:
        there = [number for number, table in enumerate(tables) if len(table)]
        kept, tables = [kept[number] for number in there], [tables[number] for number in there]
    scores = np.vstack([np.empty((0, 2)), *tables])
    return PastScores(
        runs=tuple(kept),
        models=tuple(models[run] for run in kept),
        cutoffs={run: used[run] for run in kept},
        items=scores[:, 0].astype(np.int64),
        columns=np.repeat(np.arange(len(kept)), [len(table) for table in tables]).astype(np.int64),
        values=scores[:, 1],
    )


def _scores(connection: Connection, run: str, cutoff: int, place: str) -> Any:
    """Return the items and scores of one run, two columns."""
    found = connection.execute(_SCORES, {"run": run, "cutoff": cutoff})
    # Plain tuples of the driver: a million rows of the library would take twice as long.
    rows = found.cursor.fetchall() if found.cursor is not None else []
    try:
        table = np.array(rows, dtype=np.float64).reshape(-1, 2)
    except (TypeError, ValueError):
        _refuse_odd(rows, place)
        raise
    items = table[:, 0]
    if not (
        np.isfinite(table).all() and (np.abs(items) <= LARGEST).all() and (items == np.rint(items)).all()
    ):
        _refuse_odd(rows, place)
    return table


def _refuse_odd(rows: Any, place: str) -> None:
    checked([{"item": item, "score": score} for item, score in rows], _SCORES, place)
    for item, _ in rows:
        whole(item, "item", place)


def _models(connection: Connection, data_hash: str, place: str) -> dict[str, str]:
    query = select(runs.c.run_id, runs.c.model).where(runs.c.data_hash == data_hash)
    rows = read(connection, query.order_by(runs.c.created_at, runs.c.run_id), place)
    return {row["run_id"]: row["model"] for row in rows}


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


def _check(cutoffs: Mapping[str, int], models: Mapping[str, Any]) -> None:
    missing = [run for run in cutoffs if run not in models]
    if missing:
        raise StoreError(
            f"the run {missing[0]} is history of this one but not in this store; use the store it was made in"
        )
