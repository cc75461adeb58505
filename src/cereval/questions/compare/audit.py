"""Recompute from the log the interval of y = (1 + first - second)/2 and the decision of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cereval.certificate.audit import Audit, Equal, Watched, aims_of, bounds, check_chances, check_ends
from cereval.certificate.audit.interval import Audited, audit
from cereval.questions.compare.goal import EQUAL
from cereval.questions.goals import ROUNDING
from cereval.records import Draw, Scored


class CompareAudit(Audit):
    """Check the interval, the chances of the draws, and the decision."""

    def begin(self, session: Any) -> None:
        self.watched = Watched(session.method)

    def note(self, session: Any, draw: Draw, scores: Scored) -> None:  # noqa: ARG002
        (low, high), (low2, high2) = map(bounds, scores)
        self.watched.note(draw.item, (1 + low - high2) / 2, (1 + high - low2) / 2)

    def check(self, certificate: Mapping[str, Any], session: Any, equal: Equal) -> str:
        settings, stated = certificate["settings"], certificate["result"]
        spec, target = settings["goal"], settings.get("target", "benchmark")
        aims = aims_of(spec, settings["budget"], session.changes)
        found = audit(self.watched.case(aims, replacement=target != "benchmark"))
        if target != "population":
            # A population is sampled in the order of one permutation, each item as if drawn anew.
            check_chances(certificate["log"], found.chances, equal)
        check_ends("result", stated, 2 * found.interval.lower - 1, 2 * found.interval.upper - 1, equal)
        slack = ROUNDING if found.complete else 0.0
        equal("result.decision (audit)", stated["decision"], decision(spec, found, slack))
        return self.kind.audited


def decision(spec: Mapping[str, Any], found: Audited, slack: float) -> str:
    """Find which values of the difference are left, in the order in which the goal asks."""
    low, high = found.interval.lower, found.interval.upper
    if spec["goal"] == "not-worse":
        limit = (1 - spec["eps"]) / 2
        return "not-worse" if low >= limit - slack else "worse" if high <= limit - slack else "undecided"
    if low >= EQUAL + slack or high <= EQUAL - slack:
        return "first" if low >= EQUAL + slack else "second"
    tie = spec["tie"] if spec["goal"] == "sign" else spec["eps"]
    inside = low >= EQUAL - tie / 2 - slack and high <= EQUAL + tie / 2 + slack
    return "no-difference" if inside else "undecided"
