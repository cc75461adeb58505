"""Pairwise games: which of two models has the higher mean, for very many pairs at once.

All models answer the items in one shared random order without replacement. Let D_1, D_2, ... in [-1, 1] be the
differences of a pair's scores along that order, S_t the sum of the first t, and Delta the mean over all N items.
Given the first t items, the next is uniform on the rest, so under the null Delta <= m

    E[D_{t+1} | past]  <=  mu = (N m - S_t) / (N - t),

and K = prod (1 + l_t (D_t - mu_t)) with 0 <= l_t <= cap/(1 + mu_t), l_t a function of D_1 .. D_{t-1} alone, is a
nonnegative supermartingale: P(sup_t K >= 1/alpha) <= alpha (Ville 1939; Waudby-Smith and Ramdas 2024). The
supremum is over the *whole* order, of which a session sees a prefix of its own choosing.

Corollary (scheduling is free). The game of a pair is fixed by the shared order and the pair's own scores. How far it
is looked at may depend on anything at all: on other models, on items further down the order, on hindsight. Whatever
decides which model is asked next can cost calls, never validity.

A call that failed has a score in [0, 1]: the game "first above second" gets the lowest difference that is possible,
the reverse game the highest, so that failures can only hold claims back.

Along a `race`, in which some items are likelier to come soon, the bets are those of the race. With r the variance of
the next increment X = seen + d/(N q), in units of a pair's mean square, r takes the place of left^2, and the sum of 1/r
that of t/left, so that horizons are as here. The order depends on the seed and on what was known before the first
score, so that the corollary holds.

Fresh answers (`FreshPairGames`). Where models answer anew at every call, the places of the shared order are items drawn
independently, each with the same chance, and Delta is the mean difference of the items' rates: N is infinite, mu = m.
Let g be forecasts of both models' answers that know earlier places alone, h_i = g_first(i) - g_second(i) less its mean
over all items, and c in [0, 1] a function of the pair's earlier places. Then E[h_I | past] = 0, so that D - c h_I has
the mean Delta as D has; it is at least -1 - c max h, which takes the place of -1 in the largest stake. So forecasts
take away what the items' rates explain of D, and wrong ones cost calls, never validity.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import Any

import numpy as np
from scipy.special import ndtri

from cereval.arrays import Floats, Ints
from cereval.stats.bets import exact_slope
from cereval.stats.race import Race
from cereval.stats.rounding import sum_slack

PRIOR_SQUARE = 0.25
"""What one imagined past item says of D^2: about that of two unrelated 0/1 scores at mean .85."""
LARGEST_GAP = 0.5
LOGICAL_SLACK = 1e-9
"""The least by which a sum of differences must exceed its null; more where the sum may be off by more."""
UNKNOWN = 1e6  # The standard error of an estimate before the first item
HINT_PRIOR = 0.5
"""Sum of h^2 by which forecasts have to prove themselves before they are used."""
TINY = 1e-12  # What is divided by, and what an account is multiplied with, is at least this


@dataclass(frozen=True, slots=True)
class PairTuning:
    """The constants of the bets, none of which validity depends on; at a flat optimum of `benchmarks/rank.py`.

    deadline: share of the capital on bets that replicate a fixed-horizon test (see `bets.DeadlineBets`); the rest
    goes in equal parts to Kelly bets on fixed gaps. caution: standard errors by which the horizon trusts an
    observed gap less. opening, fade: a gap assumed at first, and the items over which it fades to the floor.
    patience: the least share of its information that the horizon stays ahead. cap: the largest share of an account
    that one item may lose; lower is better for many close pairs, higher for a few large gaps.
    """

    deadline: float = 0.8
    caution: float = 0.3
    opening: float = 0.3
    fade: float = 8.0
    patience: float = 0.05
    overshoot: float = 0.05
    cap: float = 0.8


class PairGames:
    """Two games, "first above second" and "second above first", against each null, for every pair.

    `nulls` are the values m of Delta to be played against, the same for both directions: 0 for the order,
    -margin for "worse by less than margin". `evidence[null, direction, pair]` is the largest log-wealth so far.

    >>> games = PairGames(100, pairs=1, nulls=(0.0,), alpha=0.01, floor=0.05)
    >>> for _ in range(25):
    ...     games.play(np.array([0]), low=np.array([1.0]), high=np.array([1.0]))
    >>> above, below = games.evidence[0, :, 0] >= np.log(100)
    >>> bool(above), bool(below)
    (True, False)
    """

    def __init__(
        self,
        n_items: float,
        *,
        pairs: int,
        nulls: tuple[float, ...],
        alpha: float,
        floor: float,
        tuning: PairTuning | None = None,
    ) -> None:
        self.n_items = n_items
        self._slack = max(LOGICAL_SLACK / n_items, sum_slack(n_items))
        self.nulls = np.array(nulls)[:, None, None]
        self.alpha, self.floor, self.tuning = alpha, floor, tuning or PairTuning()
        self.time = np.zeros(pairs, dtype=np.int64)
        self.total = np.zeros((2, pairs))
        self.squares = np.zeros(pairs)
        self.evidence = np.zeros((len(nulls), 2, pairs))
        self._quantile = -float(ndtri(alpha))
        self._gaps = kelly_gaps(floor)
        rest = (1 - self.tuning.deadline) / len(self._gaps)
        shares = np.array([self.tuning.deadline, *[rest] * len(self._gaps)])
        self._wealth = np.tile(np.log(shares)[:, None, None, None], (1, len(nulls), 2, pairs))

    def play(self, which: Ints, low: Floats, high: Floats, reach: Floats | float = 1.0) -> None:
        """Play one more item for the pairs `which`: the bounds of their differences on it (equal if both are known).

        reach: how far below 0 the differences may be, and above.
        """
        wealth, gain = self._wealth[..., which], np.stack((low, -high))
        wealth += self._log_payoffs(which, wealth[0], gain, reach)
        self._wealth[..., which] = wealth
        self._update_moments(which, (low + high) / 2)
        self.time[which] += 1
        self.total[:, which] += gain
        self._update_evidence(which, wealth)

    def _log_payoffs(self, which: Ints, wealth: Floats, gain: Floats, reach: Floats | float) -> Floats:
        """Bet on D, with deadline and Kelly bets; in units of X = S/N + left D they are l/left."""
        time, total = self.time[which], self.total[:, which]
        left = 1 - time / self.n_items
        rest = (self.nulls - total / self.n_items) / left
        square = (self.squares[which] + PRIOR_SQUARE) / (time + 1)
        error = np.sqrt(square * left / np.maximum(time, 1))
        lead = total / np.maximum(time, 1) - self.nulls
        stakes = self._stakes(time, wealth, lead, error, square, time / left, left)
        np.minimum(stakes, self.tuning.cap / np.maximum(reach + rest, TINY), out=stakes)
        return np.asarray(np.log1p(np.maximum(stakes * (gain - rest), -1 + TINY)))

    def _stakes(
        self,
        time: Ints,
        wealth: Floats,
        lead: Floats,
        error: Floats,
        square: Floats,
        information: Floats,
        unit: Floats,
    ) -> Floats:
        """Both kinds of bets, for a lead and its error; unit: what divides them, `left` for bets on D and the next
        increment's variance / square for bets on X."""
        least = np.maximum(self.tuning.opening * np.exp(-time / self.tuning.fade), self.floor)
        gap = np.maximum(lead - self.tuning.caution * error, least)
        needed = square * (self._quantile / gap) ** 2
        ahead = np.maximum(needed - information, self.tuning.patience * needed)
        slope = exact_slope(wealth + log(self.alpha / (1 + self.tuning.overshoot)))
        stakes = np.empty((1 + len(self._gaps), *wealth.shape))
        stakes[0] = slope / (np.sqrt(square * ahead) * unit)
        stakes[1:] = (self._gaps[:, None] / (square * unit))[:, None, None]
        return stakes

    def _update_moments(self, which: Ints, middle: Floats) -> None:
        self.squares[which] += middle**2

    def _update_evidence(self, which: Ints, wealth: Floats) -> None:
        """Record the accounts' sum, and what the seen scores prove by themselves whatever the rest is."""
        most = wealth.max(axis=0)
        together = most + np.log(np.exp(wealth - most).sum(axis=0))
        unseen = 1 - self.time[which] / self.n_items
        proven = self.total[:, which] / self.n_items - unseen > self.nulls + self._slack
        together[proven] = np.inf
        self.evidence[..., which] = np.maximum(self.evidence[..., which], together)

    @property
    def estimates(self) -> Floats:
        return np.asarray((self.total[0] - self.total[1]) / 2 / np.maximum(self.time, 1))

    @property
    def errors(self) -> Floats:
        count = np.maximum(self.time, 1)
        spread = np.maximum(self.squares / count - self.estimates**2, 0) * count + PRIOR_SQUARE
        error = np.sqrt(spread / (count + 1) * (1 - self.time / self.n_items) / count)
        return np.where(self.time > 0, error, UNKNOWN)


