"""Recompute the interval and the estimate of one mean from the log and the forecasts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cereval.certificate.audit import Audit, Equal, Watched, aims_of, bounds
from cereval.certificate.audit.interval import audit
from cereval.methods.certified import CertifiedMethod
from cereval.methods.uniform import Hedged
from cereval.plan import Plan
from cereval.questions.mean.session import Session
from cereval.questions.session import AskTell, Change, tell
from cereval.records import Draw, Result, Scored
from cereval.stats.rounding import within


class MeanAudit(Audit):
    """Check the certified methods; the methods of the paper and `hedged` have no second implementation."""

    def begin(self, session: AskTell) -> None:
        assert isinstance(session, Session)
        method = session.method
        audited = isinstance(method, CertifiedMethod) and not isinstance(method, Hedged)
        self.watched = Watched(method) if audited else None  # type: ignore[arg-type]

    def tell(self, session: AskTell, draw: Draw, scores: Scored) -> None:
        before = session.n_evaluated
        tell(session, draw, scores)
        if self.watched is not None and session.n_evaluated > before:
            self.watched.note(draw.item, *bounds(scores[0]))

    def check(self, certificate: Mapping[str, Any], session: AskTell, equal: Equal) -> str:
        stated = certificate["result"]
        if self.watched is None:
            return (
                f"no audit for the method {stated['method']}: its interval was recomputed by the method alone"
            )
        plan = Plan.from_dict(certificate["plan"])
        found = audit(self._case(plan, session.changes))
        if plan.target != "population":
            # A population is sampled in the order of one permutation, each item as if drawn anew.
            for number, (chance, entry) in enumerate(zip(found.chances, certificate["log"], strict=True)):
                equal(f"probability of draw {number}", entry["probability"], chance)
        equal("result.lower (audit)", stated["lower"], found.interval.lower)
        equal("result.upper (audit)", stated["upper"], found.interval.upper)
        assert isinstance(session, Session)
        equal("result.estimate (audit)", stated["estimate"], _moved(found.mean, session))
        return self.kind.audited

    def _case(self, plan: Plan, changes: Sequence[Change]) -> Any:
        assert self.watched is not None
        first, *later = aims_of(plan.goal, plan.max_calls, changes)
        shares = self.watched.method.tally.shares
        return self.watched.case(
            [first, *later],
            equal=bool(np.all(shares == shares[0])),
            replacement=plan.target != "benchmark",
            given_up=first.threshold is not None and any(aim.threshold != first.threshold for aim in later),
        )


def _moved(mean: float, session: Session) -> float:
    """Return the weighted mean, moved to where the interval reaches at most eps on either side."""
    result, eps = session.result(), session.goal.aim(None).eps
    assert isinstance(result, Result)
    low, high = result.lower, result.upper
    if eps is not None and within(high - low, 2 * eps):
        low, high = max(low, result.upper - eps), min(high, result.lower + eps)
    return min(max(mean, low), max(high, low))
