"""Recompute from the log the interval of y = (1 + first - second)/2 and the decision of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cereval.certificate.audit import Audit, Equal, Watched, aims_of, bounds
from cereval.certificate.audit.interval import Audited, audit
from cereval.questions.compare.goal import EQUAL
from cereval.questions.compare.session import CompareSession
from cereval.questions.goals import ROUNDING
from cereval.questions.session import AskTell, tell
from cereval.records import Draw, Scored


class CompareAudit(Audit):
    """Check the interval, the chances of the draws, and the decision."""

    def begin(self, session: AskTell) -> None:
        assert isinstance(session, CompareSession)
        self.watched = Watched(session.engine)

    def tell(self, session: AskTell, draw: Draw, scores: Scored) -> None:
        before = session.n_evaluated
        tell(session, draw, scores)
        if session.n_evaluated > before:
            (low, high), (low2, high2) = map(bounds, scores)
            self.watched.note(draw.item, (1 + low - high2) / 2, (1 + high - low2) / 2)

    def check(self, certificate: Mapping[str, Any], session: AskTell, equal: Equal) -> str:
        assert isinstance(session, CompareSession)
        spec, stated = certificate["settings"]["goal"], certificate["result"]
        found = audit(self.watched.case(aims_of(spec, session.first_budget, session.changes)))
        for number, (chance, entry) in enumerate(zip(found.chances, certificate["log"], strict=True)):
            equal(f"probability of draw {number}", entry["probability"], chance)
        equal("result.lower (audit)", stated["lower"], 2 * found.interval.lower - 1)
        equal("result.upper (audit)", stated["upper"], 2 * found.interval.upper - 1)
        complete = len(self.watched.seen) == int((session.pool.shares() > 0).sum())
        equal(
            "result.decision (audit)",
            stated["decision"],
            decision(spec, found, ROUNDING if complete else 0.0),
        )
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
