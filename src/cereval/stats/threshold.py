"""Test on which side of a threshold the target lies, and correct tests for their number.

An e-value is a nonnegative random variable with mean at most 1 under its null; 1/alpha of it rejects at level alpha
(Markov). An e-process is one at every stopping time (Ville).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np

from cereval.errors import InvalidInput
from cereval.stats.bets import largest_stakes, null_variance, payoffs
from cereval.stats.increments import Increment, Prospect
from cereval.stats.information import Information
from cereval.stats.interval import CAP, ROUNDING

GAPS = np.array([0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32])
"""Distances from the threshold for which one bet each is the best; their mixture is within ln 7 of the best."""


class ThresholdTest:
    """Is R above or below c? Two e-processes, each rejected at the full delta.

    Theorem. K+ is a supermartingale if R <= c, K- if R >= c (see `interval`). At most one of "R > c" and "R < c" is a
    wrong answer, so each may be given at level delta and the answer is wrong with probability <= delta,
    whenever one stops. The bets are a mixture over the unknown distance |R - c| (method of mixtures, Robbins
    1970): one account for each gap d, betting d / s^2, and one that plugs in the current estimate.
    """

    def __init__(self, threshold: float, delta: float, cap: float = CAP) -> None:
        self.threshold, self.cap = threshold, cap
        self._candidate = np.array([threshold])
        self._needed = log(1 / delta) + ROUNDING
        shares = np.append(np.full(len(GAPS), 0.5 / len(GAPS)), 0.5)
        self._wealth = np.tile(np.log(shares), (2, 1))
        self._stakes = np.zeros_like(self._wealth)
        self._best = np.full(2, -np.inf)

    def stake(self, prospect: Prospect, clock: Information) -> None:
        variance = null_variance(self._candidate, prospect, clock) * prospect.variance
        lead = clock.mean - self.threshold
        plug_in = np.array([[max(lead, 0.0)], [max(-lead, 0.0)]])
        gaps = np.hstack((np.tile(GAPS, (2, 1)), plug_in))
        self._stakes = np.minimum(gaps / variance, largest_stakes(self._candidate, prospect, self.cap))

    def settle(self, increment: Increment) -> None:
        self._wealth += np.log1p(self._stakes * payoffs(self._candidate, increment))
        np.maximum(self._best, np.logaddexp.reduce(self._wealth, axis=1), out=self._best)

    @property
    def evidence(self) -> tuple[float, float]:
        """The largest log-wealth so far against R <= c and against R >= c: minus the logarithm of two
        p-values that hold at all times at once."""
        return float(self._best[0]), float(self._best[1])

    @property
    def above(self) -> bool:
        return bool(self._best[0] >= self._needed)

    @property
    def below(self) -> bool:
        return bool(self._best[1] >= self._needed)


def holm(e_values: Sequence[float], delta: float) -> tuple[bool, ...]:
    """Which nulls are rejected with familywise error <= delta, any dependence (Holm 1979 with p = 1/e)."""
    values = np.asarray(e_values, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not (values >= 0).all():
        raise InvalidInput("e_values", "a non-empty list of numbers >= 0", e_values)
    rejected = [False] * len(values)
    for rank, index in enumerate(np.argsort(-values, kind="stable")):
        if values[index] < (len(values) - rank) / delta:
            break
        rejected[int(index)] = True
    return tuple(rejected)
