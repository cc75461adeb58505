"""Replay what a session would have asked and certified, on scores that are known already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from itertools import pairwise
from math import isnan
from typing import Any, TypedDict, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from cereval.arrays import Floats, Ints
from cereval.errors import InvalidInput
from cereval.forecasts.pool import numbers
from cereval.questions import kind_for, kind_named
from cereval.questions.goals import Goal
from cereval.questions.growing.session import Growing, GrowingResult
from cereval.questions.session import AskTell, tell, whole
from cereval.randomness import generator

S = TypeVar("S", bound=AskTell)

BY_ITEM = ("texts", "embeddings", "history", "weights", "groups")
"""What has a row for each item."""


class SessionSettings(TypedDict, total=False):
    confidence: float
    method: str
    target: str
    texts: Sequence[str] | None
    embeddings: ArrayLike | None
    history: ArrayLike | None
    weights: ArrayLike | None
    budget: int | None
    seed: int | None
    options: Mapping[str, Any] | None
    groups: ArrayLike | None
    models: Sequence[str]


def replay(
    scores: Any,
    *,
    goal: Goal | None = None,
    versions: Sequence[int] | None = None,
    batch: int = 1,
    **asked: Unpack[SessionSettings],
) -> Any:
    """Say what an evaluation would have cost: recorded scores, drawn as if they were asked.

    scores: one number in [0, 1] for each item; for a goal about several candidates a column for each (a table, a data
    frame or a dict of lists). With target="expected" they are rates of right answers, and every answer is tossed. An
    item that lacks a score (NaN) is not part of the pool. groups: the task of each item, for goals of tasks. versions:
    of data that grew, how many of the items each version had. Further keywords are those of the session of the goal's
    kind. `batch` draws are in flight at a time; the result does not depend on it.

    >>> from cereval.questions.compare.goal import Sign
    >>> from cereval.questions.mean.goal import Estimate
    >>> result = replay([1, 0, 1, 1] * 500, goal=Estimate(0.05), seed=3)
    >>> result.stopped, abs(result.estimate - 0.75) <= 0.05, result.n_evaluated < 500
    ('goal', True, True)
    >>> replay({"new": [1, 1, 1, 0] * 500, "old": [1, 0, 1, 0] * 500}, goal=Sign(), seed=0).decision
    'first'
    >>> grown = replay([1, 0, 1, 1] * 500, versions=[1600, 2000], goal=Estimate(0.08), seed=3)
    >>> [version.n_items for version in grown.versions], grown.stopped
    ([1600, 2000], 'goal')
    """
    kind = kind_named("estimate") if goal is None else kind_for(goal)
    columns = {"": scores} if kind.asks == "one" else columns_of(scores)
    if kind.asks == "two" and len(columns) != 2:
        raise InvalidInput("scores", "two columns, one for each candidate", f"{len(columns)}")
    if kind.asks == "all" and len(columns) < 2:
        raise InvalidInput("scores", "two columns or more, one for each candidate", f"{len(columns)}")
    table, given = stacked(columns), dict(asked)
    if kind.asks == "all" or (kind.asks == "two" and hasattr(scores, "keys")):
        given.setdefault("models", list(columns))
    opens: Any = kind.opens if versions is None else Growing
    parameters = signature(opens).parameters
    for name in given:
        if name not in parameters:
            raise InvalidInput(name, f"left out for the kind of question {kind.name}", given[name])
    if versions is not None:
        return _replayed_versions(table, versions, batch, goal=goal, **given)
    missing = np.isnan(table).any(axis=1)
    if missing.all():
        raise InvalidInput("scores", "at least one item without a missing score", f"{len(table)} values")
    if missing.any() and kind.asks == "all":
        raise InvalidInput("scores", "without NaN", f"NaN at item {int(np.flatnonzero(missing)[0])}")
    kept = np.flatnonzero(~missing)
    order = next(iter(columns.values())) if isinstance(scores, Mapping) else scores
    rows = {name: kept_rows(name, given[name], len(table), kept, order) for name in BY_ITEM if name in given}
    size = {"n_items": len(kept)} if "n_items" in parameters else {}
    return drive(opens(**{**given, **size, **rows, "goal": goal}), table[kept], batch)


def _replayed_versions(table: Floats, versions: Sequence[int], batch: int, **asked: Any) -> GrowingResult:
    if np.isnan(table).any():
        raise InvalidInput("scores", "without NaN: take items without a score out of every version", "NaN")
    first, *more = checked_sizes(versions, len(table))
    session = Growing(first, **asked)
    drive(session.last, table, batch)
    for new in more:
        if session.last.stopped != "contradiction":
            session.extend(new)
            drive(session.last, table, batch)
    return session.result()


def drive(session: S, scores: Floats, batch: int = 1, watch: Callable[[S], None] | None = None) -> Any:
    """Answer a session's questions from recorded scores (items, or items x models; NaN: the call fails).

    Where answers are to be fresh (target expected) a score is the rate of right answers, and each answer a toss. watch:
    called after every result. Returns the session's result.
    """
    again = getattr(session, "target", "") == "expected"
    count = whole("batch", batch, 1)
    table = scores[:, None] if scores.ndim == 1 else scores
    while not session.done:
        for draw in session.ask(count):
            found = table[draw.item, list(draw.models)].tolist()
            if again:
                found = _tossed(found, session.seed, draw.index)
            tell(session, draw, tuple(None if isnan(score) else score for score in found))
            if watch is not None:
                watch(session)
    return session.result()


def _tossed(rates: list[float], seed: int, index: int) -> list[float]:
    tosses = generator("answers to recorded questions", seed, index).random(len(rates))
    return [rate if isnan(rate) else float(toss < rate) for toss, rate in zip(tosses, rates, strict=True)]


# -- tables of scores -------------------------------------------------------------------------------------------------


def checked_scores(scores: ArrayLike) -> Floats:
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


def columns_of(scores: ArrayLike | Mapping[str, ArrayLike]) -> dict[str, ArrayLike]:
    if isinstance(scores, Mapping):
        return {str(name): column for name, column in scores.items()}
    table: Any = np.asarray(scores)
    if table.ndim != 2:
        return {"": scores}
    names = [str(name) for name in getattr(scores, "columns", ())]
    names = names or [f"model {place}" for place in range(table.shape[1])]
    return dict(zip(names, table.T, strict=True))


def stacked(columns: Mapping[str, ArrayLike]) -> Floats:
    tables = {name: checked_scores(scores) for name, scores in columns.items()}
    first, *others = columns
    for name in others:
        if len(tables[name]) != len(tables[first]):
            wanted = f"scores of the same {len(tables[first])} items as {first}"
            raise InvalidInput(name, wanted, f"{len(tables[name])} scores")
        check_same_order(name, columns[name], columns[first])
    return np.column_stack(list(tables.values()))


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


def kept_rows(field: str, values: Any, size: int, kept: Ints, scores: Any = None) -> Any:
    """Return the rows of a table that are part of the pool; refuse one of another size, or order than the scores."""
    if values is None:
        return None
    # Texts by place: a series of pandas would look for a label.
    array: Any = list(values) if field == "texts" else np.asarray(values)
    if np.ndim(array) == 0 or len(array) != size:
        got = "a single value" if np.ndim(array) == 0 else f"{len(array)} rows"
        raise InvalidInput(field, f"one row for each of the {size} scores", got)
    check_same_order(field, values, scores)
    return [array[row] for row in kept] if field == "texts" else array[kept]


def checked_sizes(sizes: Sequence[int], total: int) -> list[int]:
    """Return how many items each version adds, from how many each has.

    >>> checked_sizes([600, 800, 1000], 1000)
    [600, 200, 200]
    """
    counts = [0, *(whole("sizes", size, 1) for size in sizes)]
    steps = [after - before for before, after in pairwise(counts)]
    if not steps or min(steps) < 1 or counts[-1] > total:
        raise InvalidInput("sizes", f"growing numbers of items, at most {total}", list(sizes))
    return steps
