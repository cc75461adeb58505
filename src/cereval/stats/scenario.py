"""What is expected of the data before a plan is made.

The finite pool. n draws without replacement from N are worth n / (1 - n/N) independent ones, so a need of n0
becomes n0 / (1 + n0/N) calls for the target `benchmark`, and stays n0 for `population` and `expected`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from cereval.errors import InvalidInput

PlanTarget = Literal["benchmark", "population", "expected"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """The pool's size, the target, and a guess at the scores.

    `mean` is for 0/1 scores and implies the variance; neither given: the worst case, 1/4.
    explained: the share of the variance that history, texts or groups predict; groups: (mass, variance) each.

    >>> Scenario(1000, mean=0.9).variance_or_worst
    0.09
    """

    size: int
    confidence: float = 0.95
    target: PlanTarget = "benchmark"
    mean: float | None = None
    variance: float | None = None
    explained: float | None = None
    groups: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidInput("items", "a whole number >= 1", self.size)
        if not 0 < self.confidence < 1:
            raise InvalidInput("confidence", "a number in (0, 1)", self.confidence)
        if self.mean is not None and self.variance is not None:
            raise InvalidInput("variance", "left out when a mean is given", self.variance)
        _check_range("mean", self.mean, 0, 1)
        _check_range("variance", self.variance, 0, 0.25)
        if self.explained is not None and not 0 <= self.explained < 1:
            raise InvalidInput("explained", "a share in [0, 1)", self.explained)

    @property
    def delta(self) -> float:
        return round(1 - self.confidence, 12)

    @property
    def variance_or_worst(self) -> float:
        if self.mean is not None:
            return round(self.mean * (1 - self.mean), 15)
        return 0.25 if self.variance is None else self.variance

    @property
    def masses(self) -> tuple[float, ...]:
        return tuple(mass for mass, _ in self.groups)

    @property
    def variances(self) -> tuple[float, ...]:
        return tuple(variance for _, variance in self.groups)

    @property
    def skew(self) -> float:
        """|1 - 2p| of the 0/1 scores with this variance."""
        return math.sqrt(max(1 - 4 * self.variance_or_worst, 0.0))

    def calls(self, independent: float) -> int | None:
        """Calls that give as much as so many independent draws; None when the pool cannot."""
        if self.target == "benchmark":
            return max(1, math.ceil(independent / (1 + independent / self.size) - 1e-9))
        needed = max(1, math.ceil(independent - 1e-9))
        return needed if self.target == "expected" or needed <= self.size else None

    def capped(self, items: int) -> int | None:
        """Calls of a method that ignores the finite pool: at worst all, after which a benchmark is known."""
        if items <= self.size or self.target == "expected":
            return items
        return self.size if self.target == "benchmark" else None


def _check_range(field: str, value: float | None, low: float, high: float) -> None:
    if value is not None and not low <= value <= high:
        raise InvalidInput(field, f"a number in [{low}, {high}]", value)
