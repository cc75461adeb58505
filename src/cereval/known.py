"""What a run knows of its items before it asks: their categories, and the scores of earlier runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.errors import InvalidInput, Misuse
from cereval.goals.tasks import tasks_goal_from_spec
from cereval.packing import packed, unpacked
from cereval.plan import Plan, digest_of
from cereval.session import Session
from cereval.sessions import AnySession
from cereval.tasks import TaskSession, named_groups

UNNAMED = "(none)"
"""The task of items without a category."""

MOST_GROUPS = 200
ITEMS_PER_GROUP = 4
"""Fewer items than this per category, on average, teach nothing about the others."""


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """`groups`: one whole number per item. `history`: items x earlier runs, NaN where one was not asked.

    >>> known = Known(groups=np.array([0, 1, 1]), history=np.array([[1.0], [np.nan], [0.0]]))
    >>> again = Known.from_dict(known.as_dict(), n_items=3)
    >>> again.groups.tolist(), again.fingerprint == known.fingerprint
    ([0, 1, 1], True)
    """

    groups: NDArray[np.int64] | None = None
    history: NDArray[np.float64] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What of it there is, as a plan names it."""
        return tuple(name for name in ("groups", "history") if getattr(self, name) is not None)

    @property
    def fingerprint(self) -> str:
        return digest_of(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """JSON-able and whole: zlib in base64, little-endian."""
        return {name: packed(getattr(self, name)) for name in self.names}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], n_items: int) -> Known:
        kinds = {"groups": ("<i8", 1), "history": ("<f8", 2)}
        unknown = sorted(set(values) - set(kinds))
        if unknown:
            raise InvalidInput("side information", "groups or history", unknown[0])
        tables = {}
        for name, table in values.items():
            kind, dimensions = kinds[name]
            tables[name] = unpacked(name, table, kind, n_items, dimensions)
        return cls(**tables)


def any_session_for(plan: Plan, known: Known) -> AnySession:
    """The session that a plan of any kind describes, before its first draw."""
    return tasks_session_for(plan, known) if plan.tasks else session_for(plan, known)


def tasks_session_for(plan: Plan, known: Known) -> TaskSession:
    """The session of a plan with many tasks."""
    if known.groups is None:
        raise InvalidInput("side information", "the number of each item's task", "none")
    return TaskSession(
        np.array(plan.tasks)[known.groups],
        goal=tasks_goal_from_spec(plan.goal),
        confidence=plan.confidence,
        history=known.history,
        budget=plan.max_calls,
        seed=plan.seed,
    )


def session_for(plan: Plan, known: Known) -> Session:
    """The session of a plan that asks for one mean."""
    return Session(
        plan.n_items,
        goal=plan.first_goal,
        confidence=plan.confidence,
        method=plan.method,
        target=plan.target,
        groups=known.groups,
        history=known.history,
        weights=plan.item_weights,
        budget=plan.max_calls,
        seed=plan.seed,
    )


def task_of(category: str | None) -> str:
    """The name of an item's task."""
    return category or UNNAMED


def task_groups(plan: Plan, categories: Sequence[str | None]) -> NDArray[np.int64]:
    """The number of each item's task, as a plan names the tasks."""
    names, codes = named_groups([task_of(category) for category in categories])
    if names != plan.tasks:
        raise Misuse("the items have other tasks than their plan")
    return codes


def groups_of(categories: Sequence[str | None]) -> NDArray[np.int64] | None:
    """Categories as whole numbers; None where there is only one, or where there are too many to learn from.

    >>> groups_of(["b", "a", "b", "a", "b", "b", "a", "a"]).tolist()
    [1, 0, 1, 0, 1, 1, 0, 0]
    """
    names, codes = np.unique(
        np.array([category or "" for category in categories], dtype=np.str_), return_inverse=True
    )
    if not 1 < len(names) <= min(MOST_GROUPS, len(categories) // ITEMS_PER_GROUP):
        return None
    return np.asarray(codes, dtype=np.int64)
