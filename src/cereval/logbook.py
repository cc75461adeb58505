"""A run's log, and the session it leads to: resuming and verifying are both replaying.

The log holds what was observed and what a person changed on the way; everything else is decided again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cereval.errors import Misuse
from cereval.goals import goal_from_spec
from cereval.growing_version import LastVersion
from cereval.records import Draw
from cereval.sessions import AnySession
from cereval.tasks import TaskSession

CHUNK = 256

S = TypeVar("S", bound=AnySession)


@dataclass(frozen=True, slots=True)
class Change:
    """A new goal or budget, set when so many results had been consumed and so many draws decided."""

    consumed: int
    drawn: int
    goal: Mapping[str, Any]
    max_calls: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "consumed": self.consumed,
            "drawn": self.drawn,
            "goal": dict(self.goal),
            "max_calls": self.max_calls,
        }


@dataclass(frozen=True, slots=True)
class Log:
    """Results by draw number (None: the call failed for good), the draws decided, and the changes."""

    results: Mapping[int, float | None] = field(default_factory=dict)
    drawn: int = 0
    changes: Sequence[Change] = ()


def replayed(
    session: S, log: Log, teller: Callable[[S, Draw, float | None], None] | None = None
) -> tuple[Draw, ...]:
    """Asks and tells a fresh session again, up to where the log ends; returns the draws it decided.

    Draws are asked as early as the session gives them, so that none is asked after it has ended; a change
    comes at the same draw and the same result as it did.

    >>> from cereval.session import Session
    >>> session = Session(100, seed=1)
    >>> [draw.index for draw in replayed(session, Log({0: 1.0, 2: None}, drawn=3))], session.n_evaluated
    ([0, 1, 2], 1)
    """
    draws: list[Draw] = []
    told = teller or tell
    for change in log.changes:
        _advance(session, draws, log.results, told, change.drawn, change.consumed)
        apply(session, change)
    _advance(session, draws, log.results, told, log.drawn, log.drawn)
    for index in range(session.n_evaluated, len(draws)):
        if index in log.results:
            told(session, draws[index], log.results[index])
    return tuple(draws)


def apply(session: AnySession, change: Change) -> None:
    """Sets the goal and the budget of a change; the goal's setter looks at both."""
    if isinstance(session, TaskSession):
        if dict(change.goal) != session.goal.spec():
            raise Misuse("a session with many tasks keeps its goal: start a new run for another")
        session.limit_to(change.max_calls)
        return
    if isinstance(session, LastVersion):
        raise Misuse("a version of growing data keeps its goal, and has no budget of calls")
    session.budget = change.max_calls
    session.goal = goal_from_spec(change.goal)


def tell(session: AnySession, draw: Draw, score: float | None) -> None:
    """A score, or a failed call."""
    if score is None:
        session.fail(draw)
    else:
        session.tell(draw, score)


def _advance(
    session: S,
    draws: list[Draw],
    results: Mapping[int, float | None],
    told: Callable[[S, Draw, float | None], None],
    drawn: int,
    consumed: int,
) -> None:
    """Up to `drawn` draws and the first `consumed` results, or the first that is missing."""
    while True:
        if len(draws) < drawn and not session.done:
            fresh = session.ask(min(CHUNK, drawn - len(draws)))
            draws += fresh
            if fresh:
                continue
        at = session.n_evaluated
        if at >= min(consumed, len(draws)) or at not in results or session.done:
            break
        told(session, draws[at], results[at])
    if len(draws) < drawn:
        raise Misuse(
            f"the log holds {drawn} draws, of which only {len(draws)} can be decided again; "
            "it was made by another version of cereval, or changed"
        )
