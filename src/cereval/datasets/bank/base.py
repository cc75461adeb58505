"""What the bank is made of: questions, topics, and the dice that choose among them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

T = TypeVar("T")

THROWS_PER_QUESTION = 100


class Dice:
    """Seeded choices. Only `Random.random` is promised to stay the same in later Pythons, so only it is used.

    >>> Dice("a").number(1, 6) == Dice("a").number(1, 6)
    True
    """

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)

    def number(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def choice(self, values: Sequence[T]) -> T:
        return values[self.number(0, len(values) - 1)]


@dataclass(frozen=True, slots=True)
class Question:
    """A short text and the answers that count, the first the canonical one."""

    text: str
    answers: tuple[str, ...]

    @property
    def gives_itself_away(self) -> bool:
        return any(re.search(rf"\b{re.escape(answer)}\b", self.text, re.I) for answer in self.answers)


@dataclass(frozen=True, slots=True)
class Topic:
    """`count` different questions of one category; `level` 1 is easy for a child, 3 takes pen and paper.

    An answer that only repeats the question must not count, so questions that hold their answer are left out,
    except where the question has to name it (`repeats`).
    """

    name: str
    level: int
    count: int
    make: Callable[[Dice], Question]
    repeats: bool = False

    def questions(self, seed: int) -> tuple[Question, ...]:
        """Throws the dice until enough different questions have come up."""
        dice = Dice(f"{seed} {self.name} {self.level}")
        found: dict[str, Question] = {}
        for _ in range(THROWS_PER_QUESTION * self.count):
            question = self.make(dice)
            if self.repeats or not question.gives_itself_away:
                found.setdefault(question.text, question)
            if len(found) == self.count:
                return tuple(found.values())
        raise AssertionError(f"{self.name} has only {len(found)} questions of {self.count}")


def words(text: str) -> tuple[str, ...]:
    """The words of a text: easier on the eye than a list of literals."""
    return tuple(text.split())


def yes_or_no(fact: bool) -> tuple[str, ...]:
    return ("yes",) if fact else ("no",)
