"""Hold what the paper's four methods share: a mean with a printed radius around it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cereval.errors import InvalidInput, LogMismatch
from cereval.methods.base import Method, Setting, Target
from cereval.methods.drawing import as_logged, draw_order
from cereval.randomness import generator
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
        index, chance = self._drawn, 1.0 / candidates
        self._drawn += 1
        if index >= len(self.log):
            return Draw(index, item, chance)
        logged = self.log[index]
        if self.check and logged.item != item:
            raise LogMismatch(f"draw {index} would have been item {item}; the log has item {logged.item}")
        as_logged(np.array([chance]), [logged])
        return Draw(index, logged.item, logged.probability)

    def _uniform_items(self) -> Iterator[tuple[int, int]]:
        """Yield (item, number of candidates) for uniform draws: each item once, or with replacement for `expected`."""
        size = self.setting.pool.size
        if self.setting.target != "expected":
            for position, item in enumerate(self._random_order()):
                yield int(item), size - position
            return
        rng = generator("draws with replacement", self.setting.seed)
        while True:
            yield int(rng.integers(size)), size

    def _random_order(self) -> NDArray[np.int64]:
        """Return the items in random order; those of a log that need not be checked first."""
        rng = generator("order of the paper's methods", self.setting.seed)
        return draw_order(rng, self.setting.pool.size, () if self.check else self.log)
