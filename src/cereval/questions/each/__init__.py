"""Find which items a model answers right often enough: `run --each-at-least C`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from cereval.errors import InvalidInput
from cereval.plan import Plan
from cereval.questions.base import Kind, Settings
from cereval.questions.each.goal import EachAtLeast
from cereval.questions.each.session import EachResult, EachSession


class EachSettings(Settings):
    """What decided draws and answers, and the names of the model and of the data."""

    goal: EachAtLeast
    target: Literal["expected"]
    about: dict[str, Any]


class Each(Kind):
    """Decide of every item whether its rate, the mean score of fresh answers, is at least a value."""

    name = "each"
    goals, opens = EachSession.goals, EachSession
    learns = by_category = learns_from_own = False
    format = "cereval-each/1"
    result_form, settings_form, side_form = EachResult, EachSettings, None
    audited = "verdicts recomputed by the audit"
    audit = "cereval.questions.each.audit:EachAudit"

    def complete_plan(self, plan: Plan, categories: Sequence[str | None]) -> Plan:  # noqa: ARG002
        for name, wanted, value in (
            ("method", "left out", plan.method if plan.method != "auto" else None),
            ("weights", "left out", plan.weights or None),
            ("target", "expected, or left out", plan.target if plan.target != "expected" else None),
        ):
            if value is not None:
                raise InvalidInput(name, f"{wanted} where every question is judged by itself", value)
        return plan

    def about(self, plan: Plan) -> dict[str, Any]:
        return {"model": plan.name, "data": plan.data_name, "items": plan.data_hash}

    def known(self, certificate: Mapping[str, Any], n_items: int) -> dict[str, Any]:  # noqa: ARG002
        return {}
