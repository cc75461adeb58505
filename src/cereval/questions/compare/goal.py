"""State the goals of a comparison: which model is better, by how much, or whether a new one is not worse.

With z_first and z_second the scores of two models on the same item, D = z_first - z_second and y = (1 + D)/2: a score
in [0, 1] like any other, whose mean is 1/2 where the models are equal. All goals here read their answer
off the certified interval of the mean of y, so that whatever they say holds together with the interval.
"""

from __future__ import annotations

from typing import ClassVar

from cereval.forms import OpenShare, ShareBelowOne
from cereval.methods.base import Aim, Method
from cereval.questions.goals import ROUNDING, Goal
from cereval.stats.rounding import within
from cereval.text import percent

EQUAL = 0.5

FINEST = 0.01
"""The bets of a comparison without ties work towards differences of this size."""

FIRST, SECOND, NO_DIFFERENCE = "first", "second", "no-difference"
NOT_WORSE, WORSE = "not-worse", "worse"


class Sign(Goal, frozen=True, tag="sign"):
    """Decide which of the two is better, or that they differ by no more than `tie`: whichever is certified first.

    >>> Sign(0.02).spec()
    {'goal': 'sign', 'tie': 0.02}
    """

    tie: ShareBelowOne = 0.02

    def aim(self, budget: int | None) -> Aim:
        return Aim(eps=(self.tie or FINEST) / 2, budget=budget, marks=(EQUAL,), strict=True)

    def decision(self, method: Method) -> str | None:
        """Return "first", "second" or "no-difference"; where two of them hold, the sign, which says more."""
        return _sign_or_tie(method, self.tie)

    @property
    def words(self) -> str:
        return f"which is better, or within {percent(self.tie)}"


class Difference(Goal, frozen=True, tag="difference"):
    """Estimate the difference of the two means within `eps`, whatever its sign.

    >>> Difference(0.05).aim(None).eps
    0.025
    """

    decides: ClassVar[bool] = False
    eps: OpenShare = 0.02

    def aim(self, budget: int | None) -> Aim:
        return Aim(eps=self.eps / 2, budget=budget)

    def reached(self, method: Method) -> bool:
        return within(method.radius, self.eps / 2)

    def decision(self, method: Method) -> str | None:
        """Return the sign where the interval excludes 0, "no-difference" where it lies within eps of 0."""
        return _sign_or_tie(method, self.eps)

    @property
    def words(self) -> str:
        return f"difference within {percent(self.eps)}"


class NotWorse(Goal, frozen=True, tag="not-worse"):
    """Check for a regression: the first model, say a new version, is not worse than the second by more than `eps`.

    With eps = 0: at least as good. "not-worse" and "worse" cannot both be wrong, so that each has nearly all of delta
    (`stats.interval`), where the two signs of `Sign` are both wrong of models that are equal, and share it.

    >>> NotWorse(0.02).aim(None).marks
    (0.49,)
    """

    eps: ShareBelowOne = 0.02

    @property
    def limit(self) -> float:
        return (1 - self.eps) / 2

    def aim(self, budget: int | None) -> Aim:
        return Aim(eps=FINEST / 2, budget=budget, marks=(self.limit,))

    def decision(self, method: Method) -> str | None:
        """Return "not-worse", also where the first is worse by exactly eps, or "worse"."""
        lower, upper, beyond = _certified(method)
        if lower >= self.limit - beyond:
            return NOT_WORSE
        return WORSE if upper <= self.limit - beyond else None

    @property
    def words(self) -> str:
        return f"not worse by more than {percent(self.eps)}" if self.eps else "at least as good"


CompareGoal = Sign | Difference | NotWorse


def _certified(method: Method) -> tuple[float, float, float]:
    """Return the interval, and how far beyond its ends a mean has to lie to be excluded.

    The bets exclude an end that they set, the scores of all items only what lies beyond it.
    """
    interval = method.interval
    return interval.lower, interval.upper, ROUNDING if method.complete else 0.0


def _sign_or_tie(method: Method, tie: float) -> str | None:
    lower, upper, beyond = _certified(method)
    if lower >= EQUAL + beyond:
        return FIRST
    if upper <= EQUAL - beyond:
        return SECOND
    tied = EQUAL - tie / 2 - beyond <= lower and upper <= EQUAL + tie / 2 + beyond
    return NO_DIFFERENCE if tied else None
