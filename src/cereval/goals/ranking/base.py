"""The contract of a ranking's goal.

A goal says which pairs are played, how many of their nulls can be true and wrongly rejected (`family`), which
pairs still matter, and what the answer is. Matrices are those of `Claims`: [i, j] speaks of model i over model j.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SMALLEST_FLOOR = 0.005


class Claims(Protocol):
    """What a goal may look at; see `cereval.rank.claims.PairClaims`."""

    @property
    def above(self) -> Bools: ...
    @property
    def near(self) -> Bools: ...
    @property
    def gap(self) -> Floats: ...
    @property
    def error(self) -> Floats: ...
    @property
    def unordered(self) -> Bools: ...


class RankGoal(Protocol):
    """Goals are frozen, validated in their constructors, and rebuilt from their spec."""

    @property
    def margin(self) -> float | None:
        """The second null's distance from 0, if a claim "worse by less than this" is needed."""

    @property
    def floor(self) -> float:
        """The smallest distance from a null that the bets aim at."""

    @property
    def cap(self) -> float:
        """The largest share of an account that one item may lose (see `PairTuning`)."""

    def pairs(self, models: int) -> tuple[Ints, Ints]:
        """The pairs that are played."""

    def family(self, models: int) -> int:
        """Among how many nulls the error budget is shared: as many as can be true and matter to the answer."""

    @property
    def orders_all(self) -> bool:
        """Whether the family holds both nulls of every pair played, so that all claims are certified order."""

    def unsettled(self, claims: Claims) -> Bools:
        """Pairs that keep the goal from being reached (symmetric)."""

    def open(self, claims: Claims) -> Bools:
        """Those of them to follow now; none only if none is unsettled."""

    def played(self, claims: Claims) -> Bools:
        """Pairs whose games go on when both models have been asked (symmetric)."""

    def ties(self, claims: Claims) -> Bools:
        """Pairs given as ties (symmetric)."""

    def winners(self, claims: Claims) -> Bools:
        """The models that answer the goal's question: the top k, or those that beat the baseline."""

    def losers(self, claims: Claims) -> Bools:
        """The models certified out of it."""

    def spec(self) -> dict[str, Any]:
        """Name and parameters, JSON-able."""


def all_pairs(models: int) -> tuple[Ints, Ints]:
    """Every pair of different models once.

    >>> [numbers.tolist() for numbers in all_pairs(3)]
    [[0, 0, 1], [1, 2, 2]]
    """
    first, second = np.triu_indices(models, 1)
    return first, second
