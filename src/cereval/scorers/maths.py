"""Score `numeric` (the last number of the answer) and `math` (expressions as mathematics, extra `math`)."""

from __future__ import annotations

import logging
import re
import threading
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

from cereval.datasets.base import Item
from cereval.errors import InvalidInput
from cereval.imports import optional
from cereval.scorers.base import Score, need_answers, off_the_loop
from cereval.scorers.text import take_end

_NUMBER = re.compile(
    r"(?:(?<![\w)])[-+−])?"
    r"(?:(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]++)(?:\.[0-9]++)?+|\.[0-9]++)"
    r"(?:[eE][-+]?[0-9]++)?+"
)


@dataclass(frozen=True, slots=True)
class Numeric:
    """Score 1 when the last number (after `####` where there is one) is within `tolerance` of an accepted one.

    The tolerance is relative for numbers beyond 1 and absolute below. Thousands may be separated by commas.
    """

    tolerance: float = 1e-6
    name: ClassVar[str] = "numeric"

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < 1:
            raise InvalidInput("tolerance", "in [0, 1)", self.tolerance)

    async def score(self, question: Item, answer: str) -> Score:
        golds = [(gold, last_number(gold)) for gold in need_answers(question)]
        for gold, number in golds:
            if number is None:
                raise InvalidInput("answer", "a number for the scorer `numeric`", gold)
        read = last_number(answer)
        if read is None:
            return Score(0.0, detail="no number")
        return Score(
            any(self._near(read, number) for _, number in golds if number is not None), detail=f"{read:.15g}"
        )

    def _near(self, read: float, gold: float) -> bool:
        return abs(read - gold) <= self.tolerance * max(1.0, abs(gold))


def last_number(text: str) -> float | None:
    """Read the last finite number in a text.

    >>> last_number("3 times 4 makes $1,234.50."), last_number("10-5"), last_number("x = -5")
    (1234.5, 5.0, -5.0)
    >>> last_number("so 7 #### 72") , last_number("none")
    (72.0, None)
    """
    tail = take_end(text).rpartition("####")[2]
    for number in reversed(_NUMBER.findall(tail)):
        value = float(number.replace(",", "").replace("−", "-"))
        if isfinite(value):
            return value
    return None


LONGEST = 10_000
"""Characters of an answer that are parsed; the final expression stands at its end."""


@dataclass(frozen=True, slots=True)
class Maths:
    """Score 1 when `math-verify` finds the answer's final expression equal to an accepted one.

    `seconds` bounds the parsing and the comparison of one answer; longer scores 0. In other threads than the main one,
    as in notebooks, an answer that takes over 30 seconds is a failure instead.
    """

    seconds: int = 3
    name: ClassVar[str] = "math"

    def __post_init__(self) -> None:
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int) or self.seconds < 1:
            raise InvalidInput("seconds", "a whole number >= 1", self.seconds)

    async def score(self, question: Item, answer: str) -> Score:
        # Where the library's own limit works, it bounds the time; elsewhere nothing may hold up the loop.
        if self._limit() is not None:
            return self._scored(question, answer)
        found: Score = await off_the_loop(self._scored, question, answer)
        return found

    def _scored(self, question: Item, answer: str) -> Score:
        library = optional("math_verify", "math")
        # The library logs a traceback for every answer that it cannot read: for a scorer that is a plain 0.
        logging.getLogger("math_verify").setLevel(logging.CRITICAL)
        read = library.parse(answer[-LONGEST:], parsing_timeout=self._limit())
        for gold in need_answers(question):
            if self._same(library, gold, read):
                return Score(1.0, detail=_last(read))
        return Score(0.0, detail=_last(read) or "no expression")

    def _same(self, library: Any, gold: str, read: Any) -> bool:
        marked = gold if "$" in gold or "\\boxed" in gold else f"${gold}$"
        parsed = library.parse(marked, parsing_timeout=self._limit())
        if not parsed:
            raise InvalidInput("answer", "a mathematical expression", gold)
        return bool(read) and bool(library.verify(parsed, read, timeout_seconds=self._limit()))

    def _limit(self) -> int | None:
        # The library's limit is an alarm signal, which only the main thread can take.
        return self.seconds if threading.current_thread() is threading.main_thread() else None


def _last(parsed: Any) -> str:
    return str(parsed[-1])[:200] if parsed else ""
