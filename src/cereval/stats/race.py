"""One shared order of the items in which some are likelier to come soon, and fair bets along it.

Let w > 0 be weights of the N items, known before the first score. The order is an exponential race: item i finishes
at Exp/w_i, the first to finish is asked first. Given the first t items of the order, the next is the unseen item i with
chance q_i = w_i/W, W the sum of w over the unseen U, whatever the scores are.

Theorem. Let d_i >= -1 be numbers with mean Delta (a pair's differences), seen = sum_S d/N, and let the null be
Delta <= m. For a stake L >= 0 and any b with sum_U b = 1 - L (m - seen) and b_i >= L/N, both functions of the past
alone,

    e = (b_I + L d_I/N) / q_I,   I ~ q

is >= 0, and E[e | past] = sum_U b + L sum_U d/N = 1 + L (Delta - m) <= 1 under the null: products of such factors are
nonnegative supermartingales, and Ville's inequality holds as for equal chances. (All fair bets on one item
have this form; b_i = q_i (1 - L (m - seen)) are the increments of `stats.increments` without a forecast.)

Which b: what an item that nobody expects can lose, L/(N q_i), limits the stakes of those increments: an item half as
likely loses twice as much. So b_i = max(k q_i, L/(N SAFE)): unlikely items get what they need in order not to
lose all, and the others share the rest, k = min_j (1 - L (m - seen) - L u_j/(N SAFE)) / (1 - W_j/W) over the sets of
the j lowest weights (u_j items, of weight W_j): of every set, sum_U b is at least k (1 - W_j/W) + L u_j/(N SAFE), with
equality for the set that is raised. Weights come in a few levels, so that the minimum is over a handful of sets.
Under equal weights e is that of `pairs`. A race takes 12% fewer calls than equal chances on AlpacaEval.

A score that is not known counts as the lowest possible: e and `seen` only fall.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cereval.arrays import Floats, Ints
from cereval.stats.rounding import RANGE_SLACK

SAFE = 0.95  # The largest share of its own part b that an unlikely item may lose
CARE = 0.15
"""How far the stakes mind the largest loss of all (0: all items alike, 1: as if every b were in proportion to q); 0 to
.3 take about the same calls on AlpacaEval and GSM8K."""
TINY = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Race:
    """A shared order, and what is known at each of its places before the item there is asked.

    order: the items. chances: q of the item at a place. factors: 1/(N q), by which a score there counts.
    reach: the largest factor that was possible. variance: that of an increment, in units of a pair's mean square, if
    the squares are in proportion to `expected`. information: the sum of 1/variance over the places before.
    raised, rest: of the sets of lowest levels, u_j/(N SAFE) and 1 - W_j/W.

    >>> race = Race.along(np.array([3, 2, 0, 1]), np.array([1.0, 1.0, 2.0, 2.0]), np.ones(4))
    >>> race.chances.round(3).tolist()
    [0.333, 0.5, 0.5, 1.0]
    """

    order: Ints
    chances: Floats
    factors: Floats
    reach: Floats
    variance: Floats
    information: Floats
    raised: Floats
    rest: Floats

    @classmethod
    def along(cls, order: Ints, weights: Floats, expected: Floats) -> Race:
        """An order in which items with these weights were drawn; expected: of each item the square of a difference,
        in any unit."""
        items, weight, square = len(order), weights[order], (expected / expected.mean())[order]
        levels, level = np.unique(weight, return_inverse=True)
        own = np.zeros((items, len(levels)))
        own[np.arange(items), level] = 1.0
        unseen = np.cumsum(own[::-1], axis=0)[::-1]
        weights = unseen * levels
        race = weights.sum(axis=1)
        least = levels[(unseen > 0).argmax(axis=1)]
        variance = race * np.cumsum((square / weight)[::-1])[::-1] / items**2
        return cls(
            order=order,
            chances=weight / race,
            factors=race / (weight * items),
            reach=race / (least * items) * (1 + RANGE_SLACK),
            variance=variance,
            information=np.append(0.0, np.cumsum(1 / variance)),
            raised=np.cumsum(unseen, axis=1)[:, :-1] / (items * SAFE),
            rest=np.cumsum(weights[:, ::-1], axis=1)[:, ::-1][:, 1:] / race[:, None],
        )

    def largest_stakes(self, place: Ints, owed: Floats, cap: float) -> Floats:
        """The largest stakes against nulls that exceed the part seen by `owed`.

        At most a share `cap` may be lost on an item of middling chance, and sum_U L/(N SAFE) <= 1 - L owed, so that
        there is a b.
        """
        left = 1 - place / len(self.order)
        reach = left + CARE * (self.reach[place] - left)
        losing, possible = np.maximum(owed + reach, TINY), np.maximum(owed + left / SAFE, TINY)
        return np.asarray(np.minimum(cap / losing, 1 / possible))

    def payoffs(self, place: Ints, stakes: Floats, owed: Floats, gain: Floats) -> Floats:
        """e of the items at these places; gain: the least that the differences on them can be."""
        whole = 1 - stakes * owed
        shared = whole
        for raised, rest in zip(self.raised.T, self.rest.T, strict=True):
            shared = np.minimum(shared, (whole - stakes * raised[place]) / np.maximum(rest[place], TINY))
        factor = self.factors[place]
        # b/q and L d/(N q), with 1/(N q) = factor.
        return np.asarray(np.maximum(shared, stakes * factor / SAFE) + stakes * factor * gain)
