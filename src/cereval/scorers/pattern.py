"""Score `regex:PATTERN`: what a pattern finds in the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import regex

from cereval.errors import InvalidInput
from cereval.scorers.base import Question, Score
from cereval.scorers.text import ending, folded
from cereval.scorers.threads import off_the_loop

LONGEST_S = 2.0
"""Seconds of the processor for one answer: a pattern with nested repeats could take years."""


@dataclass(frozen=True, slots=True)
class Regex:
    """Compare the last match (its first group, if it has one) with the accepted answers as `exact` does.

    For items without answers a match alone scores 1. Of long answers the last 100,000 characters count. A pattern
    that finds no end on an answer, as `(a|aa)+$` may not, is stopped: that answer counts as a failed call.
    """

    pattern: str
    name: ClassVar[str] = "regex"

    def __post_init__(self) -> None:
        try:
            regex.compile(self.pattern)
        except (regex.error, TypeError) as error:
            raise InvalidInput("pattern", f"a regular expression ({error})", self.pattern) from error
        except RecursionError:
            raise InvalidInput("pattern", "a regular expression with fewer groups", self.pattern) from None

    async def score(self, question: Question, answer: str) -> Score:
        # In a thread and without the interpreter's lock: a slow pattern must not hold up the other calls.
        read = await off_the_loop(self._read, ending(answer))
        if read is None:
            return Score(0.0, detail="no match")
        right = not question.answers or folded(read) in map(folded, question.answers)
        return Score(right, detail=read[:200])

    def _read(self, text: str) -> str | None:
        """Read what the last match says; None without a match."""
        found = None
        try:
            for match in regex.finditer(
                self.pattern, text, regex.MULTILINE, concurrent=True, timeout=LONGEST_S
            ):
                found = match
        except TimeoutError:
            raise TimeoutError(f"the pattern took more than {LONGEST_S:g} s; avoid nested repeats") from None
        if found is None:
            return None
        return (found.group(1) if found.re.groups else found.group()) or ""
