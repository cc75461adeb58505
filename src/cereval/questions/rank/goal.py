"""State the goals of a ranking: the full order, the top k, who beats a baseline.

A goal says which pairs are played, how many of their nulls can be true and wrongly rejected (`family`), which
pairs still matter, and what the answer is. Matrices are those of `PairClaims`: [i, j] speaks of model i over model j.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from cereval.arrays import Bools, Ints
from cereval.errors import InvalidInput
from cereval.forms import Count, OpenShare, Positive, ShareBelowOne
from cereval.questions.goals import Goal
from cereval.questions.rank.order import PairClaims
from cereval.questions.session import whole
from cereval.stats.rounding import upper_quantile
from cereval.text import percent

SMALLEST_FLOOR = 0.005
INTERVALS_SHARE = 0.05
ORDER_SHARE = 0.05
"""Of delta. Both are cheap: evidence is counted in logarithms, and ln(1/.9) is little beside ln(K/delta)."""
DOUBTS = (0.5, 0.3, 0.15)
"""Pairs are followed in stages: first those that are estimated to be further apart than the tie, then those that may
well be, last those of which it is only not unlikely. So whatever the budget, it goes to what matters most."""


class RankGoal(Goal, frozen=True):
    """Say what a ranking works towards; all matrices of pairs are symmetric."""

    cap: ClassVar[float]
    """The largest share of an account that one item may lose (see `PairTuning`)."""
    orders_all: ClassVar[bool] = True
    """Whether the family covers every pair played, so that all claims are certified order."""

    @property
    def margin(self) -> float | None:
        """Return the second null's distance from 0, if a claim "worse by less than this" is needed."""
        raise NotImplementedError

    @property
    def floor(self) -> float:
        """Return the smallest distance from a null that the bets aim at."""
        raise NotImplementedError

    def pairs(self, models: int) -> tuple[Ints, Ints]:
        """Return the pairs that are played.

        >>> [numbers.tolist() for numbers in Order().pairs(3)]
        [[0, 0, 1], [1, 2, 2]]
        """
        first, second = np.triu_indices(models, 1)
        return first, second

    def family(self, models: int) -> int:
        """Return among how many nulls the error budget is shared: as many as can be true and matter to the answer."""
        raise NotImplementedError

    def unsettled(self, claims: PairClaims) -> Bools:
        """Return the pairs that keep the goal from being reached."""
        raise NotImplementedError

    def open(self, claims: PairClaims) -> Bools:
        """Return those of them to follow now; none only if none is unsettled."""
        return self.unsettled(claims)

    def played(self, claims: PairClaims) -> Bools:
        """Return the pairs whose games go on when both models have been asked."""
        raise NotImplementedError

    def ties(self, claims: PairClaims) -> Bools:
        return np.zeros_like(claims.above)

    def winners(self, claims: PairClaims) -> Bools:
        return np.zeros(len(claims.above), dtype=bool)

    def losers(self, claims: PairClaims) -> Bools:
        return np.zeros(len(claims.above), dtype=bool)


class Ties(RankGoal, frozen=True):
    """Decide when a pair is a tie: proven within `tie`, or unlikely to be further apart.

    doubt: a pair that is not ordered is given up as a tie once the chance that it is further apart than `tie`, by
    its estimate and standard error, is below this. That steers calls and certifies nothing. `proven`: only pairs
    whose difference is certified to be below `tie` are ties, which costs about half as many calls again.
    """

    cap: ClassVar[float] = 0.7
    """For pairs that are close."""
    tie: OpenShare = 0.05
    doubt: Annotated[float, Meta(gt=0, lt=0.5)] = 0.05
    proven: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
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

    def played(self, claims: PairClaims) -> Bools:
        return claims.unordered

    def ties(self, claims: PairClaims) -> Bools:
        if not self.proven:
            return self.played(claims) & self._unlikely(claims, self.doubt)
        found: Bools = self.played(claims) & claims.near & claims.near.T
        return found

    def _unlikely(self, claims: PairClaims, doubt: float) -> Bools:
        """Return the pairs whose chance to be further apart than the tie is below `doubt`; never one that was not
        played.
        """
        reach = upper_quantile(doubt) * claims.error
        found: Bools = (np.abs(claims.gap) + reach < self.tie) & (claims.error < 1)
        return found

    def unsettled(self, claims: PairClaims) -> Bools:
        return self.played(claims) & ~self.ties(claims)

    def open(self, claims: PairClaims) -> Bools:
        last = self.unsettled(claims)
        stages = (last & ~self._unlikely(claims, doubt) for doubt in DOUBTS)
        return next((stage for stage in stages if stage.any()), last)


