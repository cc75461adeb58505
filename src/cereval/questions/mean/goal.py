"""State the goals of one mean: `Estimate(eps)`, as near as a budget allows (`Finest`), and on which side of a threshold
it lies, `Threshold(value)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from cereval.forms import OpenShare
from cereval.methods.base import Aim, Method
from cereval.questions.goals import ROUNDING, Goal
from cereval.stats.rounding import within
from cereval.text import percent


class Estimate(Goal, frozen=True, tag="estimate"):
    """Stop as soon as the interval's half-width is at most eps.

    >>> Estimate(0.02)
    Estimate(eps=0.02)
    """

    decides: ClassVar[bool] = False
    eps: OpenShare = 0.02

    def aim(self, budget: int | None) -> Aim:
        return Aim(eps=self.eps, budget=budget)

    def reached(self, method: Method) -> bool:
        return within(method.radius, self.eps)

    @property
    def words(self) -> str:
        return f"within {percent(self.eps)}"


class Finest(Estimate, frozen=True, tag="finest"):
    """Come as near as a budget of calls, money or minutes allows; at most within eps.

    Nothing is chosen by looking at scores that were not due: the interval holds at every moment, so also when the
    budget is spent.
    """

    eps: OpenShare = 0.001

    @property
    def words(self) -> str:
        return "as near as the budget allows"


class Threshold(Goal, frozen=True, tag="threshold"):
    """Stop as soon as it is certified on which side of `value` the mean lies. A mean equal to it passes.

    >>> Threshold(0.8).spec()
    {'goal': 'threshold', 'value': 0.8}
    """

    called: ClassVar[Mapping[str, str]] = {"value": "threshold"}
    value: OpenShare

    def aim(self, budget: int | None) -> Aim:
        return Aim(threshold=self.value, budget=budget)

    def decision(self, method: Method) -> str | None:
        """Return "above" or "below" once the interval no longer straddles the threshold.

        The bets exclude an end that they set, so that one equal to the threshold decides. The scores of all items
        exclude only what lies beyond their ends: where a call failed the mean may equal the upper one, and a mean
        equal to the threshold passes, so that nothing is decided.
        """
        interval = method.interval
        beyond = ROUNDING if method.complete else 0.0
        if interval.lower >= self.value - beyond:
            return "above"
        return "below" if interval.upper <= self.value - beyond else None

    @property
    def words(self) -> str:
        return f"at least {percent(self.value)}"
