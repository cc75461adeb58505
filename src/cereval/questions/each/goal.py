"""State the goal of a question about every item by itself: is its rate at least so much?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from cereval.forms import OpenShare, Positive
from cereval.questions.goals import Goal
from cereval.questions.session import whole
from cereval.text import percent

MOST = 200
"""Answers to one item by default: a rate of .99 is told from .9 with so many, one of .93 is not."""


class EachAtLeast(Goal, frozen=True, tag="each-at-least"):
    """Find which items pass with a rate of at least `value`; an item is given up, undecided, after `most` answers.

    >>> EachAtLeast(0.9).words
    'which questions are answered right at least 90% of the time'
    """

    called: ClassVar[Mapping[str, str]] = {"value": "each_at_least"}
    value: OpenShare
    most: Positive = MOST

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(most=whole("most", self.most, 1))

    @property
    def words(self) -> str:
        return f"which questions are answered right at least {percent(self.value)} of the time"
