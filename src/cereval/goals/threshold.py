"""`Threshold(c)`: is the mean score above or below c?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from cereval.goals.estimate import in_open_unit_interval
from cereval.methods.base import Aim, Method
from cereval.text import percent


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
        """ "above" or "below" once the interval no longer straddles the threshold.

        The theorem excludes values up to and including an open end, so a statistical limit equal to the
        threshold decides; a mean known to equal it counts as above: it is at least the threshold.
        """
        interval = method.interval
        if interval.lower >= self.value:
            return "above"
        return "below" if interval.upper <= self.value else None

    @property
    def words(self) -> str:
        return f"at least {percent(self.value)}?"

    def spec(self) -> dict[str, Any]:
        return {"goal": self.name, "value": self.value}
