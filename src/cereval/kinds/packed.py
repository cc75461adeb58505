"""Read comparisons of the first version: one run of scores y = (1 + first - second)/2, both answers in one text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from cereval.goals import COMPARE
from cereval.kinds.estimate import EstimateMean
from cereval.plan import Plan
from cereval.records import Certified, Result
from cereval.sessions.pair import Comparison


class PackedPair(EstimateMean):
    """Resume, verify and report the runs of this kind as they were begun; no new ones are made."""

    name: ClassVar[str] = "packed"
    page: ClassVar[str] = "cereval.report.compare:compare_page"
    teaches: ClassVar[bool] = False
    packed: ClassVar[bool] = True
    goal_may_change: ClassVar[bool] = False
    goals: ClassVar[tuple[type, ...]] = COMPARE

    def claims(self, plan: Mapping[str, Any]) -> bool:
        return "second" in plan.get("model", {})

    def models(self, plan: Plan) -> tuple[Mapping[str, Any], ...]:
        return plan.model["first"], plan.model["second"]

    def notes(self, plan: Plan) -> tuple[str, ...]:  # noqa: ARG002
        return ("progress shows (1 + first - second)/2: 50% where the two models are equal",)

    def shown(self, result: Certified, plan: Plan) -> Certified:
        assert isinstance(result, Result)
        return Comparison.of(result, self.names(plan))
