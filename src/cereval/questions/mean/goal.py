"""State the goals of one mean: `Estimate(eps)`, and on which side of a threshold it lies, `Threshold(value)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from cereval.methods.base import Aim, Method
from cereval.questions.goals import ROUNDING, in_open_unit_interval
from cereval.stats.rounding import within
from cereval.text import percent


@dataclass(frozen=True, slots=True)
class Estimate:
    """Stop as soon as the interval's half-width is at most eps.

    >>> Estimate(0.02)
    Estimate(eps=0.02)
    """

    name: ClassVar[str] = "estimate"
    eps: float = 0.02

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", in_open_unit_interval("eps", self.eps))

    def aim(self, budget: int | None) -> Aim:
        return Aim(eps=self.eps, budget=budget)

    def reached(self, method: Method) -> bool:
        return within(method.radius, self.eps)

    def decision(self, method: Method) -> str | None:  # noqa: ARG002
        return None

    @property
    def words(self) -> str:
        return f"within {percent(self.eps)}"

    def spec(self) -> dict[str, Any]:
        return {"goal": self.name, "eps": self.eps}


@dataclass(frozen=True, slots=True)
class Threshold:
    """Stop as soon as it is certified on which side of `value` the mean lies. A mean equal to it passes.

    >>> Threshold(0.8).spec()
    {'goal': 'threshold', 'value': 0.8}
    """

    name: ClassVar[str] = "threshold"
    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", in_open_unit_interval("threshold", self.value))

    def aim(self, budget: int | None) -> Aim:
        return Aim(threshold=self.value, budget=budget)

    def reached(self, method: Method) -> bool:
        return self.decision(method) is not None

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
        return f"at least {percent(self.value)}?"

    def spec(self) -> dict[str, Any]:
        return {"goal": self.name, "value": self.value}
