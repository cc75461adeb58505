"""Keep the parts of runs that ask several models: each holds one model's answers, and has no question of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any, ClassVar

from cereval.arrays import Draws
from cereval.errors import Misuse, StoreError
from cereval.plan import Known, Plan
from cereval.questions.base import Earlier, Kind
from cereval.questions.session import AskTell
from cereval.records import Certified, Draw, Stopped


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PartResult(Certified):
    """Hold what a model has answered as part of a larger run: counts and a plain mean, nothing certified."""

    mean: float | None

    def answer(self) -> str:
        shown = "no score yet" if self.mean is None else f"{self.mean:.1%} on average, not certified"
        return f"{self.goal.get('words', 'part of a ranking')}: {shown}"

    def headline(self) -> str:
        return f"{self.answer()}, {self.asked()}"


class PartSession(AskTell):
    """Tell the answers of one model again; what is asked next is decided by the run that it is part of."""

    def __init__(self, plan: Plan, draws: tuple[Draw, ...]) -> None:
        """Take the draws that the larger run decided."""
        self.n_items, self.seed, self.confidence = plan.n_items, plan.seed, plan.confidence
        self.models, self.spec = (plan.name,), dict(plan.goal)
        self.goal = None
        self._given = iter(draws)
        super().__init__(Draws(), None)

    def _next_draw(self) -> Draw | None:
        return next(self._given, None)

    def _observe(self, index: int) -> None:
        """Leave the result alone: nothing is concluded from a part."""

    def _state(self) -> Stopped:
        return "running"

    def settings(self) -> dict[str, Any]:
        return {"n_items": self.n_items, "seed": self.seed}

    def result(self) -> PartResult:
        told = [scores[0] for _, scores in self.log]
        known = [score for score in told if score is not None]
        return PartResult(
            confidence=self.confidence,
            n_evaluated=len(told),
            n_items=self.n_items,
            saved=1 - len(told) / self.n_items,
            stopped="running",
            method="pairs",
            guarantee="heuristic",
            target="benchmark",
            seed=self.seed,
            failures=len(told) - len(known),
            goal=self.spec,
            models=self.models,
            mean=fsum(known) / len(known) if known else None,
        )


class Part(Kind):
    """Keep one model's answers in a ranking or a comparison."""

    name: ClassVar[str] = "part"
    format: ClassVar[str] = ""
    learns: ClassVar[bool] = False

    def session(self, plan: Plan, known: Known, earlier: Earlier) -> PartSession:  # noqa: ARG002
        return PartSession(plan, _checked(plan, earlier(plan.run_id)[2]))

    def goal_words(self, plan: Mapping[str, Any]) -> str:
        return str(plan["goal"].get("words", "part of a ranking"))

    def refusal(self, plan: Plan) -> str | None:
        # Parts of rankings belong to all that share them.
        whole = plan.goal.get("of")
        return "no part of a larger run: " + (
            f"resume {whole}" if whole else "repeat `cereval rank`, or resume the run that it belongs to"
        )

    def reopened(self, certificate: Mapping[str, Any]) -> AskTell:  # noqa: ARG002
        raise Misuse("a part of a run has no certificate of its own")


def _checked(plan: Plan, draws: tuple[Draw, ...]) -> tuple[Draw, ...]:
    """Return the draws that a store has of a part, if they are numbered from 0 on."""
    for number, draw in enumerate(draws):
        if draw.index != number:
            raise StoreError(
                f"the draws of run {plan.run_id} are damaged, or were changed by hand: draw {number} is missing"
            )
    return draws
