"""Evaluate one version of a growing data set (`growing`). Only its new items are asked; the earlier evidence is kept
as wealth.

Guarantee: `anytime`, for all versions at once (see `stats.growing` for the theorem; it assumes nothing of the items).

Take fresh draws of one population, whatever pool the items come from; a growing pool changes nothing: `Stream`.

Evaluate one version of a growing data set whose items are all a sample of the same population: `Sampled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cereval.errors import LogMismatch
from cereval.forecasts.pool import Pool
from cereval.methods.base import Aim, Method, Setting
from cereval.methods.certified import CertifiedMethod, Tuning
from cereval.methods.drawing import draw_order
from cereval.randomness import generator
from cereval.records import Draw, Guarantee, Interval
from cereval.stats.growing import EMPTY, SLACK, Allocation, Course, Ladder, Side
from cereval.stats.increments import Tally
from cereval.stats.information import LARGEST_SQUARE, Information
from cereval.stats.rounding import RunningSum, within

Items = NDArray[np.int64]


CAUTION = 1.2
"""How far horizons err on the far side (see `stats.information`)."""
EXPECTED = 20
"""How many new items the bets believe to have seen already, with the moments of the old ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Hold what the versions so far leave behind: sums over the items asked, the estimate, and the wealth.

    variance, fourth: of the increments in units of their stated variance, as the next version expects them.
    """

    size: int = 0
    asked: int = 0
    low: float = 0.0
    high: float = 0.0
    estimate: float = 0.5
    variance: float = 0.0
    fourth: float = 0.0
    ladders: tuple[Ladder, Ladder] = (EMPTY, EMPTY)


@dataclass(frozen=True, slots=True)
class Terms:
    """Hold what all versions of a session share."""

    eps: float
    delta: float
    seed: int
    allocation: Allocation = field(default_factory=Allocation)


class Grown(Method):
    """Evaluate version number `number`: `new` items, which follow on `standing.size` others."""

    name: ClassVar[str] = "growing"
    guarantee: ClassVar[Guarantee] = "anytime"

    def __init__(self, standing: Standing, new: int, number: int, terms: Terms) -> None:
        self.before, self.new, self.terms = standing, new, terms
        self.size = standing.size + new
        self.course = course_of(standing, new, terms)
        self.sides = tuple(
            Side(ladder, course, mirrored=bool(side), allocation=terms.allocation)
            for side, (ladder, course) in enumerate(
                zip(standing.ladders, (self.course, self.course.mirrored), strict=True)
            )
        )
        self.demand = max(side.demand for side in self.sides)
        self.tally = Tally(np.full(new, 1 / new), replacement=False)
        self.clock = expecting(standing)
        self._expected = self.clock.total
        self._number = number
        self._order = draw_order(generator("growing data", terms.seed, number), new, ())
        self._drawn = 0
        self._told = 0
        self._low, self._high = RunningSum(), RunningSum()
        self._interval = self._found()

    def follow(self, log: Sequence[Draw], *, check: bool = False) -> None:
        super().follow(log, check=check)
        rng, first = generator("growing data", self.terms.seed, self._number), self.before.size
        for draw in log:
            if not first <= draw.item < self.size:
                raise LogMismatch(
                    f"draw {draw.index} has item {draw.item}, which is not in {first}..{self.size - 1}"
                )
        new = [replace(draw, item=draw.item - first) for draw in log]
        self._order = draw_order(rng, self.new, new, check=check)

    def next_draw(self) -> Draw | None:
        if self._drawn == self.new:
            return None
        index, self._drawn = self._drawn, self._drawn + 1
        return Draw(index, self.before.size + int(self._order[index]), 1 / (self.new - index))

    def observe(self, draw: Draw, low: float, high: float) -> None:
        prospect = self.tally.prospect()
        clock = self.clock
        variance = clock.cautious_variance(CAUTION)
        needed = (1 + self.terms.allocation.margin) * variance * self.demand + self._expected
        for side in self.sides:
            side.stake(prospect, clock, needed)
        increment = self.tally.settle(draw.item - self.before.size, low, high)
        for side in self.sides:
            side.settle(increment)
        below, above = self.sides
        below.leave_out(1 - above.lowest)
        above.leave_out(1 - below.lowest)
        clock.add((increment.low + increment.high) / 2, prospect.variance, prospect.largest_square)
        self._told += 1
        self._low.add(low)
        self._high.add(high)
        self._interval = self._found()

    # -- what is certified --------------------------------------------------------------------------------------

    @property
    def limit(self) -> int:
        """Return how many items there are to ask."""
        return self.new

    @property
    def certain(self) -> tuple[float, float]:
        """Return what the new scores alone prove: c is at least the first, 1 - c at least the second."""
        return self._low.value / self.new, (self._told - self._high.value) / self.new

    @property
    def logical(self) -> Interval:
        """Return what all scores seen prove of R by themselves."""
        low = (self.before.low + self._low.value) / self.size
        unseen = self.size - self.before.asked - self._told
        high = (self.before.high + self._high.value + unseen) / self.size
        slack = SLACK if unseen else 0.0
        return Interval(max(low - slack, 0.0), min(high + slack, 1.0))

    def _found(self) -> Interval:
        """Return what bets and scores prove together; inverted after an event of probability delta."""
        low, high = (side.lower(certain) for side, certain in zip(self.sides, self.certain, strict=True))
        logical = self.logical
        return Interval(max(low, logical.lower), min(1 - high, logical.upper))

    @property
    def contradiction(self) -> bool:
        return self._interval.lower > self._interval.upper + SLACK

    @property
    def interval(self) -> Interval:
        return self.logical if self.contradiction else self._interval

    @property
    def estimate(self) -> float:
        """Return both parts' estimates together, moved to where the interval reaches at most eps on either side."""
        interval, eps, weight = self.interval, self.terms.eps, self.course.weight
        low, high = interval.lower, interval.upper
        if within(interval.half_width, eps):
            low, high = max(low, interval.upper - eps), min(high, interval.lower + eps)
        return min(max(weight * self.before.estimate + (1 - weight) * self._mean(), low), max(high, low))

    def _mean(self) -> float:
        """Return the mean of the new items: information-weighted, without what was expected of it beforehand."""
        clock = self.clock
        if self._told == self.new:
            return (self._low.value + self._high.value) / (2 * self.new)
        if clock.total <= self._expected:
            return clock.mean
        prior = self._expected * self.before.estimate
        return (clock.total * clock.mean - prior) / (clock.total - self._expected)

    def standing(self) -> Standing:
        """Return what the next version starts from."""
        interval = self.interval
        ends = (interval.lower, interval.upper), (1 - interval.upper, 1 - interval.lower)
        below, above = (
            side.ladder_to(*end, certain)
            for side, end, certain in zip(self.sides, ends, self.certain, strict=True)
        )
        low, high = self.before.low + self._low.value, self.before.high + self._high.value
        asked = self.before.asked + self._told
        clock = self.clock
        moments = clock.variance, clock.fourths / max(clock.count, 1)
        return Standing(self.size, asked, low, high, self.estimate, *moments, (below, above))


