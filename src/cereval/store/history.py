"""The scores of earlier runs on the same data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sqlalchemy import Connection, and_, func, select

from cereval.errors import StoreError
from cereval.store.base import PastScores
from cereval.store.schema import answers, draws, runs


def past_scores(
    connection: Connection, data_hash: str, exclude: str | None, cutoffs: Mapping[str, int] | None
) -> PastScores:
    """Scores of all draws before each run's cutoff; runs without any are left out."""
    models = _models(connection, data_hash, exclude)
    if cutoffs is not None:
        _check(cutoffs, models)
        models = {run: models[run] for run in cutoffs}
    used = {run: first_open(connection, run) for run in models} if cutoffs is None else dict(cutoffs)
    found = [(run, _scores(connection, run, cutoff)) for run, cutoff in used.items()]
    kept = [(run, scores) for run, scores in found if scores or cutoffs is not None]
    flat = [(item, column, score) for column, (_, scores) in enumerate(kept) for item, score in scores]
    return PastScores(
        runs=tuple(run for run, _ in kept),
        models=tuple(models[run] for run, _ in kept),
        cutoffs={run: used[run] for run, _ in kept},
        items=np.array([item for item, _, _ in flat], dtype=np.int64),
        columns=np.array([column for _, column, _ in flat], dtype=np.int64),
        values=np.array([score for _, _, score in flat], dtype=np.float64),
    )


def first_open(connection: Connection, run_id: str) -> int:
    """The first draw of a run without an answer: what lies before it can never change."""
    answered = and_(answers.c.run_id == draws.c.run_id, answers.c.draw == draws.c.draw)
    waiting = (
        select(func.min(draws.c.draw))
        .select_from(draws.outerjoin(answers, answered))
        .where(draws.c.run_id == run_id, answers.c.draw.is_(None))
    )
    newest = select(func.coalesce(func.max(draws.c.draw), -1) + 1).where(draws.c.run_id == run_id)
    cutoff = connection.execute(waiting).scalar_one()
    return int(connection.execute(newest).scalar_one() if cutoff is None else cutoff)


def _models(connection: Connection, data_hash: str, exclude: str | None) -> dict[str, str]:
    query = select(runs.c.run_id, runs.c.model).where(runs.c.data_hash == data_hash)
    rows = connection.execute(query.order_by(runs.c.created_at, runs.c.run_id))
    return {run: model for run, model in rows if run != exclude}


def _scores(connection: Connection, run_id: str, cutoff: int) -> list[tuple[int, float]]:
    query = (
        select(draws.c.item, answers.c.score)
        .join(answers, and_(answers.c.run_id == draws.c.run_id, answers.c.draw == draws.c.draw))
        .where(draws.c.run_id == run_id, draws.c.draw < cutoff, answers.c.score.is_not(None))
        .order_by(draws.c.draw)
    )
    return [(item, score) for item, score in connection.execute(query)]


def _check(cutoffs: Mapping[str, int], models: Mapping[str, Any]) -> None:
    missing = [run for run in cutoffs if run not in models]
    if missing:
        raise StoreError(
            f"the run {missing[0]} is history of this one but not in this store; use the store it was made in"
        )