class Coefficients:
    """c of `FreshPairGames`, of every pair: that of least squares on its earlier places, shrunk towards 0."""

    def __init__(self, count: int) -> None:
        self._products, self._squares = np.zeros((2, count))

    def of(self, which: Ints) -> Floats:
        return np.asarray(np.clip(self._products[which] / (self._squares[which] + HINT_PRIOR), 0.0, 1.0))

    def learn(self, which: Ints, surprise: Floats, hint: Floats) -> None:
        """Learn from one more place; surprise: D less its mean so far."""
        self._products[which] += surprise * hint
        self._squares[which] += hint**2


class FreshPairGames(PairGames):
    """`PairGames` on fresh answers; see the module's docstring."""

    def __init__(self, **playing: Any) -> None:
        super().__init__(inf, **playing)
        self._shares = Coefficients(len(self.time))

    def play_hinted(self, which: Ints, low: Floats, high: Floats, hint: Floats, reach: Floats) -> None:
        """Play one more place; hint: h of the pairs there. reach: the largest h, and minus the least."""
        share, surprise = self._shares.of(which), (low + high) / 2 - self.estimates[which]
        self.play(which, low - share * hint, high - share * hint, 1 + share * reach)
        self._shares.learn(which, surprise, hint)


class RacedPairGames(PairGames):
    """`PairGames` along a race."""

    def __init__(self, race: Race, **playing: Any) -> None:
        super().__init__(len(race.order), **playing)
        self._race = race
        self._weighted = np.zeros(len(self.time))
        """Sums of the increments, weighted by their information."""

    def _log_payoffs(
        self,
        which: Ints,
        wealth: Floats,
        gain: Floats,
        reach: Floats | float,  # noqa: ARG002
    ) -> Floats:
        """The same bets on X, whose lead is the increments' mean weighted by their information."""
        time, race = self.time[which], self._race
        owed = self.nulls - self.total[:, which] / self.n_items
        information = race.information[time]
        square = (self.squares[which] + PRIOR_SQUARE) / (time + 1)
        error = np.sqrt(square / np.maximum(information, 1.0))
        mean = self._weighted[which] / np.maximum(information, TINY)
        lead = np.stack((mean, -mean)) - self.nulls
        stakes = self._stakes(time, wealth, lead, error, square, information, race.variance[time])
        stakes = np.minimum(stakes, race.largest_stakes(time, owed, self.tuning.cap))
        return np.asarray(np.log(np.maximum(race.payoffs(time, stakes, owed, gain), TINY)))

    def _update_moments(self, which: Ints, middle: Floats) -> None:
        time = self.time[which]
        factor, variance = self._race.factors[time], self._race.variance[time]
        seen = self.total[:, which] / self.n_items
        self._weighted[which] += ((seen[0] - seen[1]) / 2 + factor * middle) / variance
        self.squares[which] += (factor * middle) ** 2 / variance

    @property
    def estimates(self) -> Floats:
        exact = (self.total[0] - self.total[1]) / 2 / self.n_items
        found = self._weighted / np.maximum(self._race.information[self.time], TINY)
        return np.where(self.time == self.n_items, exact, found)

    @property
    def errors(self) -> Floats:
        count, information = np.maximum(self.time, 1), self._race.information[self.time]
        spread = np.maximum(self.squares / count - self.estimates**2, 0) * count + PRIOR_SQUARE
        error = np.sqrt(spread / (count + 1) / np.maximum(information, TINY))
        return np.where(self.time == 0, UNKNOWN, np.where(self.time == self.n_items, 0.0, error))


def kelly_gaps(floor: float) -> Floats:
    """Gaps from `floor` up, each twice the one before.

    >>> kelly_gaps(0.05).tolist()
    [0.05, 0.1, 0.2, 0.4]
    """
    count = max(int(np.floor(np.log2(LARGEST_GAP / floor))), 0) + 1
    return np.asarray(floor * np.exp2(np.arange(count, dtype=np.float64)))
