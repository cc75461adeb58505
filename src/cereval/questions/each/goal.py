"""State the goal of a question about every item by itself: is its rate at least so much?"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from cereval.forms import OpenShare
from cereval.questions.goals import Goal, in_open_unit_interval
from cereval.questions.session import whole
from cereval.text import percent

MOST = 200
"""Answers to one item by default: a rate of .99 is told from .9 with so many, one of .93 is not."""


class EachAtLeast(Goal, frozen=True, tag="each-at-least"):
    """Find which items pass with a rate of at least `value`; an item is given up, undecided, after `most` answers.

    >>> EachAtLeast(0.9).words
    'which questions are answered right at least 90% of the time?'
    """

    value: OpenShare
    most: Annotated[int, Meta(ge=1)] = MOST

    def __post_init__(self) -> None:
        self._set(value=in_open_unit_interval("each_at_least", self.value), most=whole("most", self.most, 1))

    @property
    def words(self) -> str:
        return f"which questions are answered right at least {percent(self.value)} of the time"
