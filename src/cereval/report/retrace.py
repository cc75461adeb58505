"""A run told again from its log: the interval after every call, and how evenly each category was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cereval.methods.certified import CertifiedMethod
from cereval.records import Draw, Result
from cereval.sessions.log import Log, replayed, tell
from cereval.sessions.mean import Session

SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Step:
    """What was certified after `calls` results."""

    calls: int
    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Retraced:
    """`uneven`: categories in which some item was likelier to be drawn than another."""

    draws: tuple[Draw, ...]
    result: Result
    steps: tuple[Step, ...]
    uneven: frozenset[str]


def retraced(session: Session, log: Log, categories: Sequence[str]) -> Retraced:
    """Tells a fresh session everything that the log holds."""
    watch = _Watch(categories)
    watch.note(session)
    draws = replayed(session, log, watch.tell)
    return Retraced(draws, session.result(), tuple(watch.steps), frozenset(watch.uneven))


@dataclass(slots=True)
class _Watch:
    categories: Sequence[str]
    steps: list[Step] = field(default_factory=list)
    uneven: set[str] = field(default_factory=set)
    outlook: object = None

    def tell(self, session: Session, draw: Draw, score: float | None) -> None:
        before = session.n_evaluated
        tell(session, draw, score)
        if session.n_evaluated > before:
            self.note(session)

    def note(self, session: Session) -> None:
        interval = session.interval
        self.steps.append(Step(session.n_evaluated, session.estimate, interval.lower, interval.upper))
        method = session.method
        if not isinstance(method, CertifiedMethod):
            self.uneven.update(self.categories)
        elif method.tally.outlook is not self.outlook:
            self.outlook = method.tally.outlook
            self.uneven |= uneven_categories(method.tally.outlook.weights, self.categories)


def uneven_categories(weights: NDArray[np.float64], categories: Sequence[str]) -> set[str]:
    """The categories whose open items (weight > 0) do not all have the same draw weight.

    >>> sorted(uneven_categories(np.array([1.0, 2.0, 3.0, 0.0, 3.0]), list("aabbb")))
    ['a']
    """
    names, codes = np.unique(np.array(categories, dtype=np.str_), return_inverse=True)
    open_items = weights > 0
    least, most = np.full(len(names), np.inf), np.zeros(len(names))
    np.minimum.at(least, codes[open_items], weights[open_items])
    np.maximum.at(most, codes[open_items], weights[open_items])
    return {str(name) for name in names[most > least * (1 + SAME)]}
