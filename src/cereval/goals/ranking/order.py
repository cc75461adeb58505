"""`Order(tie)`: every pair of models further apart than a tie put in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cereval.goals.ranking.base import Bools, Claims, Ints, all_pairs
from cereval.goals.ranking.ties import Ties


@dataclass(frozen=True, slots=True)
class Order(Ties):
    """Every pair further apart than `tie` put in order.

    Of a pair with different means one order is wrong, of a pair with equal means both are: K(K-1) nulls.

    >>> Order(0.05).family(43)
    1806
    """

    def pairs(self, models: int) -> tuple[Ints, Ints]:
        return all_pairs(models)

    def family(self, models: int) -> int:
        return models * (models - 1)

    def winners(self, claims: Claims) -> Bools:
        return np.zeros(len(claims.above), dtype=bool)

    def losers(self, claims: Claims) -> Bools:
        return np.zeros(len(claims.above), dtype=bool)

    def spec(self) -> dict[str, Any]:
        return {"goal": "order", **self._spec()}
