"""`AskTell`: the order of things in every session: ask, call, tell, consume in draw order, stop.

A session decides and never acts: it does no IO and reads no clock. Results may be told in any order; they are
consumed in draw order, because answers that come early are different from answers that come late.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from cereval.compact import Draws, Scores
from cereval.errors import InvalidInput, Misuse
from cereval.methods.base import Method
from cereval.records import Draw, Interval, Stopped


class AskTell(ABC):
    """Obligation of subclasses: `_goal_reached`, from the results that the method has consumed."""

    def __init__(self, method: Method, limit: int | None, budget: int | None) -> None:
        """limit: how many items there are to ask, None where an item may come again."""
        self.budget = budget
        self._method = method
        self._limit = limit
        self._draws, self._told, self._has_told = Draws(), Scores(), bytearray()
        self._consumed = 0
        self._failures = 0
        self._stopped: Stopped = "running"
        self._check_stop()

    @abstractmethod
    def _goal_reached(self) -> bool:
        """Whether the results consumed so far certify the goal."""

    def ask(self, k: int = 1) -> list[Draw]:
        """Up to k further draws. Fewer, or none, when earlier results must come first or no item is left."""
        count = whole("k", k, 1)
        if self.done:
            raise Misuse(f"the session has ended ({self._stopped}); nothing is left to ask")
        if self.budget is not None:
            count = min(count, self.budget - len(self._draws))
        fresh: list[Draw] = []
        while len(fresh) < count and (draw := self._method.next_draw()) is not None:
            fresh.append(draw)
        self._note(fresh)
        if not fresh and self._consumed == len(self._draws):
            # Nothing is awaited and the method has nothing left to ask: no further call could change that.
            self._stopped = "exhausted"
        return fresh

    def _note(self, fresh: Sequence[Draw]) -> None:
        self._draws.extend(fresh)
        self._told.extend([None] * len(fresh))
        self._has_told.extend([False] * len(fresh))

    def tell(self, draw: Draw, score: float) -> None:
        """The score of a draw, in [0, 1]."""
        if isinstance(score, bool | np.bool_):
            score = float(score)
        if not isinstance(score, int | float | np.integer | np.floating) or not 0.0 <= float(score) <= 1.0:
            raise InvalidInput("score", f"a number in [0, 1] (item {draw.item})", score)
        self._record(draw, float(score))

    def fail(self, draw: Draw) -> None:
        """The call for a draw failed for good: its score counts as unknown, which can only widen the interval."""
        self._record(draw, None)

    def _record(self, draw: Draw, score: float | None) -> None:
        index = draw.index
        if not 0 <= index < len(self._draws) or self._draws[index] != draw:
            raise Misuse(f"draw {index} (item {draw.item}) was not asked by this session")
        if self._has_told[index]:
            raise Misuse(f"draw {index} (item {draw.item}) was told already")
        self._told[index], self._has_told[index] = score, True
        self._consume()

    def _consume(self) -> None:
        """Feeds the method in draw order up to the first gap, or up to the end of the session."""
        while not self.done and self._consumed < len(self._draws) and self._has_told[self._consumed]:
            self._method.observe(self._draws[self._consumed], *self._bounds(self._consumed))
            self._failures += self._told[self._consumed] is None
            self._consumed += 1
            self._check_stop()

    def _bounds(self, index: int) -> tuple[float, float]:
        """Where the score of a draw lies: anywhere in [0, 1] when its call failed."""
        score = self._told[index]
        return (0.0, 1.0) if score is None else (score, score)

    def _check_stop(self) -> None:
        if self._method.contradiction:
            self._stopped = "contradiction"
        elif self._goal_reached():
            self._stopped = "goal"
        elif self._limit is not None and self._consumed >= self._limit:
            self._stopped = "exhausted"
        elif self.budget is not None and self._consumed >= self.budget:
            self._stopped = "budget"
        else:
            self._stopped = "running"

    @property
    def interval(self) -> Interval:
        """Certified now; every interval ever shown is covered by the same confidence (for `anytime` methods)."""
        return self._method.interval

    @property
    def estimate(self) -> float:
        return self._method.estimate

    @property
    def done(self) -> bool:
        return self._stopped != "running"

    @property
    def outstanding(self) -> tuple[Draw, ...]:
        """Draws asked and not told, in draw order."""
        return tuple(draw for draw, told in zip(self._draws, self._has_told, strict=True) if not told)

    @property
    def n_evaluated(self) -> int:
        """Results consumed so far, in draw order."""
        return self._consumed

    @property
    def surplus(self) -> int:
        """Results told but not consumed: in flight when the session ended, or waiting for an earlier one."""
        return sum(self._has_told) - self._consumed

    @property
    def method(self) -> Method:
        return self._method


def whole(field: str, value: object, least: int) -> int:
    """The value as an int, if it is a whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInput(field, f"a whole number >= {least}", value)
    return int(value)
