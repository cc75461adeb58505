"""Replay what a session would have asked and certified, on scores that are known already: `replay`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from itertools import pairwise
from math import isnan
from typing import Any, TypedDict, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cereval.errors import InvalidInput
from cereval.forecasts.pool import numbers
from cereval.questions import kind_for, kind_named
from cereval.questions.compare.session import Comparison
from cereval.questions.goals import Goal, of_one_model
from cereval.questions.growing.session import Growing, GrowingResult
from cereval.questions.mean.goal import Estimate
from cereval.questions.rank.session import Ranking
from cereval.questions.session import AskTell, tell, whole
from cereval.questions.tasks.session import TasksResult
from cereval.records import Result

Floats = NDArray[np.float64]
S = TypeVar("S", bound=AskTell)

BY_ITEM = ("texts", "embeddings", "history", "weights", "groups")
"""What has a row for each item."""


class SessionSettings(TypedDict, total=False):
    """Name the keywords that are handed to a session; which of them it takes depends on the goal."""

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


def replay(
    scores: ArrayLike,
    *,
    goal: Goal | None = None,
    groups: ArrayLike | None = None,
    batch: int = 1,
    **asked: Unpack[SessionSettings],
) -> Result:
    """Run a session against recorded scores; NaN = missing, not part of the pool.

    asked: confidence, method, target, texts, embeddings, history, weights, groups, budget, seed, options, as for
    `Session`. `batch` draws are in flight at a time; the result does not depend on it.

    >>> from cereval.questions.mean.goal import Estimate
    >>> result = replay([1, 0, 1, 1] * 500, goal=Estimate(0.05), seed=3)
    >>> result.stopped, abs(result.estimate - 0.75) <= 0.05, result.n_evaluated < 500
    ('goal', True, True)
    """
    kind = "estimate" if of_one_model(goal) is None else kind_for(goal).name
    table, asking = checked_scores(scores)[:, None], {"groups": groups, **asked}
    result: Result = _replayed(kind, goal, table, scores, batch, asking)
    return result


def compare(
    scores_a: ArrayLike,
    scores_b: ArrayLike,
    *,
    goal: Goal | None = None,
    groups: ArrayLike | None = None,
    batch: int = 1,
    **asked: Unpack[SessionSettings],
) -> Comparison:
    """Compare two models on recorded scores of the same items; an item that either lacks (NaN) is left out.

    goal: `Sign(tie=0.02)` (the default), `Difference(eps)` or `NotWorse(eps)`. history: items x past models, neither
    of the two among them. Further keywords are those of `CompareSession`.

    >>> better, worse = [1, 1, 1, 0] * 500, [1, 0, 1, 0] * 500
    >>> answer = compare(better, worse)
    >>> answer.decision, answer.lower >= 0, answer.n_evaluated < 100
    ('first', True, True)
    """
    table = stacked({"scores_a": scores_a, "scores_b": scores_b})
    asking = {"groups": groups, **asked}
    found: Comparison = _replayed("compare", goal, table, scores_a, batch, asking)
    return found


def rank(
    scores: ArrayLike | Mapping[str, ArrayLike],
    *,
    goal: Goal | None = None,
    models: Sequence[str] | None = None,
    batch: int = 64,
    **asked: Unpack[SessionSettings],
) -> Ranking:
    """Rank the columns of `scores` (items x models, in [0, 1]), asking only for the scores it needs.

    models: their names; those that `scores` has where it is a data frame, or a dict of lists. history: items x past
    models, none of those ranked; items on which they disagree are asked sooner. Further keywords are those of
    `RankSession`.

    >>> rng = np.random.default_rng(0)
    >>> scores = rng.uniform(size=(500, 4)) < [0.8, 0.5, 0.5, 0.2]
    >>> from cereval.questions.rank.goal import Top
    >>> ranking = rank(scores, goal=Top(1, within=0.02), models=["a", "b", "c", "d"])
    >>> ranking.winners, ranking.stopped, ranking.calls < 500
    (('a',), 'goal', True)
    """
    columns = columns_of(scores)
    table, names = stacked(columns), list(columns if models is None else models)
    if len(names) != len(columns):
        raise InvalidInput("models", f"one name for each of the {len(columns)} columns", names)
    if np.isnan(table).any():
        raise InvalidInput("scores", "in [0, 1], none missing", "NaN")
    order = next(iter(columns.values())) if isinstance(scores, Mapping) else scores
    asking = {"models": names, **asked}
    found: Ranking = _replayed("rank", goal, table, order, batch, asking)
    return found


def tasks(
    scores: ArrayLike,
    groups: ArrayLike,
    *,
    goal: Goal | None = None,
    batch: int = 1,
    **asked: Unpack[SessionSettings],
) -> TasksResult:
    """Replay recorded scores as many tasks; NaN = missing, not part of the pool.

    groups: the task of each item. Further keywords are those of `TaskSession`.

    >>> from cereval.questions.tasks.goal import AllAtLeast
    >>> result = tasks([1.0] * 400 + [1.0, 0.0] * 200, ["a"] * 400 + ["b"] * 400, goal=AllAtLeast(0.8))
    >>> result.decision, result.failing
    ('some-fail', ('b',))
    """
    table, asking = checked_scores(scores)[:, None], {"groups": groups, **asked}
    found: TasksResult = _replayed("tasks", goal, table, scores, batch, asking)
    return found


def growing(
    scores: ArrayLike,
    sizes: Sequence[int],
    *,
    goal: Estimate | None = None,
    confidence: float = 0.95,
    target: str = "benchmark",
    seed: int | None = None,
    batch: int = 1,
) -> GrowingResult:
    """Replay recorded scores as a data set that grew: version j had the first `sizes[j]` items. NaN is refused.

    >>> result = growing([1, 0, 1, 1] * 500, [1600, 2000], goal=Estimate(0.08), seed=3)
    >>> [version.n_items for version in result.versions], result.stopped
    ([1600, 2000], 'goal')
    """
    values = checked_scores(scores)
    if np.isnan(values).any():
        raise InvalidInput("scores", "without NaN: take items without a score out of every version", "NaN")
    first, *more = checked_sizes(sizes, len(values))
    session = Growing(first, goal=goal, confidence=confidence, target=target, seed=seed)
    drive(session.last, values, batch)
    for new in more:
        if session.last.stopped != "contradiction":
            session.extend(new)
            drive(session.last, values, batch)
    return session.result()


def _replayed(kind: str, goal: Any, table: Floats, scores: Any, batch: int, asked: Mapping[str, Any]) -> Any:
    """Answer a session of a kind from the items that have a score of every model."""
    kept = np.flatnonzero(~np.isnan(table).any(axis=1))
    if not len(kept):
        raise InvalidInput("scores", "at least one item without a missing score", f"{len(table)} values")
    opens = kind_named(kind).opens
    parameters = signature(opens).parameters
    for name in asked:
        if name not in parameters:
            raise InvalidInput(name, f"left out for the kind of question {kind}", asked[name])
    rows = {
        name: kept_rows(name, asked.get(name), len(table), kept, scores) for name in BY_ITEM if name in asked
    }
    size = {"n_items": len(kept)} if "n_items" in parameters else {}
    return drive(opens(**{**asked, **size, **rows, "goal": goal}), table[kept], batch)


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


# -- tables of scores -------------------------------------------------------------------------------------------------


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


def columns_of(scores: ArrayLike | Mapping[str, ArrayLike]) -> dict[str, ArrayLike]:
    """Return a table's columns by name: those of a data frame or a dict, else numbers."""
    if isinstance(scores, Mapping):
        return {str(name): column for name, column in scores.items()}
    table: Any = np.asarray(scores)
    if table.ndim != 2 or table.shape[1] < 2:
        raise InvalidInput("scores", "items x models, two models or more", f"shape {table.shape}")
    names = [str(name) for name in getattr(scores, "columns", ())]
    names = names or [f"model {place}" for place in range(table.shape[1])]
    return dict(zip(names, table.T, strict=True))


def stacked(columns: Mapping[str, ArrayLike]) -> Floats:
    """Return the scores of models, by name, as columns of the same items."""
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


def kept_rows(field: str, values: Any, size: int, kept: NDArray[np.int64], scores: Any = None) -> Any:
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
