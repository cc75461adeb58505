"""Replay what a session would have asked and certified, on scores that are known already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cereval.errors import InvalidInput
from cereval.forecasts.pool import numbers
from cereval.questions.goals import Goal, of_one_model
from cereval.questions.mean.session import Session
from cereval.questions.session import AskTell, tell, whole
from cereval.records import Result

Floats = NDArray[np.float64]
S = TypeVar("S", bound=AskTell)


def replay_mean(
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
    seed: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Result:
    """Run a session against recorded scores; NaN = missing, not part of the pool.

    `batch` draws are in flight at a time; the result does not depend on it.

    >>> from cereval.questions.mean.goal import Estimate
    >>> result = replay_mean([1, 0, 1, 1] * 500, goal=Estimate(0.05), seed=3)
    >>> result.stopped, abs(result.estimate - 0.75) <= 0.05, result.n_evaluated < 500
    ('goal', True, True)
    """
    values = checked_scores(scores)
    kept = np.flatnonzero(~np.isnan(values))
    if not len(kept):
        raise InvalidInput("scores", "at least one score that is not NaN", f"{len(values)} values")
    session = Session(
        len(kept),
        goal=of_one_model(goal),
        confidence=confidence,
        method=method,
        target=target,
        texts=kept_texts(texts, len(values), kept, scores),
        embeddings=kept_rows("embeddings", embeddings, len(values), kept, scores),
        history=kept_rows("history", history, len(values), kept, scores),
        weights=kept_rows("weights", weights, len(values), kept, scores),
        groups=kept_rows("groups", groups, len(values), kept, scores),
        budget=budget,
        seed=seed,
        options=options,
    )
    result: Result = drive(session, values[kept], batch)
    return result


def drive(session: S, scores: Floats, batch: int = 1, watch: Callable[[S], None] | None = None) -> Any:
    """Answer a session's questions from recorded scores (items, or items x models; NaN: the call fails).

    watch: called after every result. Returns the session's result.
    """
    count = whole("batch", batch, 1)
    table = scores[:, None] if scores.ndim == 1 else scores
    while not session.done:
        for draw in session.ask(count):
            found = table[draw.item, list(draw.models)].tolist()
            tell(session, draw, tuple(None if isnan(score) else score for score in found))
            if watch is not None:
                watch(session)
    return session.result()


def checked_scores(scores: ArrayLike) -> Floats:
    """Return one number in [0, 1], or NaN, for each item."""
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


def check_same_order(field: str, scores: Any, others: Any) -> None:
    """Refuse a pandas series that has a label of another at another place: scores are paired by their places.

    Numbers that differ as a whole are taken for those of rows, which say nothing of the items.
    """
    labels: Any = getattr(scores, "index", None)
    wanted: Any = getattr(others, "index", None)
    if not (hasattr(labels, "equals") and hasattr(wanted, "equals")) or len(labels) != len(wanted):
        return
    there = set(wanted)
    if labels.equals(wanted) or (labels.dtype.kind in "iu" and set(labels) != there):
        return
    for row, label in enumerate(labels):
        if label in there and label != wanted[row]:
            there_now, here = (getattr(one, "item", lambda one=one: one)() for one in (wanted[row], label))
            raise InvalidInput(field, f"in the order of the others (row {row} is {there_now!r} there)", here)


def kept_rows(
    field: str, values: ArrayLike | None, size: int, kept: NDArray[np.int64], scores: Any = None
) -> Any:
    """Return the rows of a table that are part of the pool; refuse one of another size, or order than the scores."""
    if values is None:
        return None
    array: NDArray[Any] = np.asarray(values)
    if array.ndim == 0 or len(array) != size:
        got = "a single value" if array.ndim == 0 else f"{len(array)} rows"
        raise InvalidInput(field, f"one row for each of the {size} scores", got)
    check_same_order(field, values, scores)
    return array[kept]


def kept_texts(
    texts: Sequence[str] | None, size: int, kept: NDArray[np.int64], scores: Any = None
) -> list[str] | None:
    """Return the texts of the items that are part of the pool; refuse those in another order than the scores."""
    if texts is None:
        return None
    if len(texts) != size:
        raise InvalidInput("texts", f"one row for each of the {size} scores", f"{len(texts)} rows")
    check_same_order("texts", texts, scores)
    every = list(texts)  # by place: a series of pandas would look for a label
    return [every[row] for row in kept]
