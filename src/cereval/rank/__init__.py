"""`rank`: which of many models are better, on shared items, with as few calls as a certified order takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cereval.errors import InvalidInput
from cereval.goals.ranking import Beats, Order, RankGoal, Top
from cereval.ledger import whole
from cereval.rank.ranking import ModelInterval, Ranking
from cereval.rank.rounds import RankDraw
from cereval.rank.session import RankSession

__all__ = ["Beats", "ModelInterval", "Order", "RankDraw", "RankSession", "Ranking", "Top", "rank"]

Floats = NDArray[np.float64]


def rank(
    scores: ArrayLike,
    *,
    goal: RankGoal | None = None,
    models: Sequence[str] | None = None,
    confidence: float = 0.95,
    budget: int | None = None,
    batch: int = 64,
    seed: int = 0,
) -> Ranking:
    """Ranks the columns of `scores` (items x models, in [0, 1]), asking only for the scores it needs.

    `batch` draws are in flight at a time; the result does not depend on it.

    >>> rng = np.random.default_rng(0)
    >>> scores = rng.uniform(size=(500, 4)) < [0.8, 0.5, 0.5, 0.2]
    >>> ranking = rank(scores, goal=Top(1, within=0.02), models=["a", "b", "c", "d"])
    >>> ranking.winners, ranking.stopped, ranking.calls < 500
    (('a',), 'goal', True)
    """
    values = checked_table(scores)
    names = [f"model {i}" for i in range(values.shape[1])] if models is None else list(models)
    if len(names) != values.shape[1]:
        raise InvalidInput("models", f"one name for each of the {values.shape[1]} columns", names)
    session = RankSession(len(values), names, goal=goal, confidence=confidence, budget=budget, seed=seed)
    return drive(session, values, whole("batch", batch, 1))


def drive(session: RankSession, scores: Floats, batch: int = 64) -> Ranking:
    """Answers a session's questions from `scores` (NaN: the call fails) until it ends."""
    while not session.done:
        for draw in session.ask(batch):
            score = scores[draw.item, draw.model]
            if np.isnan(score):
                session.fail(draw)
            else:
                session.tell(draw, float(score))
    return session.result()


def checked_table(scores: ArrayLike) -> Floats:
    """Items x models, every score in [0, 1]."""
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput("scores", "a table of numbers in [0, 1]", scores) from error
    if values.ndim != 2 or not len(values) or values.shape[1] < 2:
        raise InvalidInput("scores", "items x models, two models or more", f"shape {values.shape}")
    if not ((values >= 0) & (values <= 1)).all():
        raise InvalidInput("scores", "in [0, 1], none missing", values[~((values >= 0) & (values <= 1))][0])
    return values
