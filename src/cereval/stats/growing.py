"""One betting game over all versions of a growing data set: wealth on pairs of candidate values.

Version j adds the items C_j, with mean c_j, to those before, with mean R_{j-1}: R_j = w R_{j-1} + v c_j, v = 1 - w.
While it lasts only items of C_j are drawn, so every increment X is unbiased for c_j. Each side keeps wealth on
pairs (a, c) of candidate values; below is the lower side; the upper one is the same in a mirror (z -> 1 - z).

Theorem. Play 1 + lambda (X - c) on each pair, lambda >= 0 from the past, and let version j start the pair
(a, c) with the wealth that version j-1 left at a. Version j leaves to each cell of values of R_j the *least* wealth of
all cells of pairs that can give such a value. Then, with probability at least 1 - alpha, every lower limit of every
version stays below its R_j at all times at once: no share of alpha is lost to the number of versions.

Proof. Take in each version the cell of pairs that holds the truth, and its upper corner (a, c): a >= R_{j-1} and
c >= c_j, so its wealth is a nonnegative supermartingale as long as version j lasts. What it leaves is at least
what the next version's true cell starts with. So the wealth at the truth is one nonnegative supermartingale from
the first draw of the first version on, starting at 1; it ever reaches 1/alpha with probability at most alpha
(Ville 1939). If it does not, the truth is in a cell that is not rejected, and the limit is the least value of all
those. A pair stops playing once it is rejected. Cells that the *other* side has rejected are left out: where the
truth is among them, that side has missed, which counts against its own alpha.

Nothing is assumed of the new items: they may have been chosen by somebody who knows every result so far, as long as
the draws to come are as random to him as to us: whoever knows the seed could put easy items where they will be drawn.
Certificates reveal the seed: the promise against chosen items needs a seed that was drawn at random (the default) and
is kept from whoever chooses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log

import numpy as np
from scipy.special import ndtri

from cereval.arrays import Floats
from cereval.stats.bets import Position, null_variance, replicating_stakes
from cereval.stats.increments import Increment, Prospect
from cereval.stats.information import Information
from cereval.stats.interval import CAP, ROUNDING

SLACK = 1e-12
"""Limits are moved outwards by this much: the sums of two products that they come from are rounded."""
LEAST_COLUMNS = 20  # However small a part the new items are: with fewer values their mean cannot be told
MOST_PAIRS = 200_000  # A tiny eps gets a coarser grid, which costs calls, rather than all memory
SPOILT = -700.0  # Log-wealth of a value that no cell of pairs gives: as good as nothing


@dataclass(frozen=True, slots=True)
class Allocation:
    """How the capital is laid out; validity depends on none of it. Chosen in `benchmarks.growing`.

    first, later: share of a pair's wealth that works for the version at hand, in the first version and in later
    ones; `rescue` goes to Kelly bets, and the rest is bet for the versions still to come. next_weight: of the
    first version in the second, as the first expects it. margin, overshoot, patience: see `bets.DeadlineBets`.
    reach: values so many standard errors above the estimate do not bet. columns, rows: grid values per eps of R;
    cells grow by `growth` away from the limit. A coarse grid costs calls, as each version keeps the least wealth.
    """

    first: float = 0.4
    later: float = 0.3
    rescue: float = 0.15
    next_weight: float = 0.85
    margin: float = 0.2
    overshoot: float = 0.05
    patience: float = 0.03
    cap: float = CAP
    reach: float = 2.5
    columns: int = 60
    rows: int = 160
    growth: float = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """What a version leaves to the next on one side: cells [low, top] of its mean and the log-wealth of each."""

    lows: Floats
    tops: Floats
    log_wealth: Floats


EMPTY = Cells(np.zeros(1), np.zeros(1), np.zeros(1))
"""Before the first version: a pool of weight 0, and the whole capital."""


@dataclass(frozen=True, slots=True)
class Course:
    """What the bets of one version aim at: half-width eps around `centre`, the mean of what came before.

    weight: w above. next_weight: the same, as it may be in the next version.
    """

    weight: float
    next_weight: float
    eps: float
    alpha: float
    centre: float


class Side:
    """One side of one version, in its own coordinates: `mirrored` turns the upper side into a lower one."""

    def __init__(
        self, before: Cells, course: Course, *, mirrored: bool, allocation: Allocation | None = None
    ) -> None:
        self.before, self.course, self.mirrored = before, course, mirrored
        self.allocation = allocation or Allocation()
        steps = max(ceil(self.allocation.columns * (1 - course.weight) / course.eps), LEAST_COLUMNS)
        steps = min(steps, MOST_PAIRS // len(before.tops))
        self.columns: Floats = np.linspace(0.0, 1.0, steps + 1)
        self.column_lows: Floats = np.concatenate(([0.0], self.columns[:-1]))
        self._needed = log(1 / course.alpha) + ROUNDING
        self.total: Floats = np.repeat(before.log_wealth[:, None], steps + 1, axis=1)
        now = self.allocation.first if course.weight == 0 else self.allocation.later
        self.parts = now, 1 - now - self.allocation.rescue, self.allocation.rescue
        """Shares of the wealth for this version, for later ones and for Kelly bets."""
        self._accounts = [self.total + log(part) for part in self.parts]
        self.open = self.total < self._needed
        self._first, self._last, self._highest_playing = 0, steps + 1, steps + 1
        self._stakes: list[Floats] = []

    @property
    def demand(self) -> float:
        """Information on c over its variance at which this version's bets should be decided.

        The row a has level p(a) left, and c must be rejected up to `gap` below its estimate: a test with
        standard error gap / z(p) does that. The most demanding row sets the horizon.
        """
        course, eps = self.course, self.course.eps
        level = np.exp(self.before.log_wealth) * course.alpha * self.parts[0]
        quantile = -ndtri(np.clip(level, 1e-300, 0.5))
        gaps = (eps - course.weight * (course.centre - self.before.tops)) / (1 - course.weight)
        return max(float(np.max(quantile / np.maximum(gaps, eps / 4))), 0.5 / eps) ** 2

    # -- playing ------------------------------------------------------------------------------------------------------

    def stake(self, prospect: Prospect, clock: Information, needed: float) -> None:
        allocation, course = self.allocation, self.course
        # Values far above the estimate would only lose their bets: they wait with what they have.
        mean = 1 - clock.mean if self.mirrored else clock.mean
        highest = mean + allocation.reach * clock.standard_error
        self._highest_playing = int(np.searchsorted(self.columns, highest, side="right"))
        window = self._playing
        columns = self.columns[window]
        values = 1 - columns if self.mirrored else columns
        variance = null_variance(values, prospect, clock)[int(self.mirrored)]
        room = prospect.ceiling - values if self.mirrored else values - prospect.floor
        most = allocation.cap / np.maximum(room, 1e-12)
        now = max(needed - clock.total, allocation.patience * needed)
        after = now + (course.next_weight**-2 - 1) / (1 - course.weight**2) * needed
        level = course.alpha / (1 + allocation.overshoot)
        self._stakes = []
        for account, ahead in zip(self._accounts, (now, after), strict=False):
            position = Position(values, account[:, window], variance, prospect, clock, needed, course.eps)
            self._stakes.append(np.minimum(replicating_stakes(position, level, ahead, exact=True), most))
        self._stakes.append(np.minimum(course.eps / (variance * prospect.variance), most)[None, :])

    def settle(self, increment: Increment) -> None:
        window = self._playing
        gain = (1 - increment.high if self.mirrored else increment.low) - self.columns[window]
        playing = self.open[:, window]
        for account, stakes in zip(self._accounts, self._stakes, strict=True):
            account[:, window] += np.where(playing, np.log1p(stakes * gain), 0.0)
        total = np.logaddexp.reduce([account[:, window] for account in self._accounts])
        self.total[:, window] = np.where(playing, total, self.total[:, window])
        self.open[:, window] = playing & (total < self._needed)
        while self._first < self._last and not self.open[:, self._first].any():
            self._first += 1

    def leave_out_above(self, highest: float) -> None:
        """Drop the columns above a value that the other side has proven c to stay under."""
        self._last = min(self._last, int(np.searchsorted(self.column_lows, highest + SLACK, side="right")))

    # -- what is certified ---------------------------------------------------------------------------------------

    def lower(self, certain: float = 0.0) -> float:
        """The limit below R_j, where c is known to be at least `certain`; above 1 if every pair is rejected."""
        window = slice(self._first, max(self._first, self._last))
        is_open = self.open[:, window] & (self.columns[window] >= certain - SLACK)
        rows = np.flatnonzero(is_open.any(axis=1))
        if not len(rows):
            return 2.0
        first = self.column_lows[window][is_open[rows].argmax(axis=1)]
        weight = self.course.weight
        values = weight * self.before.lows[rows] + (1 - weight) * np.maximum(first, certain)
        return float(values.min()) - SLACK

    @property
    def lowest(self) -> float:
        """The value that c is proven to exceed, whatever the mean of the items before."""
        return float(self.columns[self._first - 1]) if self._first else 0.0

    def cells_between(self, low: float, high: float, certain: float = 0.0) -> Cells:
        """What the next version starts with: cells of R_j from `low` to `high`, with the least wealth of each."""
        step = self.course.eps / self.allocation.rows
        cells = max(ceil((high - low) / step), 1)
        wealth = self._least_wealth(low, step, cells, certain)
        ends = [0]
        while ends[-1] < cells:
            ends.append(min(cells, ends[-1] + max(1, int(self.allocation.growth * ends[-1]))))
        edges = low + step * np.array(ends)
        least = [wealth[start:end].min() for start, end in pairwise(ends)]
        return Cells(edges[:-1], edges[1:], np.minimum(least, self._needed - 1e-6))

    def _least_wealth(self, low: float, step: float, cells: int, certain: float) -> Floats:
        """The least wealth of all pairs that give a value in each of the equal cells above `low`."""
        weight, share = self.course.weight, 1 - self.course.weight
        known = np.flatnonzero(self.columns[: self._last] >= certain - SLACK)
        bottoms = weight * self.before.lows[:, None] + share * np.maximum(self.column_lows[known], certain)
        tops = weight * self.before.tops[:, None] + share * self.columns[known]
        start = np.clip(np.floor((bottoms - low) / step - 1e-6).astype(np.int64), 0, None)
        stop = np.minimum(np.ceil((tops - low) / step + 1e-6).astype(np.int64), cells)
        wealth = np.full(cells, np.inf)
        total = self.total[:, known]
        for offset in range(int(max((stop - start).max(initial=0), 0))):
            inside = start + offset < stop
            np.minimum.at(wealth, (start + offset)[inside], total[inside])
        return np.where(np.isinf(wealth), SPOILT, wealth)

    @property
    def _playing(self) -> slice:
        return slice(self._first, max(self._first, min(self._last, self._highest_playing)))
