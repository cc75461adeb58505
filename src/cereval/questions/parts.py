"""Keep the parts of runs that ask several models: each holds one model's answers, and has no question of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any

from cereval.errors import Misuse, StoreError
from cereval.forms import Share
from cereval.plan import Known, Plan
from cereval.questions.base import Earlier, Kind
from cereval.questions.session import AskTell, locked
from cereval.records import Certified, Draw, Stopped


@dataclass(frozen=True, slots=True)
class PartGoal:
    stated: Mapping[str, Any]

    @property
    def words(self) -> str:
        return str(self.stated.get("words", "part of a ranking"))

    def spec(self) -> dict[str, Any]:
        return dict(self.stated)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PartResult(Certified):
    mean: Share | None

    def answer(self) -> str:
        shown = "no score yet" if self.mean is None else f"{self.mean:.1%} on average, not certified"
        return f"{PartGoal(self.goal).words}: {shown}"

    def headline(self) -> str:
        return f"{self.answer()}, {self.asked()}"


class PartSession(AskTell):
    """Tell the answers of one model again; what is asked next is decided by the run that it is part of."""

    def __init__(self, plan: Plan, draws: tuple[Draw, ...]) -> None:
        asked: dict[str, Any] = {"confidence": plan.confidence, "seed": plan.seed, "models": plan.names}
        super().__init__(plan.n_items, PartGoal(plan.goal), budget=None, **asked)
        self._given = iter(draws)

    def _next_draw(self) -> Draw | None:
        return next(self._given, None)

    def _observe(self, index: int) -> None:
        """Leave the result alone: nothing is concluded from a part."""

    def _state(self) -> Stopped:
        return "running"

    @locked
    def result(self) -> PartResult:
        known = [score for _, (score,) in self.log if score is not None]
        mean = fsum(known) / len(known) if known else None
        return PartResult(**self._frame(), method="pairs", guarantee="heuristic", mean=mean)


class Part(Kind):
    """Keep one model's answers in a ranking or a comparison."""

    name = "part"
    learns = False

    def session(self, plan: Plan, known: Known, earlier: Earlier | None = None) -> PartSession:  # noqa: ARG002
        assert earlier is not None
        draws = earlier(plan.run_id)[2]
        for number, draw in enumerate(draws):
            if draw.index != number:
                raise StoreError(
                    f"the draws of run {plan.run_id} are damaged, or were changed by hand: draw {number} is missing"
                )
        return PartSession(plan, draws)

    def goal_words(self, plan: Mapping[str, Any]) -> str:
        return PartGoal(plan["goal"]).words

    def refusal(self, plan: Plan) -> str | None:
        if plan.goal.get("judged"):
            return "the run that people label, not its judge's part: repeat `cereval run --scorer people --judge`"
        # Parts of rankings belong to all that share them.
        whole = plan.goal.get("of")
        return "no part of a larger run: " + (
            f"resume {whole}" if whole else "repeat `cereval rank`, or resume the run that it belongs to"
        )

    def reopened(self, certificate: Mapping[str, Any]) -> AskTell:  # noqa: ARG002
        raise Misuse("a part of a run has no certificate of its own")
