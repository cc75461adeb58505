"""Asks the items in the order of a permutation that the seed decides, until the others can no longer change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np
from tests.questions.majority.goal import MoreThanHalf

from cereval.forms import Share
from cereval.questions.session import AskTell, locked
from cereval.records import Certified, Draw, Stopped


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MajorityResult(Certified):
    """The mean lies in [lower, upper], for certain."""

    lower: Share
    upper: Share

    def answer(self) -> str:
        return f"right on more than half: {self.decision or 'undecided'}"


class MajoritySession(AskTell):
    goals = (MoreThanHalf,)

    def __init__(
        self,
        n_items: int,
        *,
        goal: MoreThanHalf | None = None,
        seed: int | None = None,
        confidence: float = 0.95,
        budget: int | None = None,
        models: Sequence[str] = (),
    ) -> None:
        super().__init__(n_items, goal, confidence=confidence, budget=budget, seed=seed, models=models)
        order = np.random.default_rng(self.seed).permutation(n_items).tolist()
        self._coming = iter([Draw(at, item, 1 / (n_items - at)) for at, item in enumerate(order)])
        self._check_stop()

    def _next_draw(self) -> Draw | None:
        return next(self._coming, None)

    def _observe(self, index: int) -> None:
        """The log says it all."""

    def limits(self) -> tuple[float, float]:
        known = [score for _, (score,) in self.log if score is not None]
        return fsum(known) / self.n_items, (fsum(known) + self.n_items - len(known)) / self.n_items

    def _state(self) -> Stopped:
        lower, upper = self.limits()
        if lower > 0.5 or upper <= 0.5:
            return "goal"
        if self._consumed >= self.n_items:
            return "exhausted"
        return "budget" if self.budget is not None and self._consumed >= self.budget else "running"

    @locked
    def result(self) -> MajorityResult:
        lower, upper = self.limits()
        return MajorityResult(
            **self._frame(),
            lower=lower,
            upper=upper,
            decision="yes" if lower > 0.5 else "no" if upper <= 0.5 else None,
            method="permutation",
            guarantee="anytime",
        )