class Order(Ties, frozen=True, tag="order"):
    """Put every pair further apart than `tie` in order.

    "Above" reads "at least as good as": of a pair with different means one order is wrong, of a pair with equal means
    none, so that K(K-1)/2 nulls share the error budget. (With `proven` it is the same: a pair further apart than the
    tie allows one wrong event, see `rank.order.read`, a nearer one the wrong order alone.)

    Giving the parts of settled pairs to open ones (Holm 1979) would not be valid: the null that is true of a settled
    pair has had its chance by then, whether or not it is looked at any further. What is valid, and does not pay: parts
    that fall with the distance of two models in the true order (over all pairs of one order they sum to delta), so
    that a claim about two models with few others possible between them needs less evidence. With parts in proportion
    to 1/d, flat up to 8 or 12 and then steep, or exponential, GSM8K and AlpacaEval took 53.1 to 54.2% and 55.0 to 57.2%
    of the calls, for 53.2 and 54.8 (four runs): too many models are possible between two that are 5 points apart. Valid
    too: claims chosen by the first 5% of the items, then Holm on the evidence of the rest. In the end 329 of 903 and
    533 of 1,225 claims are open still, which is worth 1.0 and .8 nats, the first items cost .4, and the pairs whose
    sign was wrong by then (22 and 43) are never ordered: 54.5 and 58.2% of the calls.

    >>> Order(0.05).family(43)
    903
    """

    def family(self, models: int) -> int:
        return models * (models - 1) // 2

    @property
    def words(self) -> str:
        return f"every pair further apart than {percent(self.tie)} in order"


class Top(RankGoal, frozen=True, tag="top"):
    """k models, each certified to be less than `within` below the k-th best.

    Theorem. Let T* be the true top k. If no claim "above" or "near" is wrong on the k(K-k) pairs of a model in T* and
    one outside, the answer is right. Proof: a model of T* is never out, because nothing outside T* is ever above it,
    nor above what is above it, and T* leaves it k-1 betters at most. Let a be in the answer and not in T*; some c of
    T* is then not in the answer, is not out, and so a is near it: score(a) > score(c) - within, and score(c) is at
    least the k-th best. So k(K-k) nulls share the error budget: K-1 for the best model.

    >>> Top(1, within=0.02).family(43)
    42
    """

    cap: ClassVar[float] = 0.85
    """For pairs that are far apart."""
    orders_all: ClassVar[bool] = False
    k: Positive = 1
    within: ShareBelowOne = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(k=whole("top", self.k, 1))

    @property
    def margin(self) -> float | None:
        return self.within

    @property
    def floor(self) -> float:
        return max(self.within, SMALLEST_FLOOR)

    def pairs(self, models: int) -> tuple[Ints, Ints]:
        if self.k >= models:
            raise InvalidInput("top", f"below the number of models, {models}", self.k)
        return super().pairs(models)

    def family(self, models: int) -> int:
        return self.k * (models - self.k)

    def unsettled(self, claims: PairClaims) -> Bools:
        inside = self.winners(claims)
        rivals = ~self.losers(claims) & ~inside
        needed = np.outer(inside, rivals) & ~claims.near
        found: Bools = needed | needed.T
        return found

    def played(self, claims: PairClaims) -> Bools:
        alive = ~self.losers(claims)
        return claims.unordered & np.outer(alive, alive)

    def winners(self, claims: PairClaims) -> Bools:
        """Return those with the fewest certified betters, and of these the ones that lead the others on shared
        items."""
        betters = claims.above.sum(axis=0)
        lead = claims.gap[:, betters < self.k].mean(axis=1)
        found = np.zeros(len(lead), dtype=bool)
        found[np.lexsort((-lead, betters))[: self.k]] = True
        return found

    def losers(self, claims: PairClaims) -> Bools:
        found: Bools = claims.above.sum(axis=0) >= self.k
        return found

    @property
    def words(self) -> str:
        return f"the {'best model' if self.k == 1 else f'{self.k} best models'} within {percent(self.within)}"


class Beats(Ties, frozen=True, kw_only=True, tag="beats"):
    """Decide for each model: better or worse than the model number `baseline`, or a tie with it. 2(K-1) nulls.

    >>> Beats(baseline=3).family(43)
    84
    """

    baseline: Count = 0

    def pairs(self, models: int) -> tuple[Ints, Ints]:
        if isinstance(self.baseline, bool) or not 0 <= self.baseline < models:
            raise InvalidInput("baseline", f"the number of a model, 0 to {models - 1}", self.baseline)
        others = np.delete(np.arange(models), self.baseline)
        return others, np.full(models - 1, self.baseline)

    def family(self, models: int) -> int:
        return 2 * (models - 1)

    def played(self, claims: PairClaims) -> Bools:
        found = np.zeros_like(claims.above)
        found[self.baseline] = found[:, self.baseline] = claims.unordered[self.baseline]
        return found

    def winners(self, claims: PairClaims) -> Bools:
        found: Bools = claims.above[:, self.baseline]
        return found

    def losers(self, claims: PairClaims) -> Bools:
        found: Bools = claims.above[self.baseline]
        return found

    @property
    def words(self) -> str:
        return f"which models beat the baseline by more than {percent(self.tie)}"
