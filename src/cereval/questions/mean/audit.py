"""Recompute the interval and the estimate of one mean from the log and the forecasts alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cereval.certificate.audit import Audit, Equal, Watched, aims_of, bounds, check_chances, check_ends
from cereval.certificate.audit.interval import audit
from cereval.methods.certified import CertifiedMethod
from cereval.methods.uniform import Hedged
from cereval.plan import Plan
from cereval.questions.goals import goal_from_spec
from cereval.records import Draw, Scored
from cereval.stats.rounding import within


class MeanAudit(Audit):
    """Check the certified methods; the methods of the paper and `hedged` have no second implementation."""

    def begin(self, session: Any) -> None:
        method = session.method
        audited = isinstance(method, CertifiedMethod) and not isinstance(method, Hedged)
        self.watched = Watched(method) if audited else None

    def note(self, session: Any, draw: Draw, scores: Scored) -> None:  # noqa: ARG002
        if self.watched is not None:
            self.watched.note(draw.item, *bounds(scores[0]))

    def check(self, certificate: Mapping[str, Any], session: Any, equal: Equal) -> str:
        stated, plan = certificate["result"], Plan.from_dict(certificate["plan"])
        if self.watched is None:
            return (
                f"no audit for the method {stated['method']}: its interval was recomputed by the method alone"
            )
        first, *later = aims_of(plan.goal, plan.max_calls, session.changes)
        shares = self.watched.method.tally.shares
        case = self.watched.case(
            [first, *later],
            equal=bool(np.all(shares == shares[0])),
            replacement=plan.target != "benchmark",
            given_up=first.threshold is not None and any(aim.threshold != first.threshold for aim in later),
        )
        found = audit(case)
        if plan.target != "population":
            # A population is sampled in the order of one permutation, each item as if drawn anew.
            check_chances(certificate["log"], found.chances, equal)
        check_ends("result", stated, found.interval.lower, found.interval.upper, equal)
        eps = goal_from_spec([plan.goal, *(change.goal for change in session.changes)][-1]).aim(None).eps
        equal("result.estimate (audit)", stated["estimate"], _moved(found.mean, stated, eps))
        return self.kind.audited


def _moved(mean: float, stated: Mapping[str, float], eps: float | None) -> float:
    """Return the weighted mean, moved to where the interval reaches at most eps on either side."""
    low, high = stated["lower"], stated["upper"]
    if eps is not None and within(high - low, 2 * eps):
        low, high = max(low, stated["upper"] - eps), min(high, stated["lower"] + eps)
    return min(max(mean, low), max(high, low))
