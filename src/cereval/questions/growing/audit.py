"""Compute the intervals of a growing data set a second time, slowly and obviously, straight from the formulas.

Shares nothing with `stats.growing` but its constants: sums over the unseen items are counted in `book`, every pair has
its own wealth from the first result on, and what a version leaves to a cell of values is found by looking at every
pair. A result costs a few operations for every pair, as it cost the session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, fsum, log, pi, sqrt
from typing import Any

import numpy as np
from scipy.special import ndtri

from cereval.arrays import Floats
from cereval.certificate.audit import (
    AimSince,
    Audit,
    Book,
    Case,
    Equal,
    ForecastSince,
    Seen,
    SlowClock,
    Step,
    bounds,
)
from cereval.certificate.audit.interval import audit, null_variance
from cereval.methods.growing import CAUTION, EXPECTED, Stream
from cereval.records import Interval
from cereval.stats.bets import HIGHEST_CHANCE, LOWEST_CHANCE
from cereval.stats.growing import LEAST_COLUMNS, MOST_PAIRS, SLACK, SPOILT, Allocation
from cereval.stats.information import LARGEST_SQUARE
from cereval.stats.interval import ROUNDING

Cells = tuple[Floats, Floats, Floats]
"""Low ends, high ends and log-wealth of cells of values."""

START: Cells = (np.zeros(1), np.zeros(1), np.zeros(1))


@dataclass(frozen=True, slots=True)
class Left:
    size: int = 0
    asked: int = 0
    sums: tuple[float, float] = (0.0, 0.0)
    """Of the scores, with failed calls as 0 and as 1."""
    estimate: float = 0.5
    moments: tuple[float, float] = (0.0, 0.0)
    """The second and the fourth."""
    cells: tuple[Cells, Cells] = (START, START)


@dataclass(frozen=True, slots=True)
class Found:
    interval: Interval
    estimate: float
    left: Left


def audit_version(left: Left, new: int, seen: Sequence[Seen], eps: float, delta: float) -> Found:
    case = uniform_case(new, seen, eps, delta)
    book, clock = Book(case), expecting(left)
    expected = clock.total
    games = [SlowSide(left, new, eps, delta / 2, side) for side in range(2)]
    demand = max(game.demand() for game in games)
    for position in book.steps(clock):
        variance = clock.cautious_variance(CAUTION)
        needed = (1 + Allocation().margin) * variance * demand + expected
        for game, payoff in zip(games, (position.low, 1 - position.high), strict=True):
            game.play(position, clock, needed, payoff)
        proven = [game.proven() for game in games]
        for game, other in zip(games, reversed(proven), strict=True):
            game.cut(1 - other)
    return _concluded(left, new, seen, games, clock)


def expecting(left: Left) -> SlowClock:
    if not left.size:
        return SlowClock()
    total = EXPECTED * LARGEST_SQUARE
    return SlowClock(EXPECTED, total, total * left.estimate, *(EXPECTED * one for one in left.moments))


def uniform_case(
    new: int, seen: Sequence[Seen], eps: float, delta: float, *, population: bool = False
) -> Case:
    shares = np.full(new, 1 / new)
    flat = ForecastSince(0, np.full(new, 0.5), np.full(new, 0.5), shares)
    aim = AimSince(0, eps, None, None)
    return Case(shares, True, population, delta, [aim], seen, [flat], False, Stream.default_tuning)


def _concluded(
    left: Left, new: int, seen: Sequence[Seen], games: Sequence[SlowSide], clock: SlowClock
) -> Found:
    size, asked = left.size + new, left.asked + len(seen)
    low, high = left.sums[0] + fsum(one.low for one in seen), left.sums[1] + fsum(one.high for one in seen)
    slack = SLACK if size > asked else 0.0
    logical = Interval(max(low / size - slack, 0.0), min((high + size - asked) / size + slack, 1.0))
    certain = fsum(one.low for one in seen) / new, fsum(1 - one.high for one in seen) / new
    lower = max(games[0].lower(certain[0]), logical.lower)
    upper = min(1 - games[1].lower(certain[1]), logical.upper)
    interval = logical if lower > upper + SLACK else Interval(lower, upper)
    guess = (left.size * left.estimate + new * _mean(left, new, seen, clock)) / size
    estimate = min(max(guess, interval.lower), max(interval.upper, interval.lower))
    ends = (interval.lower, interval.upper), (1 - interval.upper, 1 - interval.lower)
    below, above = (game.leaves(*end, known) for game, end, known in zip(games, ends, certain, strict=True))
    moments = clock.variance, clock.fourths / max(clock.count, 1)
    handed = Left(size, asked, (low, high), estimate, moments, (below, above))
    return Found(interval, estimate, handed)


def _mean(left: Left, new: int, seen: Sequence[Seen], clock: SlowClock) -> float:
    if len(seen) == new:
        return fsum(one.low + one.high for one in seen) / (2 * new)
    prior = expecting(left)
    if clock.total <= prior.total:
        return clock.mean
    return (clock.weighted - prior.weighted) / (clock.total - prior.total)


class SlowSide:
    """Keep the wealth of every pair on one side; the upper side (1) is played in a mirror."""

    def __init__(self, left: Left, new: int, eps: float, alpha: float, side: int) -> None:
        self.allocation, self.eps, self.alpha, self.side = Allocation(), eps, alpha, side
        self.old, self.share = left.size / (left.size + new), new / (left.size + new)
        self.centre = 1 - left.estimate if side else left.estimate
        self.next = self.allocation.next_weight
        if left.size:
            self.next = (left.size + new) / (left.size + 2 * new)
        self.lows, self.tops, start = left.cells[side]
        count = max(ceil(self.allocation.columns * (1 - self.old) / eps), LEAST_COLUMNS)
        count = min(count, MOST_PAIRS // len(self.tops))
        self.values = np.linspace(0.0, 1.0, count + 1)
        self.under = np.array([0.0, *self.values[:-1]])
        now = self.allocation.later if left.size else self.allocation.first
        shares = now, 1 - now - self.allocation.rescue, self.allocation.rescue
        self.first_share = now
        self.start = start
        self.total = np.array([[wealth] * (count + 1) for wealth in start])
        self.accounts = [self.total + log(part) for part in shares]
        self.bar = log(1 / alpha) + ROUNDING
        self.last = count + 1

    def demand(self) -> float:
        worst = 0.5 / self.eps
        for top, wealth in zip(self.tops, self.start, strict=True):
            chance = min(max(np.exp(wealth) * self.alpha * self.first_share, 1e-300), 0.5)
            gap = (self.eps - self.old * (self.centre - top)) / (1 - self.old)
            worst = max(worst, float(-ndtri(chance)) / max(gap, self.eps / 4))
        return worst**2

    def play(self, position: Step, clock: SlowClock, needed: float, payoff: float) -> None:
        real = 1 - self.values if self.side else self.values
        spread = null_variance(real, position, clock, self.side)
        room = position.ceiling - real if self.side else real - position.floor
        most = self.allocation.cap / np.maximum(room, 1e-12)
        mean = 1 - clock.mean if self.side else clock.mean
        error = sqrt(clock.variance / clock.total) if clock.total else 0.5
        spots = np.arange(len(self.values))
        plays = (self.values <= mean + self.allocation.reach * error) & (spots < self.last)
        rows, columns = np.nonzero((self.total < self.bar) & plays)
        now = max(needed - clock.total, self.allocation.patience * needed)
        after = now + (self.next**-2 - 1) / (1 - self.old**2) * needed
        gain = payoff - self.values[columns]
        stakes = (
            self._deadline(self.accounts[0][rows, columns], spread[columns], position, now),
            self._deadline(self.accounts[1][rows, columns], spread[columns], position, after),
            self.eps / (spread[columns] * position.variance),
        )
        summed = np.zeros(len(rows))
        for account, stake in zip(self.accounts, stakes, strict=True):
            account[rows, columns] += np.log(1 + np.minimum(stake, most[columns]) * gain)
            summed += np.exp(account[rows, columns])
        self.total[rows, columns] = np.log(summed)

    def _deadline(self, wealth: Floats, spread: Floats, position: Step, ahead: float) -> Floats:
        level = self.alpha / (1 + self.allocation.overshoot)
        chance = np.clip(np.exp(wealth) * level, LOWEST_CHANCE, HIGHEST_CHANCE)
        density = np.exp(-(ndtri(chance) ** 2) / 2) / sqrt(2 * pi)
        return np.asarray(density / (chance * np.sqrt(spread * ahead) * position.variance))

    def proven(self) -> float:
        """Return the value that c exceeds, whatever the mean before: the last of the columns rejected in every
        row."""
        whole = np.all(self.total[:, : self.last] >= self.bar, axis=0)
        count = int(np.argmin(np.append(whole, False)))
        return float(self.values[count - 1]) if count else 0.0

    def cut(self, highest: float) -> None:
        self.last = min(self.last, int(np.count_nonzero(self.under <= highest + SLACK)))

    def lower(self, certain: float) -> float:
        possible = (self.values >= certain - SLACK) & (np.arange(len(self.values)) < self.last)
        open_pairs = (self.total < self.bar) & possible
        bottoms = self.old * self.lows[:, None] + (1 - self.old) * np.maximum(self.under, certain)[None, :]
        return float(bottoms[open_pairs].min()) - SLACK if open_pairs.any() else 2.0

    def leaves(self, low: float, high: float, certain: float) -> Cells:
        """Return for each cell of values the least wealth of all pairs that can give one."""
        step = self.eps / self.allocation.rows
        cells = max(ceil((high - low) / step), 1)
        possible = (self.values >= certain - SLACK) & (np.arange(len(self.values)) < self.last)
        bottoms = self.old * self.lows[:, None] + (1 - self.old) * np.maximum(self.under, certain)[None, :]
        tops = self.old * self.tops[:, None] + (1 - self.old) * self.values[None, :]
        under, over = (bottoms - low) / step - 1e-6, (tops - low) / step + 1e-6
        edges, least = [0], []
        while edges[-1] < cells:
            first = edges[-1]
            edges.append(min(cells, first + max(1, int(self.allocation.growth * first))))
            parts = [
                self.total[(under < cell + 1) & (over > cell) & possible] for cell in range(first, edges[-1])
            ]
            least.append(min(float(part.min()) if len(part) else SPOILT for part in parts))
        ends = low + step * np.array(edges)
        return ends[:-1], ends[1:], np.minimum(least, self.bar - 1e-6)


class GrowingAudit(Audit):
    def check(self, certificate: Mapping[str, Any], session: Any, equal: Equal) -> str:
        settings, growing = certificate["settings"], session.whole
        eps, delta = settings["goal"]["eps"], 1 - settings["confidence"]
        if settings["target"] == "population":
            _check_population(growing, eps, delta, equal)
        else:
            _check_versions(growing, eps, delta, equal)
        return self.kind.audited


def _check_versions(growing: Any, eps: float, delta: float, equal: Equal) -> None:
    left = Left()
    for number, (version, told) in enumerate(zip(growing.versions, growing.logs, strict=True), start=1):
        seen = [Seen(draw.item - left.size, *bounds(score)) for draw, (score,) in told]
        found = audit_version(left, version.n_new, seen, eps, delta)
        stated = version.lower, version.upper, version.estimate
        recomputed = found.interval.lower, found.interval.upper, found.estimate
        for name, one, other in zip(("lower", "upper", "estimate"), stated, recomputed, strict=True):
            equal(f"version {number}, {name} (audit)", one, other)
        left = found.left


def _check_population(growing: Any, eps: float, delta: float, equal: Equal) -> None:
    seen: list[Seen] = []
    for number, (version, told) in enumerate(zip(growing.versions, growing.logs, strict=True), start=1):
        seen += [Seen(0, *bounds(score)) for _, (score,) in told]
        found = audit(uniform_case(1, seen, eps, delta, population=True))
        equal(f"version {number}, lower (audit)", version.lower, found.interval.lower)
        equal(f"version {number}, upper (audit)", version.upper, found.interval.upper)
