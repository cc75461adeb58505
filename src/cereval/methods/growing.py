"""Evaluate one version of a growing data set (`growing`): only its new items are asked, the earlier evidence is kept.

Guarantee: `anytime`, for all versions at once. `Grown` keeps the evidence as wealth (see `stats.growing` for the
theorem; it assumes nothing of the items); `Sampled` takes all items for a sample of one population.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from cereval.arrays import Ints
from cereval.errors import LogMismatch
from cereval.forecasts.pool import Pool
from cereval.methods.base import NO_DRAWS, Aim, Draws, Method, Setting
from cereval.methods.certified import CertifiedMethod, Tuning, clipped, overlap
from cereval.methods.drawing import draw_order
from cereval.randomness import generator
from cereval.records import Draw, Guarantee, Interval
from cereval.stats.growing import EMPTY, SLACK, Allocation, Cells, Course, Side
from cereval.stats.increments import Tally
from cereval.stats.information import LARGEST_SQUARE, Information
from cereval.stats.rounding import RunningSum

CAUTION = 1.2  # How far horizons err on the far side (see `stats.information`)
EXPECTED = 20  # How many new items the bets believe to have seen already, with the moments of the old ones


class VersionMethod(Method):
    """Draw the items that a version asks in random order, each once."""

    name: ClassVar[str] = "growing"
    guarantee: ClassVar[Guarantee] = "anytime"

    def __init__(self, items: Ints, number: int, seed: int) -> None:
        super().__init__()
        self._own, self._number, self._seed = items, number, seed

    def decide_draws(self) -> Draws:
        if self._items:
            return NO_DRAWS
        places = {int(item): place for place, item in enumerate(self._own)}
        for draw in self.log:
            if draw.item not in places:
                raise LogMismatch(f"draw {draw.index} has item {draw.item}, which this version does not ask")
        log = [replace(draw, item=places[draw.item]) for draw in self.log]
        rng = generator("growing data", self._seed, self._number)
        order = draw_order(rng, self.limit, log, check=self.check)
        return self._own[order], 1 / np.arange(self.limit, 0, -1)

    @property
    def limit(self) -> int:
        return len(self._own)

    @property
    def unseen(self) -> Ints:
        return np.setdiff1d(self._own, np.array(self._items[: self.consumed]))


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """What the versions so far leave behind: sums over the items asked, the estimate, and the wealth.

    variance, fourth: of the increments in units of their stated variance, as the next version expects them.
    """

    size: int = 0
    asked: int = 0
    low: float = 0.0
    high: float = 0.0
    estimate: float = 0.5
    variance: float = 0.0
    fourth: float = 0.0
    cells: tuple[Cells, Cells] = (EMPTY, EMPTY)


@dataclass(frozen=True, slots=True)
class Terms:
    """What all versions of a session share."""

    eps: float
    delta: float
    seed: int
    allocation: Allocation = field(default_factory=Allocation)


class Grown(VersionMethod):
    """Evaluate version number `number`: `new` items, which follow on `standing.size` others."""

    def __init__(self, standing: Standing, new: int, number: int, terms: Terms) -> None:
        self.before, self.new, self.terms = standing, new, terms
        self.size = standing.size + new
        super().__init__(np.arange(standing.size, self.size), number, terms.seed)
        # The next version is expected to add as many items as this one did.
        following = self.size / (self.size + new) if standing.size else terms.allocation.next_weight
        weight, alpha = standing.size / self.size, terms.delta / 2
        self.course = Course(weight, following, terms.eps, alpha, standing.estimate)
        below, above = standing.cells
        self.sides = (
            Side(below, self.course, mirrored=False, allocation=terms.allocation),
            Side(
                above,
                replace(self.course, centre=1 - standing.estimate),
                mirrored=True,
                allocation=terms.allocation,
            ),
        )
        self.demand = max(side.demand for side in self.sides)
        self.tally = Tally(np.full(new, 1 / new), replacement=False)
        self.clock = expecting(standing)
        self._expected = self.clock.total
        self._low, self._high = RunningSum(), RunningSum()
        self._interval = self._certify()

    def observe(self, draw: Draw, low: float, high: float) -> None:
        prospect, clock = self.tally.prospect(), self.clock
        margin = 1 + self.terms.allocation.margin
        needed = margin * clock.cautious_variance(CAUTION) * self.demand + self._expected
        for side in self.sides:
            side.stake(prospect, clock, needed)
        increment = self.tally.settle(draw.item - self.before.size, low, high)
        for side in self.sides:
            side.settle(increment)
        below, above = self.sides
        below.leave_out_above(1 - above.lowest)
        above.leave_out_above(1 - below.lowest)
        clock.add((increment.low + increment.high) / 2, prospect.variance, prospect.largest_square)
        self.consumed += 1
        self._low.add(low)
        self._high.add(high)
        self._interval = self._certify()

    # -- what is certified --------------------------------------------------------------------------------------

    @property
    def certain(self) -> tuple[float, float]:
        """What the new scores alone prove: c is at least the first, 1 - c at least the second."""
        return self._low.value / self.new, (self.consumed - self._high.value) / self.new

    @property
    def logical(self) -> Interval:
        low = (self.before.low + self._low.value) / self.size
        unseen = self.size - self.before.asked - self.consumed
        high = (self.before.high + self._high.value + unseen) / self.size
        slack = SLACK if unseen else 0.0
        return Interval(max(low - slack, 0.0), min(high + slack, 1.0))

    def _certify(self) -> Interval:
        """What bets and scores prove together; inverted after an event of probability delta."""
        low, high = (side.lower(certain) for side, certain in zip(self.sides, self.certain, strict=True))
        return overlap(Interval(low, 1 - high), self.logical)

    @property
    def contradiction(self) -> bool:
        return self._interval.lower > self._interval.upper + SLACK

    @property
    def interval(self) -> Interval:
        return self.logical if self.contradiction else self._interval

    @property
    def estimate(self) -> float:
        weight = self.course.weight
        value = weight * self.before.estimate + (1 - weight) * self._mean()
        return clipped(value, self.interval)

    def _mean(self) -> float:
        """The mean of the new items: information-weighted, without what was expected of it beforehand."""
        clock = self.clock
        if self.consumed == self.new:
            return (self._low.value + self._high.value) / (2 * self.new)
        if clock.total <= self._expected:
            return clock.mean
        prior = self._expected * self.before.estimate
        return (clock.total * clock.mean - prior) / (clock.total - self._expected)

    def standing(self) -> Standing:
        (low, high), clock = (self.interval.lower, self.interval.upper), self.clock
        (below, above), (certain, certain_above) = self.sides, self.certain
        return Standing(
            size=self.size,
            asked=self.before.asked + self.consumed,
            low=self.before.low + self._low.value,
            high=self.before.high + self._high.value,
            estimate=self.estimate,
            variance=clock.variance,
            fourth=clock.fourths / max(clock.count, 1),
            cells=(
                below.cells_between(low, high, certain),
                above.cells_between(1 - high, 1 - low, certain_above),
            ),
        )


def expecting(standing: Standing) -> Information:
    """A clock that starts as if `EXPECTED` new items had been like the old: it steers bets and proves nothing."""
    if not standing.size:
        return Information()
    return Information(
        count=EXPECTED,
        total=EXPECTED * LARGEST_SQUARE,
        mean=standing.estimate,
        squares=EXPECTED * standing.variance,
        fourths=EXPECTED * standing.fourth,
    )


class Stream(CertifiedMethod):
    """Estimate a population's mean from scores told one by one; who draws the items is another's business.

    Assumption: each score told is that of an independent draw of the population, given those before.
    """

    name: ClassVar[str] = "growing"
    default_tuning: ClassVar[Tuning] = Tuning(own_level=False)

    def __init__(self, eps: float, delta: float, seed: int) -> None:
        super().__init__(Setting(Pool.build(1), "population", delta, seed, Aim(eps=eps)))

    def take(self, low: float, high: float) -> None:
        self.observe(Draw(self.consumed, 0, 1.0), low, high)


class Sampled(VersionMethod):
    """All versions feed one confidence sequence for the population's mean, so a new version may cost nothing.

    Theorem: that of `stats.interval` for one target; one event of probability at most delta covers every version.
    Assumption: the items of all versions are independent draws of one population, new ones included. Where
    new items may differ from the old, use the target `benchmark`, which assumes nothing.
    """

    def __init__(self, stream: Stream, items: Ints, number: int, seed: int) -> None:
        super().__init__(items, number, seed)
        self.stream = stream

    def observe(self, draw: Draw, low: float, high: float) -> None:  # noqa: ARG002
        self.stream.take(low, high)
        self.consumed += 1

    @property
    def interval(self) -> Interval:
        return self.stream.interval

    @property
    def estimate(self) -> float:
        return self.stream.estimate

    @property
    def contradiction(self) -> bool:
        return self.stream.contradiction
