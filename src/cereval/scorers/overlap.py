"""`f1`: the words that the answer shares with an accepted one, as SQuAD counts them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from cereval.scorers.base import Question, Score, expected
from cereval.scorers.text import ending, tokens


@dataclass(frozen=True, slots=True)
class F1:
    """The best F1 of the answer's words against each accepted answer's; of long ones the last 100,000 characters."""

    name: ClassVar[str] = "f1"

    async def score(self, question: Question, answer: str) -> Score:
        said = Counter(tokens(ending(answer)))
        return Score(max(f1(said, Counter(tokens(gold))) for gold in expected(question)))


def f1(said: Counter[str], gold: Counter[str]) -> float:
    """Harmonic mean of precision and recall over words with their counts.

    >>> f1(Counter(["red", "cat"]), Counter(["cat"]))
    0.6666666666666666
    """
    if not said or not gold:
        return float(said == gold)
    shared = (said & gold).total()
    return 2 * shared / (said.total() + gold.total())
