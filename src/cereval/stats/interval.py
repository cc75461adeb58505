"""Confidence sequences by betting: wealth on a grid of candidate values, kept as logarithms.

Theorem (Ville 1939; Waudby-Smith and Ramdas 2024). Let X_t satisfy E[X_t | past] = R and floor_t <= X_t <= ceiling_t,
and let lambda_t >= 0 depend on the past only, lambda_t <= 1/(m - floor_t). Then K+(m) = prod (1 + lambda_t (X_t - m))
is a nonnegative supermartingale whenever R <= m, so the chance that it ever reaches 1/alpha is at most alpha.
Likewise K-(m) = prod (1 - lambda_t (X_t - m)) whenever R >= m.

Corollary (a grid needs no monotonicity). Let m_1 < ... < m_G. The lower limit is the last value of the contiguous
prefix that K+ has rejected. If it exceeds R, then the smallest grid value >= R has been rejected while R <= it: one
event of probability <= alpha. The same holds above. So [lower, upper] covers R at all times at once
with probability >= 1 - 2 alpha, whatever the rules, at the price of one grid step on each side at most.

Corollary (a tilt). Let K+(m) start with 1 - t(1 - 2m) and K-(m) with 1 + t(1 - 2m), 0 <= t < 1, both divided by
1 + t step. If R lies between the grid values a <= b, a miss means that K+(b) or K-(a) has reached 1/alpha: the chance
is at most alpha (2 + 2t(b - a)) / (1 + t step) <= 2 alpha. Where scores are rare, the few large ones limit the bets of
K-, and those of K+ are fast: there K- has use for a larger part of alpha.

Corollary (sides of a mark; Benjamini, Hochberg and Stark 1998 for fixed n). Let c be on the grid, 0 < s <= 1/2. K+(m)
starts with 2(1 - s) for m <= c and with 2s above, K-(m) with 2(1 - s) for m >= c and with 2s below. If R < c, then in
the proof above a < c and b <= c: a miss has a chance of at most alpha (2(1 - s) + 2s) = 2 alpha; likewise if R > c.
So nearly all of 2 alpha goes against the values that stand between the interval and its answer, "R >= c" or "R <= c",
and the answer holds together with the interval. If R = c, an interval without c takes K+ of the next value or K- of the
one before: 4s alpha. "R < c" is then wrong as well, and is said when K-(c) wins: that or a lower limit above c has a
chance of at most alpha (2(1 - s) + 2s). Whoever says both "R < c" and "R > c" (strict) starts both games on c with 1;
whoever did not must not begin to say both.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from cereval.arrays import Bools, Floats
from cereval.errors import InvalidInput
from cereval.stats.bets import BetRule, Position, largest_stakes, null_variance, payoffs
from cereval.stats.increments import Increment, Prospect
from cereval.stats.information import Information
from cereval.stats.ladder import Ladder, Rungs

ROUNDING = 1e-9  # A rejection needs this much more log-wealth than the theorem asks: rounding may only widen
CAP = 0.8
"""The largest share of an account that one bet may lose: .65 to .8 take the fewest calls for means under .1."""


@dataclass(frozen=True, slots=True)
class Account:
    """A share of the starting capital (of 1, or of what a ladder leaves of it), and the rule that plays it."""

    share: float
    rule: BetRule


class BettingTable:
    """The two games on every candidate value, restricted to the window of values that are still open.

    >>> from cereval.stats.bets import KellyBets
    >>> from cereval.stats.increments import Tally
    >>> table = BettingTable(np.linspace(0, 1, 101), 0.025, (Account(1.0, KellyBets()),))
    >>> tally, clock = Tally(np.full(400, 1 / 400), replacement=False), Information()
    >>> for item in range(200):
    ...     prospect = tally.prospect()
    ...     table.stake(prospect, clock, information_needed=1000.0, eps=0.1)
    ...     increment = tally.settle(item, 0.0, 0.0)
    ...     table.settle(increment)
    ...     clock.add(increment.low, prospect.variance)
    >>> bool(table.upper < 0.05), table.lower
    (True, 0.0)
    """

    def __init__(
        self,
        candidates: Floats,
        alpha: float,
        accounts: tuple[Account, ...],
        cap: float = CAP,
        start: Floats | None = None,
        rungs: Rungs | None = None,
    ) -> None:
        self.candidates, self.alpha, self.accounts, self.cap = candidates, alpha, accounts, cap
        self.step = float(np.diff(candidates).max(initial=0.0))
        self.ladder = None if rungs is None else Ladder(rungs, alpha, cap, self.step)
        rest = 1.0 if rungs is None else 1.0 - rungs.share
        self.first_share = rest * accounts[0].share
        self._needed = log(1 / alpha) + ROUNDING
        shape = (2, len(candidates))
        start = np.ones(shape) if start is None else start
        self._wealth = [np.log(rest * account.share * start) for account in accounts]
        self._rejected = np.zeros(shape, dtype=bool)
        self._first, self._last = 0, len(candidates)
        self._open = candidates
        self._stakes: list[Floats] = []

    def stake(self, prospect: Prospect, clock: Information, information_needed: float, eps: float) -> None:
        window, candidates = self._window, self._open
        self._stakes = []
        if not len(candidates):
            return
        variance = null_variance(candidates, prospect, clock)
        most = largest_stakes(candidates, prospect, self.cap)
        for account, wealth in zip(self.accounts, self._wealth, strict=True):
            position = Position(
                candidates, wealth[:, window], variance, prospect, clock, information_needed, eps
            )
            self._stakes.append(np.minimum(account.rule.stakes(position), most))
        if self.ladder is not None:
            self.ladder.stake(prospect, clock, float(candidates[0]), float(candidates[-1]))

    def settle(self, increment: Increment) -> None:
        if not self._stakes:
            return
        window, candidates = self._window, self._open
        gain = payoffs(candidates, increment)
        for wealth, stakes in zip(self._wealth, self._stakes, strict=True):
            wealth[:, window] += np.log1p(stakes * gain)
        parts = [wealth[:, window] for wealth in self._wealth]
        if self.ladder is not None:
            self.ladder.settle(increment)
            parts.append(self.ladder.log_wealth(candidates))
        self._rejected[:, window] |= self._are_rejected(parts)
        self._close()

    def log_wealth(self, value: float) -> tuple[float, float]:
        """What all accounts have together against R <= m and against R >= m, for the candidate m nearest to `value`;
        infinite where that is rejected."""
        place = int(np.abs(self.candidates - value).argmin())
        parts = [wealth[:, place] for wealth in self._wealth]
        if self.ladder is not None:
            parts.append(self.ladder.log_wealth(self.candidates[[place]])[:, 0])
        together = np.logaddexp.reduce(parts, axis=0)
        together[[place < self._first, place >= self._last]] = np.inf
        return float(together[0]), float(together[1])

    def _are_rejected(self, parts: list[Floats]) -> Bools:
        """Where the accounts reach 1/alpha together; summed only where the largest of k has a k-th of it."""
        found: Bools = np.maximum.reduce(parts) >= self._needed - log(len(parts)) - ROUNDING
        if found.any():
            found[found] = np.logaddexp.reduce([part[found] for part in parts], axis=0) >= self._needed
        return found

    def _close(self) -> None:
        below, above = self._rejected
        window = self._window
        while self._first < len(below) and below[self._first]:
            self._first += 1
        while self._last > 0 and above[self._last - 1]:
            self._last -= 1
        if self._window != window:
            self._open = self.candidates[self._window]

    def refine(self, step: float) -> None:
        """Divide the grid until its step is at most `step`; the old values stay on it.

        A new value takes over the account of the next old value that its null implies: K+ of m (R <= m) that
        of the old value just above, K- that of the one just below. Before, the smallest value >= R was
        some m'; now it is some m <= m' with the wealth of m': one supermartingale under R <= m throughout, so
        the corollary still holds, even if when and how finely to divide depends on the past.
        """
        parts = int(np.ceil(self.step / step - 1e-9))
        if parts <= 1:
            return
        spots = np.arange((len(self.candidates) - 1) * parts + 1)
        below, above = spots // parts, -(-spots // parts)
        finer = np.interp(spots / parts, np.arange(len(self.candidates)), self.candidates)
        finer[::parts] = self.candidates
        self.candidates = self._open = finer
        self.step = float(np.diff(finer).max())
        self._wealth = [np.vstack((wealth[0, above], wealth[1, below])) for wealth in self._wealth]
        self._rejected = np.vstack((self._rejected[0, above], self._rejected[1, below]))
        self._first, self._last, self._stakes = 0, len(finer), []
        self._close()

    @property
    def _window(self) -> slice:
        return slice(self._first, max(self._first, self._last))

    @property
    def lower(self) -> float:
        """The largest value that the rejections from below prove R to exceed, or 0."""
        return float(self.candidates[self._first - 1]) if self._first else 0.0

    @property
    def upper(self) -> float:
        """The smallest value that the rejections from above prove R to stay under, or 1."""
        return float(self.candidates[self._last]) if self._last < len(self.candidates) else 1.0

    @property
    def contradiction(self) -> bool:
        return self._first > self._last


def starting_capital(candidates: Floats, tilt: float) -> Floats:
    """What K+ and K- of each candidate start with, shape (2, candidates): all 1 without a tilt."""
    if not 0.0 <= tilt < 1.0:
        raise InvalidInput("tilt", "a number in [0, 1)", tilt)
    leaning = tilt * (1.0 - 2.0 * candidates)
    widest = float(np.diff(candidates).max(initial=0.0))
    return np.asarray(np.vstack((1.0 - leaning, 1.0 + leaning)) / (1.0 + tilt * widest))


def sided_capital(candidates: Floats, mark: float, spare: float, *, strict: bool) -> Floats:
    """What K+ and K- of each candidate start with where the side of `mark` is asked for; spare: s above.

    >>> sided_capital(np.array([0.0, 0.5, 1.0]), 0.5, 0.1, strict=False).tolist()
    [[1.8, 1.8, 0.2], [0.2, 1.8, 1.8]]
    """
    if not 0.0 < spare <= 0.5:
        raise InvalidInput("spare", "a number in (0, 1/2]", spare)
    near = np.vstack((candidates <= mark, candidates >= mark))
    capital: Floats = np.where(near, 2 * (1 - spare), 2 * spare)
    if strict:
        capital[:, candidates == mark] = 1.0
    return capital


def grid(step: float) -> Floats:
    return np.linspace(0.0, 1.0, int(np.ceil(1.0 / step)) + 1)
