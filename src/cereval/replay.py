"""`replay`: what a session would have asked and certified, on scores that are known already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cereval.errors import InvalidInput
from cereval.goals import Goal
from cereval.items.pool import numbers
from cereval.records import Result
from cereval.session import Session

Floats = NDArray[np.float64]


def replay(
    scores: ArrayLike,
    *,
    goal: Goal | None = None,
    confidence: float = 0.95,
    method: str = "auto",
    target: str = "benchmark",
    texts: Sequence[str] | None = None,
    embeddings: ArrayLike | None = None,
    history: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    batch: int = 1,
    budget: int | None = None,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> Result:
    """Runs a session against recorded scores; NaN = missing, not part of the pool.

    `batch` draws are in flight at a time; the result does not depend on it.

    >>> from cereval.goals import Estimate
    >>> result = replay([1, 0, 1, 1] * 500, goal=Estimate(0.05), seed=3)
    >>> result.stopped, abs(result.estimate - 0.75) <= 0.05, result.n_evaluated < 500
    ('goal', True, True)
    """
    values = checked_scores(scores)
    kept = np.flatnonzero(~np.isnan(values))
    if not len(kept):
        raise InvalidInput("scores", "at least one score that is not NaN", f"{len(values)} values")
    session = Session(
        len(kept),
        goal=goal,
        confidence=confidence,
        method=method,
        target=target,
        texts=None if texts is None else [texts[int(i)] for i in _rows("texts", texts, len(values), kept)],
        embeddings=_kept("embeddings", embeddings, len(values), kept),
        history=_kept("history", history, len(values), kept),
        weights=_kept("weights", weights, len(values), kept),
        groups=_kept("groups", groups, len(values), kept),
        budget=budget,
        seed=seed,
        options=options,
    )
    return drive(session, values[kept], batch)


def drive(session: Session, scores: Floats, batch: int = 1) -> Result:
    """Answers a session's questions from `scores` until it ends."""
    if isinstance(batch, bool) or not isinstance(batch, int | np.integer) or batch < 1:
        raise InvalidInput("batch", "a whole number >= 1", batch)
    while not session.done:
        for draw in session.ask(int(batch)):
            session.tell(draw, float(scores[draw.item]))
    return session.result()


def checked_scores(scores: ArrayLike) -> Floats:
    """One number in [0, 1], or NaN, for each item."""
    try:
        values = numbers(scores)
    except (TypeError, ValueError) as error:
        raise InvalidInput("scores", "a list of numbers in [0, 1]", scores) from error
    if values.ndim != 1 or not len(values):
        raise InvalidInput("scores", "a non-empty list of numbers in [0, 1]", f"shape {values.shape}")
    bad = np.flatnonzero(np.isinf(values) | (values < 0) | (values > 1))
    if len(bad):
        raise InvalidInput(
            "scores", "in [0, 1], or NaN for missing", f"{values[bad[0]]} at item {int(bad[0])}"
        )
    return values


def _kept(field: str, values: ArrayLike | None, size: int, kept: NDArray[np.int64]) -> ArrayLike | None:
    if values is None:
        return None
    array: NDArray[Any] = np.asarray(values)
    _rows(field, array, size, kept)
    return array[kept]


def _rows(field: str, values: Any, size: int, kept: NDArray[np.int64]) -> NDArray[np.int64]:
    if np.ndim(values) == 0 or len(values) != size:
        got = "a single value" if np.ndim(values) == 0 else f"{len(values)} rows"
        raise InvalidInput(field, f"one row for each of the {size} scores", got)
    return kept
