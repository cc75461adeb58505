"""Compute the interval a second time, slowly and obviously, straight from the formulas.

The audit shares nothing with `stats.increments`, `stats.interval`, `stats.bets` and `stats.threshold` but their
tuning constants: sums over the unseen items are counted in `book`, and every value has its own wealth. A result costs
a few operations for every value that is still open, as it cost the session: no step looks at all items or all values.
The forecasts g, draw weights w and the variance expected of an increment are handed in: the theorem holds for any
that depend on the past alone.

With S the items seen, U those unseen, pi the target's weights, q = w / W on U, W = sum_U w:

    X = sum_S pi z + sum_U pi g + (z_I - g_I) pi_I / q_I
    K+(m) *= 1 + lambda (X - m)        K-(m) *= 1 - lambda (X - m)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from scipy.special import ndtri

from cereval.arrays import Bools, Floats
from cereval.certificate.audit import Book, Case, SlowClock, Step
from cereval.methods.certified import (
    ALIKE,
    BESIDE_SHARE,
    CELLS,
    DEFAULT_EPS,
    FINER,
    GRID_STEPS_PER_EPS,
    LOGICAL_SLACK,
    MOST_LEVEL,
    RESERVE,
    SIDE_CAP,
    SMALLEST_GRID_STEP,
    SPARE,
    STEP_OF_COUNTS,
)
from cereval.records import Interval
from cereval.stats.bets import HIGHEST_CHANCE, LOWEST_CHANCE, SLOPE_ABOVE, SLOPE_BELOW, SideBets
from cereval.stats.information import LARGEST_SQUARE
from cereval.stats.interval import CAP, ROUNDING
from cereval.stats.ladder import SLACK, Rungs
from cereval.stats.threshold import GAPS


class SlowTable:
    """Keep K+ and K- for every value of a grid; a value leaves play once one end of the interval has passed it."""

    def __init__(self, case: Case) -> None:
        self.case, self.tuning = case, case.tuning
        self.aim, *self.coming = case.aims
        self.beside = self.aim.threshold is not None
        self.delta = RESERVE * case.delta if self.beside else case.delta
        self.drawable = int(np.count_nonzero(case.shares > 0))
        self.marked, self.strict = bool(self.aim.marks), self.aim.strict
        steps = int(np.ceil(1.0 / self._first_step()))
        self.values = np.unique([*np.linspace(0.0, 1.0, steps + 1), *self.aim.marks])
        self.widest = float(np.max(self.values[1:] - self.values[:-1]))
        self.cap = SIDE_CAP if self.marked else self.tuning.cap
        self.wealth = [[log(share) + start for start in self._starts()] for share in self._shares()]
        self.rungs = None if self.marked else self._rungs()
        self.rejected = [np.zeros(len(self.values), dtype=bool) for _ in range(2)]
        self.first, self.last = 0, len(self.values)
        self.graded = False

    def _starts(self) -> list[Floats]:
        if self.marked:
            return [np.log([self._near_or_far(value, sign) for value in self.values]) for sign in (-1, 1)]
        tilt = self.tuning.tilt
        most = log(1 + tilt * float(np.max(self.values[1:] - self.values[:-1])))
        return [np.log(1 + sign * tilt * (1 - 2 * self.values)) - most for sign in (-1, 1)]

    def _near_or_far(self, value: float, sign: int) -> float:
        """Return the capital of one game: most of it against the values up to the mark (K+), or from it on (K-)."""
        beyond = sign * (self.aim.marks[0] - value)
        if self.strict and beyond == 0:
            return 1.0
        return 2 * SPARE if beyond > 0 else 2 - 2 * SPARE

    def _shares(self) -> list[float]:
        if self.marked:
            sides = self.tuning.sides
            return [sides.share, *((1 - sides.share) / len(sides.gaps) for _ in sides.gaps)]
        left = 1 - self._ladder_share
        return [left * (1 - self.tuning.rescue), left * self.tuning.rescue]

    @property
    def _ladder_share(self) -> float:
        return BESIDE_SHARE if self.beside else self.tuning.ladder.share

    def _rungs(self) -> SlowLadder:
        ladder, tail = self.tuning.ladder, self.delta / 2
        # 1 - tail rounds to 1 where the tail is thinner than that: without end, where the horizons would be too.
        quantile = float(ndtri(1 - tail) if tail > np.finfo(float).eps else -ndtri(tail))
        draws = (quantile / self._eps(0.5)) ** 2 / LARGEST_SQUARE
        horizons = [ladder.horizons[0]]
        while 4 * horizons[-1] <= draws:
            horizons.append(2 * horizons[-1])
        return SlowLadder(ladder, horizons, self._ladder_share, tail, ladder.cap or self.cap, self.widest)

    def play(self, position: Step, clock: SlowClock) -> None:
        while self.coming and self.coming[0].since <= position.number:
            self.aim = self.coming.pop(0)
        still = slice(self.first, max(self.first, self.last))
        values = self.values[still]
        eps = self._eps(clock.mean)
        ahead = self._ahead(values, position, clock, eps)
        gaps = self.tuning.sides.gaps if self.marked else (eps,)
        if self.rungs is not None and len(values):
            self.rungs.play(values[0], values[-1], position, clock)
        for side, gain in enumerate((position.low - values, values - position.high)):
            spread = null_variance(values, position, clock, side)
            room = values - position.floor if side == 0 else position.ceiling - values
            most = self.cap / np.maximum(room, 1e-12)
            stakes = [self._deadline(self.wealth[0][side][still], spread, position, ahead)]
            stakes += [gap / (spread * position.variance) for gap in gaps]
            for account, stake in enumerate(stakes):
                self.wealth[account][side][still] += np.log1p(np.minimum(stake, most) * gain)
            parts = [account[side][still] for account in self.wealth]
            if self.rungs is not None and len(values):
                parts.append(self.rungs.on(values, side))
            self.rejected[side][still] |= self._enough(parts)
        self._close()
        self._refine_when_near(clock.mean)

    def _enough(self, wealth: Sequence[Floats]) -> Bools:
        """Tell whether the accounts of each value together reach 2/delta: the largest of k is then at least a
        k-th of it."""
        bar = log(2 / self.delta) + ROUNDING
        found = np.maximum.reduce(wealth) >= bar - log(len(wealth)) - ROUNDING
        if found.any():
            found[found] = np.logaddexp.reduce([one[found] for one in wealth], axis=0) >= bar
        return np.asarray(found)

    def _deadline(self, wealth: Floats, spread: Floats, position: Step, ahead: float | Floats) -> Floats:
        overshoot = SideBets(self.delta / 2).overshoot if self.marked else self.tuning.overshoot
        slope = slope_of(wealth, self.delta / 2 / (1 + overshoot))
        return np.asarray(slope / (np.sqrt(spread * ahead) * position.variance))

    def _ahead(self, values: Floats, position: Step, clock: SlowClock, eps: float) -> float | Floats:
        """Return the information until the horizon: one for an estimate; with marks, each value's own."""
        if not self.marked:
            needed = self._needed(position, clock, eps)
            return max(needed - clock.total, self.tuning.patience * needed)
        bets = SideBets(self.delta / 2)
        error = sqrt(clock.variance / clock.total) if clock.total else 0.5
        gaps = np.maximum(np.abs(clock.mean - values), max(bets.certain * error, eps))
        variance = clock.cautious_variance(bets.caution)
        level = self.delta * (1 - SPARE)
        if level > MOST_LEVEL:
            level = self.delta / 2
        wanted = (1 + bets.margin) * variance * (ndtri(1 - level) / gaps) ** 2
        return np.asarray(np.maximum(wanted - clock.total, bets.patience * wanted))

    def _needed(self, position: Step, clock: SlowClock, eps: float) -> float:
        """Return the information at which a fixed-n test is 2 eps wide, or that which the budget still buys."""
        level = self.case.delta / 2
        if self.tuning.own_level:
            level = self.delta / 2 * self._shares()[0] / (1 + self.tuning.overshoot)
        quantile = float(ndtri(1 - level))
        if self.tuning.far and not position.uneven:
            wanted = fixed_n_information(clock, self.tuning.far, quantile / eps, eps, self.graded)
        else:
            wanted = clock.cautious_variance(self.tuning.caution) * (quantile / eps) ** 2
        least = self.tuning.graded_margin if self.graded else 0.0
        needed = (1 + max(self.tuning.margin, least)) * wanted
        if self.graded and self.tuning.graded_patience:
            needed = max(needed, clock.total + self.tuning.graded_patience * needed)
        if self.aim.budget is None:
            return needed
        calls = max(self.aim.budget - clock.count, 1)
        if self.case.replacement:
            return min(needed, clock.total + calls / position.variance)
        left = self.drawable - clock.count
        calls = min(calls, left)
        return min(needed, clock.total + calls / max(1 - calls / left, 1e-9) / position.variance)

    def _eps(self, mean: float) -> float:
        if self.aim.eps is not None:
            return self.aim.eps
        if self.aim.threshold is None or self.beside:
            return DEFAULT_EPS
        return min(max(abs(mean - self.aim.threshold), 0.005), 0.25)

    def _step(self, mean: float, steps: int = GRID_STEPS_PER_EPS) -> float:
        return max(self._eps(mean) / steps, SMALLEST_GRID_STEP)

    def _first_step(self) -> float:
        """Return the step of the grid at first: the finest times a power of FINER, with at least CELLS values."""
        if self.marked:
            return self._step(0.5)
        step = self._step(0.5, self.tuning.finest)
        while 1 / (FINER * step) >= CELLS:
            step *= FINER
        return step

    def _refine_when_near(self, mean: float) -> None:
        finest = self._step(mean, self.tuning.finest) * (1 + ALIKE)
        while not self.marked and self.widest > finest:
            interval = self.interval
            if FINER * (interval.upper - interval.lower) >= (1 - ALIKE) * CELLS * self.widest:
                return
            self._refine(max(finest, self.widest / FINER))

    def _refine(self, step: float) -> None:
        """Put new values between the old ones: K+ goes on with the account of the next value above, K- below."""
        parts = int(np.ceil(self.widest / step - 1e-9))
        if parts <= 1:
            return
        steps = (len(self.values) - 1) * parts
        above = [-(-spot // parts) for spot in range(steps + 1)]
        below = [spot // parts for spot in range(steps + 1)]
        for account in self.wealth:
            account[0], account[1] = account[0][above], account[1][below]
        self.rejected = [self.rejected[0][above], self.rejected[1][below]]
        old, self.values = (
            self.values,
            np.interp(np.arange(steps + 1) / parts, np.arange(len(self.values)), self.values),
        )
        self.values[::parts] = old
        self.widest = float(np.max(self.values[1:] - self.values[:-1]))
        self.first, self.last = 0, steps + 1
        self._close()

    def _close(self) -> None:
        """Count the values rejected without a gap from below, and find the first of those from above."""
        while self.first < len(self.values) and self.rejected[0][self.first]:
            self.first += 1
        while self.last > 0 and self.rejected[1][self.last - 1]:
            self.last -= 1

    @property
    def crossed(self) -> bool:
        return self.first > self.last

    @property
    def interval(self) -> Interval:
        lower = float(self.values[self.first - 1]) if self.first else 0.0
        return Interval(lower, float(self.values[self.last]) if self.last < len(self.values) else 1.0)


class SlowLadder:
    """Hold the rungs, each replicating a fixed-horizon test, on values of their own."""

    def __init__(
        self, ladder: Rungs, horizons: Sequence[float], share: float, alpha: float, cap: float, step: float
    ) -> None:
        self.ladder, self.alpha, self.cap = ladder, alpha, cap
        self.values = np.linspace(0.0, 1.0, ladder.cells + 1)
        parts = [ladder.parts[min(rung, len(ladder.parts) - 1)] for rung in range(len(horizons))]
        even = log(share / sum(parts)) - log(1 + ladder.tilt * (step + 2 / ladder.cells))
        starts = [even + np.log(1 + sign * ladder.tilt * (1 - 2 * self.values)) for sign in (-1, 1)]
        self.horizons = np.array(horizons) * LARGEST_SQUARE
        self.wealth = [np.array([start + log(part) for part in parts]) for start in starts]
        self.inside = slice(0, 0)

    def play(self, lower: float, upper: float, position: Step, clock: SlowClock) -> None:
        self._move_on(clock.total)
        self.inside = inside = self._divided(lower, upper)
        values = self.values[inside]
        ahead = np.maximum(self.horizons - clock.total, self.ladder.patience * self.horizons)
        level = self.alpha / (1 + self.ladder.overshoot)
        for side, gain in enumerate((position.low - values, values - position.high)):
            spread = null_variance(values, position, clock, side)
            room = values - position.floor if side == 0 else position.ceiling - values
            most = self.cap / np.maximum(room, 1e-12)
            slope = slope_of(self.wealth[side][:, inside], level)
            stake = slope / (np.sqrt(spread * ahead[:, None]) * position.variance)
            self.wealth[side][:, inside] += np.log1p(np.minimum(stake, most) * gain)

    def _move_on(self, total: float) -> None:
        """Aim rungs whose horizon has passed at `again` times it, and join those of one horizon."""
        reached = total * (1 + SLACK)
        if self.horizons.min() > reached:
            return
        while (passed := self.horizons <= reached).any():
            self.horizons[passed] *= self.ladder.again
        alike = [self.horizons == horizon for horizon in sorted(set(self.horizons))]
        self.wealth = [np.array([np.logaddexp.reduce(side[same]) for same in alike]) for side in self.wealth]
        self.horizons = np.array(sorted(set(self.horizons)))

    def on(self, values: Floats, side: int) -> Floats:
        """Return the rungs' wealth at the next of their values that a null implies: above for R <= m, else below.

        The values lie between those that the last bets were placed for.
        """
        near = self.values[self.inside]
        spots = (
            np.searchsorted(near, values) if side == 0 else np.searchsorted(near, values, side="right") - 1
        )
        return np.asarray(np.logaddexp.reduce(self.wealth[side][:, self.inside])[spots])

    def _divided(self, lower: float, upper: float) -> slice:
        while True:
            first = max(int(np.searchsorted(self.values, lower, side="right")) - 1, 0)
            last = int(np.searchsorted(self.values, upper)) + 1
            enough = (last - first) * self.ladder.finer >= self.ladder.cells
            if enough or 1 / (len(self.values) - 1) <= self.ladder.least:
                return slice(first, last)
            parts, steps = self.ladder.finer, (len(self.values) - 1) * self.ladder.finer
            above = [-(-spot // parts) for spot in range(steps + 1)]
            below = [spot // parts for spot in range(steps + 1)]
            self.values = np.linspace(0.0, 1.0, steps + 1)
            self.wealth = [self.wealth[0][:, above], self.wealth[1][:, below]]


def slope_of(wealth: Floats, level: float) -> Floats:
    """Return phi(z)/p for the chance p = wealth x level and its quantile z, by the ratio that `stats.bets` states."""
    least, most = -2 * log(HIGHEST_CHANCE), -2 * log(LOWEST_CHANCE)
    square = np.minimum(np.maximum(-2 * (wealth + log(level)), least), most)
    t = np.sqrt(square)
    (a, b, c), (d, e, f) = SLOPE_ABOVE, SLOPE_BELOW
    return np.asarray(square * (a + b * t + c * square) / (1 + d * t + (e + f * t) * square))


def fixed_n_information(clock: SlowClock, far: float, precision: float, eps: float, graded: bool) -> float:
    """That of the exact plan for 0/1 scores: the mean a little nearer to 1/2, and one step of the lattice.

    Of graded scores, the share that their variance is of that of 0/1 scores.
    """
    mean = min(max(clock.mean, 0.0), 1.0)
    error = sqrt(max(mean * (1 - mean), 1 / (clock.count + 4)) / (clock.count + 1))
    nearer = min(min(mean, 1 - mean) + far * error, 0.5)
    binary = LARGEST_SQUARE * nearer * (1 - nearer) * precision**2 + LARGEST_SQUARE * STEP_OF_COUNTS / eps
    if not graded:
        return binary
    least = 0.25 / (clock.count + 1)
    inside = min(max(clock.mean, least), 1 - least)
    return binary * clock.variance / (LARGEST_SQUARE * inside * (1 - inside))


class Test:
    """Bet on whether R is above or below one value: a mixture of bets over the unknown distance, each side on its
    own.
    """

    def __init__(self, threshold: float, delta: float) -> None:
        self.threshold, self.delta = threshold, delta
        self.shares = [0.5 / len(GAPS)] * len(GAPS) + [0.5]
        self.wealth = [[log(share) for share in self.shares] for _ in range(2)]
        self.certain = [False, False]

    def play(self, position: Step, clock: SlowClock) -> None:
        lead = clock.mean - self.threshold
        rooms = (self.threshold - position.floor, position.ceiling - self.threshold)
        gains = (position.low - self.threshold, self.threshold - position.high)
        for side in range(2):
            value = np.array([self.threshold])
            variance = float(null_variance(value, position, clock, side)[0]) * position.variance
            gaps = [*map(float, GAPS), max(lead if side == 0 else -lead, 0.0)]
            for account, gap in enumerate(gaps):
                stake = min(gap / variance, CAP / max(rooms[side], 1e-12))
                self.wealth[side][account] += log(1 + stake * gains[side])
            total = float(np.logaddexp.reduce(self.wealth[side]))
            self.certain[side] |= total >= log(1 / self.delta) + ROUNDING

    @property
    def interval(self) -> Interval:
        above, below = self.certain
        return Interval(self.threshold if above else 0.0, self.threshold if below else 1.0)


def null_variance(values: Floats, position: Step, clock: SlowClock, side: int) -> Floats:
    """Return the variance if R were each value: mu (1 - mu) of the unseen mean mu, scaled to what was observed."""
    seen = (position.seen_low, position.seen_high)[side]
    means = np.minimum(np.maximum((values - seen) / position.unseen, 1e-4), 1 - 1e-4)
    if clock.counts:
        return np.asarray(LARGEST_SQUARE * (means - means**2))
    least = 0.5 / (clock.count + 1)
    middle = (position.seen_low + position.seen_high) / 2
    estimated = min(max((clock.mean - middle) / position.unseen, least), 1 - least)
    return np.asarray(clock.variance * (means * (1 - means) / (estimated * (1 - estimated))))


@dataclass(frozen=True, slots=True)
class Audited:
    interval: Interval
    mean: float
    contradiction: bool
    chances: tuple[float, ...]
    complete: bool


def audit(case: Case) -> Audited:
    book, clock = Book(case), SlowClock()
    clock.counts = case.tuning.counts
    threshold = case.aims[0].threshold
    test = None if threshold is None or case.given_up else Test(threshold, (1 - RESERVE) * case.delta)
    table = SlowTable(case)
    games: tuple[Test | SlowTable, ...] = (table,) if test is None else (test, table)
    chances = []
    for step, result in zip(book.steps(clock), case.seen, strict=True):
        chances.append(step.chance)
        clock.counts = case.tuning.counts and not table.graded and not step.uneven
        for game in games if case.bets else ():
            game.play(step, clock)
        table.graded |= result.low != result.high or result.low not in (0, 1)
    logical = book.logical()
    found = [game.interval for game in games]
    lower = max(logical.lower, *(one.lower for one in found))
    upper = min(logical.upper, *(one.upper for one in found))
    crossed = table.crossed or lower > upper + max(LOGICAL_SLACK, book.slack)
    interval = logical if crossed or book.complete else Interval(lower, upper)
    return Audited(interval, clock.mean, crossed, tuple(chances), book.complete)
