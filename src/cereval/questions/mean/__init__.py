"""Estimate one mean: `run`, `gate`, `replay`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from cereval.plan import Known, Plan
from cereval.questions.base import Kind, SideInformation, Table
from cereval.questions.mean.session import Session
from cereval.questions.session import AskTell
from cereval.records import Result


class MeanSideInformation(SideInformation):
    """What was known of the items beforehand; embeddings: a vector for each, of a replay with texts."""

    embeddings: Table | UnsetType = UNSET


class EstimateMean(Kind):
    """Estimate the mean score of one model, within eps or against a threshold."""

    name = "estimate"
    goals, opens = Session.goals, Session
    goal_may_change = True
    format = "cereval-certificate/1"
    result_form, side_form = Result, MeanSideInformation
    audited = "interval recomputed by the audit"
    audit = "cereval.questions.mean.audit:MeanAudit"
    page = "cereval.questions.mean.page:mean_page"

    def reopened(self, certificate: Mapping[str, Any]) -> AskTell:
        plan = Plan.from_dict(certificate["plan"])
        return self.session(plan, Known(**self.known(certificate, plan.n_items)))
