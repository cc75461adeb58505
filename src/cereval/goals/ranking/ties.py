"""What the goals with ties have in common: when a pair needs no order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from cereval.errors import InvalidInput
from cereval.goals.estimate import in_open_unit_interval
from cereval.goals.ranking.base import SMALLEST_FLOOR, Bools, Claims

CAP = 0.7
"""For pairs that are close."""
DOUBTS = (0.5, 0.3, 0.15)
"""Pairs are followed in stages: first those that are estimated to be further apart than the tie, then those that may
well be, last those of which it is only not unlikely. So whatever the budget, it goes to what matters most."""


@dataclass(frozen=True, slots=True)
class Ties:
    """When a pair is a tie: proven within `tie`, or unlikely to be further apart.

    doubt: a pair that is not ordered is given up as a tie once the chance that it is further apart than `tie`, by
    its estimate and standard error, is below this. That steers calls and certifies nothing. `proven`: only pairs
    whose difference is certified to be below `tie` are ties, which costs about half as many calls again.
    """

    tie: float = 0.05
    doubt: float = 0.05
    proven: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tie", in_open_unit_interval("tie", self.tie))
        if isinstance(self.doubt, bool) or not 0.0 < self.doubt < 0.5:
            raise InvalidInput("doubt", "a number in (0, 0.5)", self.doubt)
        if not isinstance(self.proven, bool):
            raise InvalidInput("proven", "True or False", self.proven)

    @property
    def margin(self) -> float | None:
        return self.tie if self.proven else None

    @property
    def floor(self) -> float:
        return max(self.tie, SMALLEST_FLOOR)

    @property
    def cap(self) -> float:
        return CAP

    @property
    def orders_all(self) -> bool:
        return True

    def candidates(self, claims: Claims) -> Bools:
        """The pairs that the goal asks about and that are not ordered."""
        return claims.unordered

    def ties(self, claims: Claims) -> Bools:
        if not self.proven:
            return self.candidates(claims) & self._unlikely(claims, self.doubt)
        found: Bools = self.candidates(claims) & claims.near & claims.near.T
        return found

    def _unlikely(self, claims: Claims, doubt: float) -> Bools:
        """Pairs whose chance to be further apart than the tie is below `doubt`; never one that was not played."""
        reach = float(ndtri(1 - doubt)) * claims.error
        found: Bools = (np.abs(claims.gap) + reach < self.tie) & (claims.error < 1)
        return found

    def unsettled(self, claims: Claims) -> Bools:
        return self.candidates(claims) & ~self.ties(claims)

    def open(self, claims: Claims) -> Bools:
        last = self.unsettled(claims)
        stages = (last & ~self._unlikely(claims, doubt) for doubt in DOUBTS)
        return next((stage for stage in stages if stage.any()), last)

    def played(self, claims: Claims) -> Bools:
        return self.candidates(claims)

    def _spec(self) -> dict[str, Any]:
        return {"tie": self.tie, "doubt": self.doubt, "proven": self.proven}