def course_of(standing: Standing, new: int, terms: Terms) -> Course:
    """Return where the bets of a version aim; the next one is expected to add as many items as this one did."""
    size = standing.size + new
    following = size / (size + new) if standing.size else terms.allocation.next_weight
    return Course(standing.size / size, following, terms.eps, terms.delta / 2, standing.estimate)


def expecting(standing: Standing) -> Information:
    """Return a clock that starts as if `EXPECTED` new items had been like the old: it steers bets and proves
    nothing."""
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
    """Estimate the population's mean from scores told one by one; who draws the items is another's business.

    Assumption: each score told is that of an independent draw of the population, given those before.
    """

    name: ClassVar[str] = "growing"
    default_tuning: ClassVar[Tuning] = Tuning(own_level=False)

    def __init__(self, eps: float, delta: float, seed: int) -> None:
        super().__init__(Setting(Pool.build(1), "population", delta, seed, Aim(eps=eps)))

    def next_draw(self) -> Draw | None:
        return None

    def take(self, low: float, high: float) -> None:
        """Take the score of the next item, in [low, high]."""
        self.observe(Draw(self.consumed, 0, 1.0), low, high)


class Sampled(Method):
    """All versions feed one confidence sequence for the population's mean, so a new version may cost nothing.

    Theorem: that of `stats.interval` for one target; one event of probability at most delta covers every version.
    Assumption: the items of all versions are independent draws of one population, new ones included. Where
    new items may differ from the old, use the target `benchmark`, which assumes nothing.
    """

    name: ClassVar[str] = "growing"
    guarantee: ClassVar[Guarantee] = "anytime"

    def __init__(self, stream: Stream, items: Items, number: int, seed: int) -> None:
        self.stream = stream
        self._items, self._seed = items, (seed, number)
        self._order = items[draw_order(generator("growing data", seed, number), len(items), ())]
        self._drawn = self._consumed = 0

    def follow(self, log: Sequence[Draw], *, check: bool = False) -> None:
        super().follow(log, check=check)
        places = {int(item): place for place, item in enumerate(self._items)}
        for draw in log:
            if draw.item not in places:
                raise LogMismatch(f"draw {draw.index} has item {draw.item}, which this version does not ask")
        found = [replace(draw, item=places[draw.item]) for draw in log]
        rng = generator("growing data", *self._seed)
        self._order = self._items[draw_order(rng, len(self._items), found, check=check)]

    def next_draw(self) -> Draw | None:
        if self._drawn == len(self._order):
            return None
        index, self._drawn = self._drawn, self._drawn + 1
        return Draw(index, int(self._order[index]), 1 / (len(self._order) - index))

    def observe(self, draw: Draw, low: float, high: float) -> None:  # noqa: ARG002
        self.stream.take(low, high)
        self._consumed += 1

    @property
    def limit(self) -> int:
        """Return how many items there are to ask."""
        return len(self._order)

    @property
    def unseen(self) -> Items:
        """Return the items not asked so far."""
        return np.sort(self._order[self._consumed :])

    @property
    def interval(self) -> Interval:
        return self.stream.interval

    @property
    def estimate(self) -> float:
        return self.stream.estimate

    @property
    def contradiction(self) -> bool:
        return self.stream.contradiction
