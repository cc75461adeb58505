"""`exact`: the whole answer equals an accepted one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cereval.scorers.base import Question, Score, expected
from cereval.scorers.text import beginning, folded


@dataclass(frozen=True, slots=True)
class Exact:
    """1 when the answer is an accepted one up to case, blanks, quotes around it and a final full stop.

    `strict`: up to surrounding blanks only.
    """

    strict: bool = False
    name: ClassVar[str] = "exact"

    async def score(self, question: Question, answer: str) -> Score:
        golds = expected(question)
        form = str.strip if self.strict else folded
        read = answer.strip() if self.strict else folded(beginning(answer, golds))
        return Score(any(read == form(gold) for gold in golds), detail=read[:200])
