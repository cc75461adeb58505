"""Test of every item whether its rate, the mean score of a fresh answer, is at least c: all verdicts at once.

Theorem. Let z_1, z_2, ... in [0, 1] be an item's fresh answers, each with mean mu given the past, and 0 <= l_j <= 1/c.
K = sum_j s_j prod_t (1 + l_j (z_t - c)), sum s_j = 1, is a nonnegative supermartingale if mu <= c; with
0 <= l_j <= 1/(1 - c) and c - z_t likewise if mu >= c. Let S be the items with mu < c. The mean of their K over S is a
supermartingale too, so that it ever reaches 1/alpha with probability at most alpha (Ville 1939), however the items to
ask are chosen. "Item i passes" is said once *every* set that holds i has a mean K of at least 1/alpha (closed testing,
Marcus, Peritz and Gabriel 1976, with the mean of e-values, Vovk and Wang 2021). If that is ever said of an item of S,
the mean over S has reached 1/alpha: so a wrong "passes" has probability at most alpha. "Item i fails" is the same with
the other games, and each of the two has half of delta.

A bet on p, l = (p - c) / (c (1 - c)), multiplies by the likelihood ratio of p to c where answers are 0 or 1. Where all
items always pass, all means are alike and each takes ln(2/delta) / ln(1/c) answers, however many items there are; each
item that does not pass makes the others take a little more. A failed call counts as 0 for "passes", as 1 for "fails".

>>> tests = RateTests(3, 0.8, delta=0.05)
>>> for _ in range(60):
...     for item, score in ((0, 1.0), (1, 0.0)):
...         tests.add(item, score, score)
>>> tests.passes.tolist(), tests.fails.tolist()
([True, False, False], [False, True, False])
"""

from __future__ import annotations

import numpy as np

from cereval.arrays import Bools, Floats
from cereval.stats.interval import ROUNDING

UP = np.array([[0.3, 0.125], [0.6, 0.125], [0.85, 0.25], [0.98, 0.5]])
DOWN = np.array([[0.15, 0.25], [0.4, 0.25], [0.7, 0.25], [0.95, 0.25]])
"""How far from c towards 1, and towards 0, the rates lie that are bet on, and the shares: items mostly pass always."""
MOST = 600.0
"""The largest log-wealth that is added up: a float holds its exponential times the number of items."""


class RateTests:
    """The wealth of all items against "rate < c" and against "rate >= c", and the verdicts so far."""

    def __init__(self, size: int, rate: float, delta: float) -> None:
        self.rate, self.alpha = rate, delta / 2
        self._up, self._down = UP[:, 0] / rate, DOWN[:, 0] / (1 - rate)
        self._passing, self._failing = (np.tile(np.log(bets[:, 1]), (size, 1)) for bets in (UP, DOWN))
        self._wealth = np.zeros((2, size))
        self.passes, self.fails = np.zeros((2, size), dtype=bool)

    def add(self, item: int, low: float, high: float) -> None:
        self._passing[item] += np.log1p(self._up * (low - self.rate))
        self._failing[item] += np.log1p(self._down * (self.rate - high))
        for row, wealth in zip(self._wealth, (self._passing, self._failing), strict=True):
            row[item] = np.logaddexp.reduce(wealth[item])
        # Only wealth that grew can decide anything.
        if low > self.rate:
            self.passes |= rejected(self._wealth[0], self.alpha)
        if high < self.rate:
            self.fails |= rejected(self._wealth[1], self.alpha)


def rejected(log_wealth: Floats, alpha: float) -> Bools:
    """Where every set that holds an item has a mean wealth of 1/alpha at least.

    Of the sets with k others those of the poorest are the worst; with the item among the k + 1 poorest of all, the mean
    of these decides, which is no less for larger k.
    """
    order = np.argsort(log_wealth, kind="stable")
    wealth = np.exp(np.minimum(log_wealth[order], MOST) - ROUNDING)
    poorer = np.concatenate(([0.0], np.cumsum(wealth)[:-1]))
    needed = np.maximum.accumulate((np.arange(len(wealth)) + 1) / alpha - poorer)
    found = np.empty(len(wealth), dtype=bool)
    found[order] = wealth >= needed
    return found
