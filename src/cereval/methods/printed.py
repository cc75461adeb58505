"""Hold what the paper's four methods share: a mean with a printed radius around it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator

import numpy as np

from cereval.errors import InvalidInput
from cereval.methods.base import Method, Setting, Target
from cereval.records import Draw, Interval


class PrintedMethod(Method):
    """estimate ± radius, clipped to [0, 1].

    A failed call counts as score 0 in the low mean and 1 in the high mean: the estimate is their middle and
    the radius grows by half their distance. Once every item of a `benchmark` pool is in, there is nothing
    left to estimate and the interval is [sum low/N, sum high/N].
    """

    targets: tuple[Target, ...] = ("benchmark", "population")

    def __init__(self, setting: Setting) -> None:
        if setting.pool.weights is not None:
            raise InvalidInput(
                "weights", f"left out for the method {self.name}: its theorem is for equal weights", "weights"
            )
        if setting.target not in self.targets:
            raise InvalidInput(
                "target", f"one of {', '.join(self.targets)} for the method {self.name}", setting.target
            )
        self.setting = setting
        self._drawn = 0
        self._consumed = 0
        self._lows: list[float] = []
        self._highs: list[float] = []
        self._low = 0.0
        self._high = 0.0

    def observe(self, draw: Draw, low: float, high: float) -> None:  # noqa: ARG002
        self._consumed += 1
        self._low += low
        self._high += high
        self._lows.append(low)
        self._highs.append(high)

    @property
    def complete(self) -> bool:
        """Tell whether every item of a `benchmark` pool is in, so that the mean is known."""
        return self.setting.target == "benchmark" and self._consumed == self.setting.pool.size

    @property
    def estimate(self) -> float:
        return self._span().middle

    @property
    def radius(self) -> float:
        gap = self._span().half_width
        return gap if self.complete else gap + self._printed_radius()

    @property
    def interval(self) -> Interval:
        span = self._span()
        if self.complete:
            return span
        radius = self._printed_radius()
        return Interval(max(span.lower - radius, 0.0), min(span.upper + radius, 1.0))

    def _span(self) -> Interval:
        """Return the point estimate with every failed call as 0, and with every failed call as 1."""
        return self._whole_mean() if self.complete else self._means()

    def _whole_mean(self) -> Interval:
        # Correctly rounded sums: the mean of the whole pool must not depend on the order of the draws.
        size = self.setting.pool.size
        return Interval(math.fsum(self._lows) / size, math.fsum(self._highs) / size)

    def _plain_mean(self) -> Interval:
        n = self._consumed
        return Interval(self._low / n, self._high / n) if n else Interval(0.5, 0.5)

    def _means(self) -> Interval:
        return self._plain_mean()

    @abstractmethod
    def _printed_radius(self) -> float:
        """Return the paper's radius after the results consumed so far; 1 when it has none yet."""

    def _next(self, item: int, candidates: int) -> Draw:
        self._drawn += 1
        return Draw(self._drawn - 1, item, 1.0 / candidates)


def random_order(setting: Setting, stream: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the pool's items in an order that only the seed decides."""
    return np.random.default_rng([setting.seed, stream]).permutation(setting.pool.size)


def uniform_items(setting: Setting, stream: int) -> Iterator[tuple[int, int]]:
    """Yield (item, number of candidates) for uniform draws: each item once, or with replacement for `expected`."""
    size = setting.pool.size
    if setting.target != "expected":
        for position, item in enumerate(random_order(setting, stream)):
            yield int(item), size - position
        return
    rng = np.random.default_rng([setting.seed, stream])
    while True:
        yield int(rng.integers(size)), size
