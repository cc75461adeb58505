"""The audit's own clock: weighted mean, variance and fourth moment of the increments."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from cereval.stats.information import LARGEST_SQUARE, PRIOR_WEIGHT


@dataclass(slots=True)
class SlowClock:
    """Plain sums, where `stats.information` updates a mean (Welford).

    `squares` sums products of the deviations before and after each value, as in Welford's recursion: they
    are what the bets look at, so that the audit has to look at them too.

    >>> clock = SlowClock()
    >>> for x in (0.0, 1.0, 1.0, 0.0):
    ...     clock.add(x, 1.0)
    >>> clock.mean, clock.total
    (0.5, 4.0)
    """

    count: int = 0
    total: float = 0.0
    weighted: float = 0.0
    squares: float = 0.0
    fourths: float = 0.0
    largest_square: float = LARGEST_SQUARE

    def add(self, value: float, relative_variance: float, largest_square: float = LARGEST_SQUARE) -> None:
        weight, before = 1.0 / relative_variance, value - self.mean if self.count else 0.0
        self.count += 1
        self.total += weight
        self.weighted += weight * value
        square = weight * before * (value - self.mean)
        self.squares += square
        self.fourths += square**2
        self.largest_square = largest_square

    @property
    def mean(self) -> float:
        return self.weighted / self.total if self.count else 0.5

    @property
    def variance(self) -> float:
        """sigma^2, shrunk towards the largest variance the range allows."""
        return (self.squares + PRIOR_WEIGHT * self.largest_square / 4) / (self.count + PRIOR_WEIGHT)

    def cautious_variance(self, caution: float, surprise: float) -> float:
        """sigma^2 plus `caution` standard errors, plus an allowance for rare values not yet seen."""
        mean, fourth = self.squares / max(self.count, 1), self.fourths / max(self.count, 1)
        error = sqrt(max(fourth - mean**2, 0.0) / (self.count + 1))
        return (
            self.variance + caution * error + surprise * caution**2 / (self.count + 1) * self.largest_square
        )
