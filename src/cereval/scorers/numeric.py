"""Score `numeric`: the last number of the answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

from cereval.errors import InvalidInput
from cereval.scorers.base import Question, Score, expected
from cereval.scorers.text import ending

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

    async def score(self, question: Question, answer: str) -> Score:
        golds = [(gold, last_number(gold)) for gold in expected(question)]
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
    tail = ending(text).rpartition("####")[2]
    for number in reversed(_NUMBER.findall(tail)):
        value = float(number.replace(",", "").replace("−", "-"))
        if isfinite(value):
            return value
    return None
