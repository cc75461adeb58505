"""`regex:PATTERN`: what a pattern finds in the answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from cereval.errors import InvalidInput
from cereval.scorers.base import Question, Score
from cereval.scorers.text import ending, folded


@dataclass(frozen=True, slots=True)
class Regex:
    """The last match (its first group, if it has one) compared with the accepted answers as `exact` does.

    For items without answers a match alone scores 1. Of long answers the last 100,000 characters count.
    A pattern with nested repeats, such as `(a+)+b`, can take forever: that is for its author to avoid.
    """

    pattern: str
    name: ClassVar[str] = "regex"

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except (re.error, TypeError) as error:
            raise InvalidInput("pattern", f"a regular expression ({error})", self.pattern) from error

    async def score(self, question: Question, answer: str) -> Score:
        matches = list(re.finditer(self.pattern, ending(answer), re.MULTILINE))
        if not matches:
            return Score(0.0, detail="no match")
        found = matches[-1]
        read = (found.group(1) if found.re.groups else found.group()) or ""
        right = not question.answers or folded(read) in map(folded, question.answers)
        return Score(right, detail=read[:200])
