"""`Beats(baseline)`: which models are better than one of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cereval.errors import InvalidInput
from cereval.goals.ranking.base import Bools, Claims, Ints
from cereval.goals.ranking.ties import Ties


@dataclass(frozen=True, slots=True)
class Beats(Ties):
    """For each model: better or worse than the model number `baseline`, or a tie with it. 2(K-1) nulls.

    >>> Beats(baseline=3).family(43)
    84
    """

    baseline: int = field(default=0, kw_only=True)

    def pairs(self, models: int) -> tuple[Ints, Ints]:
        if isinstance(self.baseline, bool) or not 0 <= self.baseline < models:
            raise InvalidInput("baseline", f"the number of a model, 0 to {models - 1}", self.baseline)
        others = np.delete(np.arange(models), self.baseline)
        return others, np.full(models - 1, self.baseline)

    def family(self, models: int) -> int:
        return 2 * (models - 1)

    def candidates(self, claims: Claims) -> Bools:
        found = np.zeros_like(claims.above)
        found[self.baseline] = found[:, self.baseline] = claims.unordered[self.baseline]
        return found

    def winners(self, claims: Claims) -> Bools:
        found: Bools = claims.above[:, self.baseline]
        return found

    def losers(self, claims: Claims) -> Bools:
        found: Bools = claims.above[self.baseline]
        return found

    def spec(self) -> dict[str, Any]:
        return {"goal": "beats", "baseline": int(self.baseline), **self._spec()}
