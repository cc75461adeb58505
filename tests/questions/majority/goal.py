"""The goal of the toy kind."""

from __future__ import annotations

from cereval.questions.goals import Goal


class MoreThanHalf(Goal, frozen=True, tag="more-than-half"):
    @property
    def words(self) -> str:
        return "right on more than half?"
