"""`contains`: an accepted answer occurs in the model's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cereval.errors import InvalidInput
from cereval.scorers.base import Question, Score, expected
from cereval.scorers.text import ending, folded, occurs


@dataclass(frozen=True, slots=True)
class Contains:
    """1 when an accepted answer occurs, as whole words unless told otherwise: `4` does not occur in `14`.

    Of long answers the last 100,000 characters count.
    """

    whole_words: bool = True
    name: ClassVar[str] = "contains"

    async def score(self, question: Question, answer: str) -> Score:
        text = folded(ending(answer))
        for gold in map(folded, expected(question)):
            if not gold:
                raise InvalidInput("answer", "not empty for the scorer `contains`", question.id)
            if self._occurs(gold, text):
                return Score(1.0, detail=gold[:200])
        return Score(0.0)

    def _occurs(self, gold: str, text: str) -> bool:
        return occurs(gold, text) if self.whole_words else gold in text
