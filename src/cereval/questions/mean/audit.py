"""Recompute the interval and the estimate of one mean from the log and the forecasts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

import numpy as np

from cereval.certificate.audit import Audit, Equal, Watched, aims_of, bounds, check_chances, check_ends
from cereval.certificate.audit.interval import audit
from cereval.methods.certified import CertifiedMethod
from cereval.methods.uniform import Hedged, Uniform
from cereval.plan import Plan
from cereval.records import Draw, Scored


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
        plain = isinstance(self.watched.method, Uniform) and plan.target == "benchmark" and not plan.weights
        estimate = _best_estimate(certificate["log"], None if plain else found.mean)
        inside = min(max(estimate, stated["lower"]), max(stated["upper"], stated["lower"]))
        equal("result.estimate (audit)", stated["estimate"], inside)
        return self.kind.audited


def _best_estimate(log: Sequence[Mapping[str, Any]], mean: float | None) -> float:
    """Return the mean that was found, no further out than any score; None: the plain mean, failures as 1/2."""
    scores = [entry["score"] for entry in log]
    seen = [score for score in scores if score is not None]
    if mean is None:
        mean = fsum(0.5 if score is None else score for score in scores) / len(scores) if scores else 0.5
    return min(max(mean, min(seen)), max(seen)) if seen else mean
