"""State the goals of a comparison: which model is better, by how much, or whether a new one is not worse.

With z_first and z_second the scores of two models on the same item, D = z_first - z_second and y = (1 + D)/2: a score
in [0, 1] like any other, whose mean is 1/2 where the models are equal. All goals here read their answer
off the certified interval of the mean of y, so that whatever they say holds together with the interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from cereval.errors import InvalidInput
from cereval.methods.base import Aim, Method
from cereval.questions.goals import in_open_unit_interval
from cereval.stats.rounding import within
from cereval.text import percent

EQUAL = 0.5
ROUNDING = 1e-12
"""Means of all items nearer than this to one another are equal. It need not grow with their number: once all items are
in, their sum is correctly rounded (`math.fsum`), and each score's own rounding is at most 2^-53."""

FINEST = 0.01
"""The bets of a comparison without ties work towards differences of this size."""

FIRST, SECOND, NO_DIFFERENCE = "first", "second", "no-difference"
NOT_WORSE, WORSE = "not-worse", "worse"


@dataclass(frozen=True, slots=True)
class Sign:
    """Decide which of the two is better, or that they differ by no more than `tie`: whichever is certified first.

    >>> Sign(0.02).spec()
    {'goal': 'sign', 'tie': 0.02}
    """

    name: ClassVar[str] = "sign"
    tie: float = 0.02

    def __post_init__(self) -> None:
        object.__setattr__(self, "tie", _zero_or_in_unit_interval("tie", self.tie))

    def aim(self, budget: int | None) -> Aim:
        return Aim(eps=(self.tie or FINEST) / 2, budget=budget, marks=(EQUAL,), strict=True)

    def reached(self, method: Method) -> bool:
        return self.decision(method) is not None

    def decision(self, method: Method) -> str | None:
        """Return "first", "second" or "no-difference"; where two of them hold, the sign, which says more."""
        return _sign_or_tie(method, self.tie)

    @property
    def words(self) -> str:
        return f"which is better, or within {percent(self.tie)}"

    def spec(self) -> dict[str, Any]:
        return {"goal": self.name, "tie": self.tie}


@dataclass(frozen=True, slots=True)
class Difference:
    """Estimate the difference of the two means within `eps`, whatever its sign.

    >>> Difference(0.05).aim(None).eps
    0.025
    """

    name: ClassVar[str] = "difference"
    eps: float = 0.02

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", in_open_unit_interval("eps", self.eps))

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

    def spec(self) -> dict[str, Any]:
        return {"goal": self.name, "eps": self.eps}


@dataclass(frozen=True, slots=True)
class NotWorse:
    """Check for a regression: the first model, say a new version, is not worse than the second by more than `eps`.

    With eps = 0: at least as good. "not-worse" and "worse" cannot both be wrong, so that each has nearly all of delta
    (`stats.interval`), where the two signs of `Sign` are both wrong of models that are equal, and share it.

    >>> NotWorse(0.02).aim(None).marks
    (0.49,)
    """

    name: ClassVar[str] = "not-worse"
    eps: float = 0.02

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", _zero_or_in_unit_interval("eps", self.eps))

    @property
    def limit(self) -> float:
        """Return the mean of y at a difference of -eps."""
        return (1 - self.eps) / 2

    def aim(self, budget: int | None) -> Aim:
        return Aim(eps=FINEST / 2, budget=budget, marks=(self.limit,))

    def reached(self, method: Method) -> bool:
        return self.decision(method) is not None

    def decision(self, method: Method) -> str | None:
        """Return "not-worse", also where the first is worse by exactly eps, or "worse"."""
        interval = method.interval
        # The bets exclude an end that they set, the scores of all items only what lies beyond it.
        beyond = ROUNDING if method.complete else 0.0
        if interval.lower >= self.limit - beyond:
            return NOT_WORSE
        return WORSE if interval.upper <= self.limit - beyond else None

    @property
    def words(self) -> str:
        return f"not worse by more than {percent(self.eps)}?" if self.eps else "at least as good?"

    def spec(self) -> dict[str, Any]:
        return {"goal": self.name, "eps": self.eps}


CompareGoal = Sign | Difference | NotWorse


def _zero_or_in_unit_interval(field: str, value: object) -> float:
    if value == 0 and not isinstance(value, bool):
        return 0.0
    try:
        return in_open_unit_interval(field, value)
    except InvalidInput:
        raise InvalidInput(field, "a number in [0, 1)", value) from None


def _sign_or_tie(method: Method, tie: float) -> str | None:
    interval = method.interval
    # The bets exclude an end that they set, the scores of all items only what lies beyond it.
    beyond = ROUNDING if method.complete else 0.0
    if interval.lower >= EQUAL + beyond:
        return FIRST
    if interval.upper <= EQUAL - beyond:
        return SECOND
    tied = EQUAL - tie / 2 - beyond <= interval.lower and interval.upper <= EQUAL + tie / 2 + beyond
    return NO_DIFFERENCE if tied else None
