"""`Ledger`: the order of things in every session: ask, call, tell, consume in draw order, stop.

A session decides and never acts: it does no IO and reads no clock. Results may be told in any order; they are
consumed in draw order, because answers that come early are different from answers that come late.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from cereval.compact import Scores
from cereval.errors import InvalidInput, Misuse
from cereval.records import Stopped


class Asked(Protocol):
    """A draw: the number `index` of its session, and the item that it asks for."""

    @property
    def index(self) -> int: ...
    @property
    def item(self) -> int: ...


D = TypeVar("D", bound=Asked)


class DrawList(Protocol[D]):
    """Draws in draw order, a list or something smaller."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> D: ...
    def __iter__(self) -> Iterator[D]: ...
    def extend(self, draws: Iterable[D], /) -> None: ...


class Ledger(ABC, Generic[D]):
    """Obligations of subclasses: `_next_draw`, `_observe`, `_state`, and `_check_stop()` once they are built."""

    def __init__(self, draws: DrawList[D], budget: int | None) -> None:
        self.budget = budget
        self._draws = draws
        self._told, self._has_told = Scores(), bytearray()
        self._consumed = 0
        self._failures = 0
        self._stopped: Stopped = "running"

    @abstractmethod
    def _next_draw(self) -> D | None:
        """The next draw; None when earlier results must come first or nothing is left to ask."""

    @abstractmethod
    def _observe(self, index: int) -> None:
        """Takes the result of a draw, in draw order."""

    @abstractmethod
    def _state(self) -> Stopped:
        """Whether the results consumed so far end the session, and why."""

    def ask(self, k: int = 1) -> list[D]:
        """Up to k further draws. Fewer, or none, when earlier results must come first or no item is left."""
        count = whole("k", k, 1)
        if self.done:
            raise Misuse(f"the session has ended ({self._stopped}); nothing is left to ask")
        if self.budget is not None:
            count = min(count, self.budget - len(self._draws))
        fresh: list[D] = []
        while len(fresh) < count and (draw := self._next_draw()) is not None:
            fresh.append(draw)
        self._note(fresh)
        if not fresh and self._consumed == len(self._draws):
            # Nothing is awaited and there is nothing left to ask: no further call could change that.
            self._stopped = "exhausted"
        return fresh

    def _note(self, fresh: Sequence[D]) -> None:
        self._draws.extend(fresh)
        self._told.extend([None] * len(fresh))
        self._has_told.extend([False] * len(fresh))

    def tell(self, draw: D, score: float) -> None:
        """The score of a draw, in [0, 1]."""
        self._record(draw, unit_score(score, allowed=f"a number in [0, 1] (item {draw.item})"))

    def fail(self, draw: D) -> None:
        """The call for a draw failed for good: its score counts as unknown, which can only hold claims back."""
        self._record(draw, None)

    def _record(self, draw: D, score: float | None) -> None:
        index = draw.index
        if not 0 <= index < len(self._draws) or self._draws[index] != draw:
            raise Misuse(f"draw {index} (item {draw.item}) was not asked by this session")
        if self._has_told[index]:
            raise Misuse(f"draw {index} (item {draw.item}) was told already")
        self._told[index], self._has_told[index] = score, True
        self._consume()

    def _consume(self) -> None:
        """Observes in draw order up to the first gap, or up to the end of the session."""
        while not self.done and self._consumed < len(self._draws) and self._has_told[self._consumed]:
            self._observe(self._consumed)
            self._failures += self._told[self._consumed] is None
            self._consumed += 1
            self._check_stop()

    def _bounds(self, index: int) -> tuple[float, float]:
        """Where the score of a draw lies: anywhere in [0, 1] when its call failed."""
        score = self._told[index]
        return (0.0, 1.0) if score is None else (score, score)

    def _check_stop(self) -> None:
        self._stopped = self._state()

    @property
    def done(self) -> bool:
        return self._stopped != "running"

    @property
    def outstanding(self) -> tuple[D, ...]:
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


def whole(field: str, value: object, least: int) -> int:
    """The value as an int, if it is a whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInput(field, f"a whole number >= {least}", value)
    return int(value)


def unit_score(value: object, field: str = "score", allowed: str = "a number in [0, 1]") -> float:
    """A score as a float: any real number, bool or single-element array scalar in [0, 1].

    >>> unit_score(True), unit_score(0.25)
    (1.0, 0.25)
    """
    plain: Any = value
    if type(value) is not float and getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        plain = plain.item()
    if not isinstance(plain, numbers.Real) or not 0.0 <= float(plain) <= 1.0:
        raise InvalidInput(field, allowed, value)
    return float(plain)
