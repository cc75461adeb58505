"""State what is certified about pairs of models at one moment, as matrices: entry [i, j] says something of i over j."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cereval.stats.pairs import PairGames
from cereval.stats.rounding import sum_slack

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

EXACT = 1e-12
"""The least distance of two means that are told apart; more where the sums behind them may be off by more."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """List the pairs (first[p], second[p]) of `models` models that are played."""

    models: int
    first: Ints
    second: Ints

    def matrix(self, values: Floats, empty: float) -> Floats:
        """Return values[direction, pair] as a matrix: row 0 for first over second, row 1 for second over first."""
        found = np.full((self.models, self.models), empty)
        found[self.first, self.second], found[self.second, self.first] = values
        return found

    def each(self, matrix: Bools) -> Bools:
        """Return the entries of a symmetric matrix, one for each pair."""
        found: Bools = matrix[self.first, self.second]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class PairClaims:
    """Hold what is certified. above: better, transitively closed. near: worse by less than the margin (or better).

    `order` is what may be listed as certified order beside the goal's own answer. `gap` and `error` are the
    estimated differences on shared items; they steer the draws and prove nothing.
    """

    above: Bools
    near: Bools
    order: Bools
    gap: Floats
    error: Floats

    @property
    def contradiction(self) -> bool:
        """Return two models each certified better than the other: an event of probability <= delta."""
        return bool((self.above & self.above.T).any() or (self.order & self.order.T).any())

    @property
    def unordered(self) -> Bools:
        """Return the pairs of different models of which neither is certified better."""
        found: Bools = ~(self.above | self.above.T)
        np.fill_diagonal(found, False)
        return found


def read(
    games: PairGames, pairs: Pairs, *, margin: float | None, needed: float, order_needed: float
) -> PairClaims:
    """Return the claims that the evidence supports.

    A wrong "above" against a pair that is further apart than the margin has to pass "near" as well: so the two
    wrong claims that such a pair allows are one event, and share one part of the error budget.
    """
    lead = pairs.matrix(games.evidence[0], empty=-np.inf)
    wins = lead >= needed
    near = np.zeros_like(wins)
    if margin is not None:
        lowest = pairs.matrix(games.total, empty=-np.inf) / games.n_items
        complete = pairs.matrix(np.tile(games.time, (2, 1)).astype(np.float64), empty=0) == games.n_items
        passed = pairs.matrix(games.evidence[-1], empty=-np.inf) >= needed
        near = passed | (complete & (lowest >= -margin - max(EXACT, sum_slack(games.n_items))))
        wins &= passed
    above = closed(wins)
    gap, error = games.estimates, games.errors
    return PairClaims(
        above=above,
        near=near | above,
        order=closed(wins & (lead >= order_needed)),
        gap=pairs.matrix(np.stack((gap, -gap)), empty=0.0),
        error=pairs.matrix(np.stack((error, error)), empty=0.0),
    )


def closed(claims: Bools) -> Bools:
    """Return the transitive closure: i above j and j above k give i above k without further evidence.

    >>> closed(np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)).astype(int).tolist()
    [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    """
    while True:
        steps = claims.astype(np.float32)
        further: Bools = claims | (steps @ steps > 0.5)
        if (further == claims).all():
            return claims
        claims = further


def covers(order: Bools) -> Bools:
    """Return the transitive reduction of a closed order: the pairs with no model between them (a Hasse diagram's
    lines).

    >>> covers(np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)).astype(int).tolist()
    [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    """
    steps = order.astype(np.float32)
    found: Bools = order & ~(steps @ steps > 0.5)
    return found
