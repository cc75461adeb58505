"""A sixth kind in one file: is the model right on more than half of the items? Nothing else knows of it.

The answer is certain: it is given when the items that were not asked can no longer change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any, ClassVar

import numpy as np

from cereval.arrays import Draws
from cereval.certificate.audit import Audit, Equal
from cereval.errors import InvalidInput
from cereval.plan import Known, Plan
from cereval.questions.base import Earlier, Kind
from cereval.questions.session import AskTell
from cereval.records import Certified, Draw, Stopped

WORDS = "right on more than half?"


@dataclass(frozen=True)
class MoreThanHalf:
    """The goal."""

    name: ClassVar[str] = "more-than-half"
    words: str = WORDS

    def spec(self) -> dict[str, Any]:
        return {"goal": self.name, "words": self.words}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MajorityResult(Certified):
    """The mean lies in [lower, upper], for certain."""

    lower: float
    upper: float

    def answer(self) -> str:
        return f"right on more than half: {self.decision or 'undecided'}"


class MajoritySession(AskTell):
    """Asks the items in the order of a permutation that the seed decides."""

    def __init__(
        self,
        n_items: int,
        *,
        seed: int = 0,
        confidence: float = 0.95,
        budget: int | None = None,
        models: tuple[str, ...] = (),
    ) -> None:
        self.n_items, self.seed, self.confidence, self.models = n_items, seed, confidence, models
        self.goal, self._first_budget = MoreThanHalf(), budget
        order = np.random.default_rng(seed).permutation(n_items).tolist()
        self._coming = iter([Draw(at, item, 1 / (n_items - at)) for at, item in enumerate(order)])
        super().__init__(Draws(), budget)
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

    def settings(self) -> dict[str, Any]:
        return {
            "n_items": self.n_items,
            "goal": self.goal.spec(),
            "confidence": self.confidence,
            "budget": self._first_budget,
            "seed": self.seed,
        }

    def result(self) -> MajorityResult:
        lower, upper = self.limits()
        return MajorityResult(
            lower=lower,
            upper=upper,
            decision="yes" if lower > 0.5 else "no" if upper <= 0.5 else None,
            confidence=self.confidence,
            n_evaluated=self._consumed,
            n_items=self.n_items,
            saved=1 - self._consumed / self.n_items,
            stopped=self._stopped,
            method="permutation",
            guarantee="anytime",
            target="benchmark",
            seed=self.seed,
            failures=self._failures,
            goal=self.goal.spec(),
            models=self.models,
        )


class MajorityAudit(Audit):
    """Counts by hand."""

    def check(self, certificate: Mapping[str, Any], session: AskTell, equal: Equal) -> str:  # noqa: ARG002
        scores = [entry["score"] for entry in certificate["log"]]
        unknown = certificate["settings"]["n_items"] - sum(score is not None for score in scores)
        right = sum(score for score in scores if score is not None)
        size, stated = certificate["settings"]["n_items"], certificate["result"]
        equal("result.lower (audit)", stated["lower"], float(right / size))
        equal("result.upper (audit)", stated["upper"], float((right + unknown) / size))
        return self.kind.audited


class Majority(Kind):
    """The kind itself: how a plan and a certificate become a session."""

    name: ClassVar[str] = "majority"
    format: ClassVar[str] = "cereval-majority/1"
    audited: ClassVar[str] = "counted by hand"
    audit: ClassVar[str] = "tests.questions.majority:MajorityAudit"
    learns: ClassVar[bool] = False

    def session(self, plan: Plan, known: Known, earlier: Earlier | None = None) -> MajoritySession:  # noqa: ARG002
        return MajoritySession(
            plan.n_items,
            seed=plan.seed,
            confidence=plan.confidence,
            budget=plan.max_calls,
            models=plan.names,
        )

    def reopened(self, certificate: Mapping[str, Any]) -> MajoritySession:
        settings = certificate["settings"]
        if settings["goal"] != MoreThanHalf().spec():
            raise InvalidInput("goal", "that of a majority", settings["goal"])
        names = ("seed", "confidence", "budget")
        return MajoritySession(
            settings["n_items"],
            models=(str(settings["about"]["model"]),),
            **{name: settings[name] for name in names},
        )

    def check_plan(self, certificate: Mapping[str, Any], equal: Any) -> None:
        plan = Plan.from_dict(certificate["plan"])
        found = self.settings(self.session(plan, Known()), self.about(plan))
        equal("settings of the plan", certificate["settings"], found)
        equal("plan.goal, plan.target", (plan.goal, plan.target), (found["goal"], "benchmark"))
