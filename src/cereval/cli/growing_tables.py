"""The scores of a growing data set: which items each version adds, in order, and what the truth was."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cereval.datasets.tables import read_column, read_scores
from cereval.errors import BadFile, InvalidInput, shown
from cereval.sessions.growing import checked_sizes

if TYPE_CHECKING:
    from cereval.cli.growing_state import Kept
    from cereval.sessions.growing import GrowingResult

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class GrowingTable:
    """Item ids and scores, oldest version first; `steps`: how many items each version still to come adds."""

    items: tuple[str, ...]
    scores: Floats
    steps: list[int]

    def truths(self, result: GrowingResult) -> list[float | None]:
        """Each version's mean, which a replay knows; None for the population, and where a score is missing."""
        if result.target == "population":
            return [None for _ in result.versions]
        parts = [self.scores[: version.n_items] for version in result.versions]
        return [None if np.isnan(part).any() else fsum(part) / len(part) for part in parts]

    def digest(self, count: int) -> str:
        """A hash of the first `count` item ids."""
        return "sha256:" + hashlib.sha256("\n".join(self.items[:count]).encode()).hexdigest()


def read_growing_table(
    path: str, model: str, versions: str | None, items: str | None, by: str | None, kept: Kept | None
) -> GrowingTable:
    """The scores that are there (empty ones are not part of any version), with the versions as asked for."""
    if versions is not None and items is not None:
        raise InvalidInput("--versions", "left out when --items says the versions", versions)
    if (items is None) != (by is None):
        raise InvalidInput("--by", "given together with --items", by)
    table = read_scores(path)
    column = table.model(model)
    if kept is not None:
        return _grown(path, dict(zip(table.items, map(float, column), strict=True)), versions, items, kept)
    there = np.flatnonzero(~np.isnan(column))
    if not len(there):
        raise BadFile(f"{path}: column {shown(model)} has no score")
    names = [table.items[row] for row in there]
    if items is None or by is None:
        return GrowingTable(tuple(names), column[there], _steps(versions, len(there)))
    labels = read_column(items, by, names)
    if any(label is None for label in labels):
        raise BadFile(f"{items}: column {shown(by)} is empty for some item; every item has a version")
    order, steps = by_label(labels)
    return GrowingTable(tuple(names[row] for row in order), column[there][order], steps)


def _grown(
    path: str, scores: dict[str, float], versions: str | None, items: str | None, kept: Kept
) -> GrowingTable:
    if versions is not None or items is not None:
        raise InvalidInput("--versions and --items", "left out when --state has a session", versions or items)
    missing = [item for item in kept.items if item not in scores]
    if missing:
        raise BadFile(f"{path} lacks {len(missing)} items of the session, the first is {shown(missing[0])}")
    empty = [item for item in kept.items if scores[item] != scores[item]]
    if empty:
        raise BadFile(
            f"{path} has no score any more for {len(empty)} items of the session, the first is {shown(empty[0])}"
        )
    known = set(kept.items)
    fresh = [item for item, score in scores.items() if item not in known and score == score]
    order = (*kept.items, *fresh)
    return GrowingTable(order, np.array([scores[item] for item in order]), [len(fresh)] if fresh else [])


def _steps(versions: str | None, count: int) -> list[int]:
    """How many items each version adds.

    >>> _steps("0.5,0.75,1", 100), _steps("60,100", 100), _steps(None, 7)
    ([50, 25, 25], [60, 40], [7])
    """
    if versions is None:
        return [count]
    try:
        numbers = [float(part) for part in versions.split(",")]
    except ValueError:
        raise InvalidInput("--versions", "numbers with commas between them", versions) from None
    if not all(0 < number <= count for number in numbers):
        raise InvalidInput("--versions", f"shares up to 1 or numbers of items up to {count}", versions)
    shares = max(numbers) <= 1
    return checked_sizes([round(number * count) if shares else int(number) for number in numbers], count)


def by_label(labels: Sequence[Any]) -> tuple[list[int], list[int]]:
    """Rows in the order of their versions, and the size of each; numbers are sorted as numbers.

    >>> by_label([10, 9, 10, 2])
    ([3, 1, 0, 2], [1, 1, 2])
    """
    numeric = all(isinstance(label, int | float) and not isinstance(label, bool) for label in labels)
    keys = list(labels) if numeric else [str(label) for label in labels]
    names = sorted(set(keys))
    rows = [[row for row, key in enumerate(keys) if key == name] for name in names]
    return [row for version in rows for row in version], [len(version) for version in rows]
