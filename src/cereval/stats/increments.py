"""Unbiased increments: from one drawn score to one bounded estimate of the target.

Let pi be the target's weights (sum 1), S the items seen, U the unseen ones, g in [0,1] a forecast and q the
draw probabilities on U, all functions of the past only. Draw I ~ q and observe z_I. Then

    X = sum_S pi z + sum_U pi g + (z_I - g_I) pi_I / q_I

has E[X | past] = sum pi z = R exactly, whatever g and q are: the last term has mean sum_U pi (z - g).
With q_i = w_i / W, W = sum_U w, its range is known before the score is:

    sum_S pi z + sum_U pi g - W max_U pi g / w   <=   X   <=   sum_S pi z + sum_U pi g + W max_U pi (1-g) / w

(Horvitz and Thompson 1952 for one draw; Waudby-Smith and Ramdas 2020 for the sequential use, generalised here
to unequal probabilities and a moving forecast.) A call that failed has a score somewhere in [0, 1]: two
copies are kept, `low` with 0 in its place, used only to push the lower limit up, and `high` with 1, used only
to push the upper limit down; both can only widen the interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cereval.arrays import Bools, Floats
from cereval.stats.rounding import range_slack, sum_slack

STALE = 1 / 64
"""Sums over the unseen items are taken anew at this share of their last value: subtraction loses their digits."""
TINY = 1e-300  # What a sum over the unseen items is taken for once it is 0: it is divided by


@dataclass(frozen=True, slots=True)
class Prospect:
    """What is known of X before its score: its range, its relative variance, and what the seen scores add up to.

    `variance` is the forecast variance of X up to one common factor, which the data calibrate; `level` is what
    that factor is expected to be, 0 where nothing is.
    """

    floor: float
    ceiling: float
    variance: float
    seen_low: float
    seen_high: float
    unseen: float
    level: float = 0.0

    @property
    def largest_square(self) -> float:
        return (self.ceiling - self.floor) ** 2 / self.variance


@dataclass(frozen=True, slots=True)
class Increment:
    """The realised X, with failed calls counted as 0 (`low`) and as 1 (`high`)."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """Forecast mean g, forecast spread s of z - g, and draw weights w, one entry for each item.

    level: the expected variance of an increment, in units of the one that s states; 0: not known. uneven: whether the
    forecasts differ so much that scores of 0 and 1 do not have the variance that their mean states.
    """

    mean: Floats
    spread: Floats
    weights: Floats
    level: float = 0.0
    uneven: bool = False


class Tally:
    """Running sums over seen and unseen items: a draw costs O(1), a new outlook O(N).

    `drawable` counts the items that can be drawn at all, `slack` is how far off the sums may be.

    >>> tally = Tally(shares=np.full(4, 0.25), replacement=False)
    >>> prospect = tally.prospect()
    >>> round(prospect.floor, 6), round(prospect.ceiling, 6)
    (-0.0, 1.0)
    >>> tally.settle(item=2, low=1.0, high=1.0)
    Increment(low=1.0, high=1.0)
    >>> tally.settle(item=0, low=0.0, high=0.0)
    Increment(low=0.25, high=0.25)
    """

    def __init__(self, shares: Floats, *, replacement: bool) -> None:
        self.shares, self.replacement = shares, replacement
        self.drawable = int(np.count_nonzero(shares > 0))
        self.slack = sum_slack(len(shares))
        self._widening = 1 + range_slack(len(shares), STALE)
        self.seen_low = self.seen_high = 0.0
        self.left: Bools = np.ones(len(shares), dtype=bool)
        """Which items have not been drawn."""
        constant = np.full(len(shares), 0.5)
        self.turn_to(Outlook(mean=constant, spread=constant, weights=shares))

    def turn_to(self, outlook: Outlook) -> None:
        self.outlook = outlook
        left = self.left & (outlook.weights > 0)
        share, weight, mean = self.shares[left], outlook.weights[left], outlook.mean[left]
        leverage = share / weight
        self._unseen, self._expected = float(share.sum()), float(share @ mean)
        self._race = float(weight.sum())
        self._stale = STALE * self._race
        self._energy = float((share * leverage) @ outlook.spread[left] ** 2)
        # The maxima over U are those at this moment: U only shrinks, so they bound all later ones.
        self._reach_down = float((leverage * mean).max(initial=0.0))
        self._reach_up = float((leverage * (1 - mean)).max(initial=0.0))

    def prospect(self) -> Prospect:
        """Range and relative variance of the next increment; does not depend on which item is drawn."""
        down = self._race * self._reach_down * self._widening
        up = self._race * self._reach_up * self._widening
        return Prospect(
            floor=self.seen_low + self._expected - down - self.slack,
            ceiling=self.seen_high + self._expected + up + self.slack,
            variance=max(self._race * self._energy, TINY),
            seen_low=self.seen_low,
            seen_high=self.seen_high,
            unseen=self.unseen,
            level=self.outlook.level,
        )

    def settle(self, item: int, low: float, high: float, chance: float | None = None) -> Increment:
        """Take the score of a drawn item and return its increment.

        chance: q_I as it was when the item was drawn, perhaps on another machine whose weights differ from these in
        their last digits: the increment is unbiased for the q that was used. None: take it from the weights.
        """
        share, mean = float(self.shares[item]), float(self.outlook.mean[item])
        weight = float(self.outlook.weights[item])
        factor = share * self._race / weight if chance is None else share / chance
        increment = Increment(
            low=self.seen_low + self._expected + (low - mean) * factor,
            high=self.seen_high + self._expected + (high - mean) * factor,
        )
        if not self.replacement:
            self.left[item] = False
            self.seen_low += share * low
            self.seen_high += share * high
            self._unseen -= share
            self._expected -= share * mean
            self._race -= weight
            self._energy -= share * share / weight * float(self.outlook.spread[item]) ** 2
            if self._race < self._stale:
                self.turn_to(self.outlook)
        return increment

    @property
    def unseen(self) -> float:
        return max(self._unseen, TINY)

    @property
    def left_shares(self) -> Floats:
        return np.where(self.left, self.shares, 0.0)
