"""Replay a run's log into the session it leads to: resuming and verifying are both replaying.

The log decides: what was drawn, with which probability, what came back, and what a person changed on the way. Forecasts
and bets are not in it. They are functions of the past, computed again; on another processor they may differ in their
last digits, which the theorem allows: it asks that they do not look at the score they are used for, and no rejection
rests on such digits (`stats.interval.ROUNDING`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cereval.errors import LogMismatch
from cereval.questions.session import AskTell, tell
from cereval.questions.session import Change as Change
from cereval.records import Draw, Scored

CHUNK = 256

S = TypeVar("S", bound=AskTell)
Teller = Callable[[Any, Draw, Scored], None]


@dataclass(frozen=True, slots=True)
class Log:
    """Hold results by draw number, the draws that were decided, how many there were, and the changes on the way.

    draws: by number; where one is missing, it is decided again. check: they have to be those that the seed leads to.
    """

    results: Mapping[int, Scored] = field(default_factory=dict)
    drawn: int = 0
    changes: Sequence[Change] = ()
    draws: Mapping[int, Draw] = field(default_factory=dict)
    check: bool = False

    def scores(self, draw: Draw) -> Scored | None:
        return self.results.get(draw.index)


def replayed(session: S, log: Log, teller: Teller = tell) -> tuple[Draw, ...]:
    """Ask and tell a fresh session again, up to where the log ends; return the draws it decided.

    Draws are asked as early as the session gives them, so that none is asked after it has ended; a change
    comes at the same draw and the same result as it did.

    >>> from cereval.questions.mean.session import Session
    >>> session = Session(100, seed=1)
    >>> draws = replayed(session, Log({0: (1.0,), 2: (None,)}, drawn=3))
    >>> [draw.index for draw in draws], session.n_evaluated
    ([0, 1, 2], 1)
    """
    session.follow(log.draws, check=log.check)
    draws: list[Draw] = []
    for change in log.changes:
        _advance(session, draws, log, teller, change.drawn, change.consumed)
        change.apply(session)
    _advance(session, draws, log, teller, max(log.drawn, len(draws)), log.drawn)
    for draw in draws[session.n_evaluated :]:
        scores = log.scores(draw)
        if scores is not None:
            teller(session, draw, scores)
    return tuple(draws)


def _advance(
    session: AskTell, draws: list[Draw], log: Log, teller: Teller, drawn: int, consumed: int
) -> None:
    """Go on to `drawn` draws and the first `consumed` results, or the first that is missing."""
    while True:
        if len(draws) < drawn and not session.done:
            fresh = session.ask(min(CHUNK, drawn - len(draws)))
            draws += fresh
            if fresh:
                continue
        at = session.n_evaluated
        scores = log.scores(draws[at]) if at < min(consumed, len(draws)) and not session.done else None
        if scores is None:
            break
        teller(session, draws[at], scores)
    if len(draws) < drawn:
        raise LogMismatch(
            f"the log holds {drawn} draws, but the session ends after {len(draws)}; "
            "it was made by another engine, or changed"
        )
