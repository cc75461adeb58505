"""Estimate one mean: `run`, `gate`, `replay`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from cereval.plan import Known, Plan
from cereval.questions.base import STORED_FIELDS, Earlier, Kind
from cereval.questions.mean.goal import Estimate, Threshold
from cereval.questions.mean.session import Session
from cereval.questions.session import AskTell


class EstimateMean(Kind):
    """Estimate the mean score of one model, within eps or against a threshold."""

    name: ClassVar[str] = "estimate"
    format: ClassVar[str] = "cereval-certificate/1"
    goals = (Estimate, Threshold)
    begins_with: ClassVar[str] = "plan"
    fields: ClassVar[frozenset[str]] = STORED_FIELDS | {"side_information"}
    run_fields: ClassVar[frozenset[str]] = frozenset()
    audited: ClassVar[str] = "interval recomputed by the audit"
    audit: ClassVar[str] = "cereval.questions.mean.audit:MeanAudit"
    page: ClassVar[str] = "cereval.questions.mean.page:mean_page"
    goal_may_change: ClassVar[bool] = True

    def session(self, plan: Plan, known: Known, earlier: Earlier | None = None) -> Session:  # noqa: ARG002
        session = Session(
            plan.n_items,
            goal=self.goal(plan.goal),
            confidence=plan.confidence,
            method=plan.method,
            target=plan.target,
            groups=known.groups,
            history=known.history,
            weights=plan.item_weights,
            budget=plan.max_calls,
            seed=plan.seed,
        )
        session.models = plan.names
        return session

    def reopened(self, certificate: Mapping[str, Any]) -> AskTell:
        plan = Plan.from_dict(certificate["plan"])
        return self.session(plan, Known.from_dict(certificate["side_information"], plan.n_items))

    def check_plan(self, certificate: Mapping[str, Any], equal: Callable[..., None]) -> None:
        known, plan = certificate["side_information"], certificate["plan"]
        equal(
            "side_information",
            [name for name in ("groups", "history") if name in known],
            plan["side_information"],
        )
