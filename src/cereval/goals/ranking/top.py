"""`Top(k)`: the k best models, or models within reach of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cereval.errors import InvalidInput
from cereval.goals.ranking.base import SMALLEST_FLOOR, Bools, Claims, Ints, all_pairs

CAP = 0.85
"""For pairs that are far apart."""


@dataclass(frozen=True, slots=True)
class Top:
    """k models, each certified to be less than `within` below the k-th best.

    Theorem. Let T* be the true top k. If no claim "above" or "near" is wrong on the k(K-k) pairs of a model in T* and
    one outside, the answer is right. Proof: a model of T* is never out, because nothing outside T* is ever above it,
    nor above what is above it, and T* leaves it k-1 betters at most. Let a be in the answer and not in T*; some c of
    T* is then not in the answer, is not out, and so a is near it: score(a) > score(c) - within, and score(c) is at
    least the k-th best. So k(K-k) nulls share the error budget: K-1 for the best model.

    >>> Top(1, within=0.02).family(43)
    42
    """

    k: int = 1
    within: float = 0.02

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int | np.integer) or self.k < 1:
            raise InvalidInput("top", "a whole number >= 1", self.k)
        if isinstance(self.within, bool) or not 0.0 <= self.within < 1.0:
            raise InvalidInput("within", "a number in [0, 1)", self.within)

    @property
    def margin(self) -> float | None:
        return self.within

    @property
    def floor(self) -> float:
        return max(self.within, SMALLEST_FLOOR)

    @property
    def cap(self) -> float:
        return CAP

    @property
    def orders_all(self) -> bool:
        return False

    def pairs(self, models: int) -> tuple[Ints, Ints]:
        if self.k >= models:
            raise InvalidInput("top", f"below the number of models, {models}", self.k)
        return all_pairs(models)

    def family(self, models: int) -> int:
        return self.k * (models - self.k)

    def open(self, claims: Claims) -> Bools:
        return self.unsettled(claims)

    def unsettled(self, claims: Claims) -> Bools:
        inside = self.winners(claims)
        rivals = ~self.losers(claims) & ~inside
        needed = np.outer(inside, rivals) & ~claims.near
        found: Bools = needed | needed.T
        return found

    def played(self, claims: Claims) -> Bools:
        alive = ~self.losers(claims)
        return claims.unordered & np.outer(alive, alive)

    def ties(self, claims: Claims) -> Bools:
        return np.zeros_like(claims.above)

    def winners(self, claims: Claims) -> Bools:
        """Those with the fewest certified betters, and of these the ones that lead the others on shared items."""
        betters = claims.above.sum(axis=0)
        lead = claims.gap[:, betters < self.k].mean(axis=1)
        found = np.zeros(len(lead), dtype=bool)
        found[np.lexsort((-lead, betters))[: self.k]] = True
        return found

    def losers(self, claims: Claims) -> Bools:
        found: Bools = claims.above.sum(axis=0) >= self.k
        return found

    def spec(self) -> dict[str, Any]:
        return {"goal": "top", "k": int(self.k), "within": float(self.within)}
