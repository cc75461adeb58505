"""The audit's own clock: weighted mean, variance and fourth moment of the increments."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from cereval.stats.information import LARGEST_SQUARE, LEVEL_WEIGHT, MISLED, MISLED_AFTER, PRIOR_WEIGHT


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
    level: float = 0.0

    def add(
        self,
        value: float,
        relative_variance: float,
        largest_square: float = LARGEST_SQUARE,
        level: float = 0.0,
    ) -> None:
        weight, before = 1.0 / relative_variance, value - self.mean if self.count else 0.0
        self.count += 1
        self.total += weight
        self.weighted += weight * value
        square = weight * before * (value - self.mean)
        self.squares += square
        self.fourths += square**2
        self.largest_square = largest_square
        self.level = level

    @property
    def mean(self) -> float:
        return self.weighted / self.total if self.count else 0.5

    @property
    def variance(self) -> float:
        """sigma^2, shrunk towards the level expected and the largest variance the range allows."""
        priors = ((PRIOR_WEIGHT, self.largest_square / 4), (LEVEL_WEIGHT if self.level else 0.0, self.level))
        weight = self.count + sum(weight for weight, _ in priors)
        shrunk = (self.squares + sum(weight * value for weight, value in priors)) / weight
        own = MISLED * self.squares / (self.count + MISLED_AFTER)
        return max(shrunk, own) if self.level else shrunk

    def cautious_variance(self, caution: float, surprise: float) -> float:
        """sigma^2 plus `caution` standard errors, plus an allowance for rare values not yet seen."""
        mean, fourth = self.squares / max(self.count, 1), self.fourths / max(self.count, 1)
        error = sqrt(max(fourth - mean**2, 0.0) / (self.count + 1))
        if self.level:
            error *= self.count / (self.count + LEVEL_WEIGHT)
        return (
            self.variance + caution * error + surprise * caution**2 / (self.count + 1) * self.largest_square
        )
