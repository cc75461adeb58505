"""Estimate the mean score within eps: `Estimate(eps)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from cereval.errors import InvalidInput
from cereval.methods.base import Aim, Method
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


LEAST_CONFIDENCE = 1e-12
"""What is smaller leaves a chance to miss that rounds to 1, which no bet can be planned for."""

SMALLEST = 1e-100
"""What is smaller is no half-width, and its square is 0."""


def in_open_unit_interval(field: str, value: object) -> float:
    """Return the value as a float, if it is a number strictly between 0 and 1."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if isinstance(value, bool) or not SMALLEST < number < 1.0:
        raise InvalidInput(field, "a number in (0, 1)", value)
    return number


def checked_confidence(value: object) -> float:
    """Return the value as a float, if it is a confidence.

    >>> checked_confidence("0.95")
    0.95
    """
    number = in_open_unit_interval("confidence", value)
    if number < LEAST_CONFIDENCE:
        raise InvalidInput("confidence", f"a number in (0, 1), at least {LEAST_CONFIDENCE:g}", value)
    return number
