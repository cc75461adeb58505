"""Recompute the macro mean, every task and every verdict from the log and the forecasts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, fsum, log
from typing import Any

import numpy as np

from cereval.certificate.audit import (
    AimSince,
    Audit,
    Book,
    Case,
    Equal,
    SlowClock,
    Watched,
    bounds,
    budgets_of,
    check_chances,
    check_ends,
)
from cereval.certificate.audit.interval import Audited, Test, audit
from cereval.methods.certified import LOGICAL_SLACK
from cereval.records import Draw, Interval, Scored
from cereval.stats.interval import ROUNDING
from cereval.stats.rounding import sum_slack
from cereval.stats.threshold import holm


class TasksAudit(Audit):
    def begin(self, session: Any) -> None:
        self.macro = Watched(session.method)
        self.tasks = [Watched(follower) for follower in session.method.followers]

    def note(self, session: Any, draw: Draw, scores: Scored) -> None:
        if not session.method.paused:
            self.macro.note(draw.item, *bounds(scores[0]))
        task = int(session.method.groups[draw.item])
        place = int(np.searchsorted(session.method.followers[task].members, draw.item))
        self.tasks[task].note(place, *bounds(scores[0]))

    def check(self, certificate: Mapping[str, Any], session: Any, equal: Equal) -> str:
        followers, stated = session.method.followers, certificate["result"]
        self.again = certificate["settings"].get("target") == "expected"
        audits = [
            audit(self._case(watched, [AimSince(since, eps, None, None) for since, eps in follower.aims]))
            for watched, follower in zip(self.tasks, followers, strict=True)
        ]
        verdicts = self._verdicts(audits, session.method)
        for name, found, verdict in zip(session.names, audits, verdicts, strict=True):
            self._check_task(
                name, stated["tasks"][name], found, verdict, session.method.aims.threshold, equal
            )
        self._check_macro(certificate, session, audits, equal)
        return self.kind.audited

    def _case(self, watched: Watched, aims: list[AimSince]) -> Case:
        return watched.case(aims, replacement=self.again)

    def _check_task(
        self,
        name: str,
        stated: Any,
        found: Audited,
        verdict: str | None,
        threshold: float | None,
        equal: Equal,
    ) -> None:
        equal(f"tasks.{name}.verdict (audit)", stated["verdict"], verdict)
        low, high = found.interval.lower, found.interval.upper
        if verdict is not None and threshold is not None:
            low, high = (max(low, threshold), high) if verdict == "pass" else (low, min(high, threshold))
        check_ends(f"tasks.{name}", stated, low, high, equal)
        equal(f"tasks.{name}.n (audit)", stated["n"], len(found.chances))

    def _check_macro(
        self, certificate: Mapping[str, Any], session: Any, audits: Sequence[Audited], equal: Equal
    ) -> None:
        method, logical = session.method, self._logical()
        eps, budgets = float(method.aim.eps or 0.0), budgets_of(session.first_budget, session.changes)
        own = audit(self._case(self.macro, [AimSince(since, eps, None, limit) for since, limit in budgets]))
        check_chances(certificate["log"][: len(own.chances)], own.chances, equal)
        lower = fsum(one.interval.lower for one in audits) / len(audits)
        upper = fsum(one.interval.upper for one in audits) / len(audits)
        lower = max(own.interval.lower, lower, logical.lower)
        upper = min(own.interval.upper, upper, logical.upper)
        slack = max(LOGICAL_SLACK, sum_slack(session.n_items))
        crossed = any(one.contradiction for one in (own, *audits)) or lower > upper + slack
        if crossed or (method.complete and not self.again):
            lower, upper = logical.lower, logical.upper
        check_ends("macro", certificate["result"]["macro"], lower, upper, equal)

    def _logical(self) -> Interval:
        """Return what the seen scores prove of the macro mean: each task's sums, its unseen items anywhere in [0,
        1]."""
        if self.again:
            return Interval(0.0, 1.0)
        lows, highs = [], []
        for watched in self.tasks:
            size = len(watched.method.tally.shares)
            lows.append(fsum(one.low for one in watched.seen) / size)
            highs.append((fsum(one.high for one in watched.seen) + size - len(watched.seen)) / size)
        return Interval(max(fsum(lows) / len(lows), 0.0), min(fsum(highs) / len(highs), 1.0))

    def _verdicts(self, audits: Sequence[Audited], method: Any) -> list[str | None]:
        aims, delta = method.aims, method.delta
        if aims.threshold is None:
            return [None] * len(audits)
        none = (-np.inf, -np.inf)
        logs = np.array(
            [
                slow_evidence(self._case(watched, [AimSince(0, 0.5, None, None)]), aims.threshold)
                if watched.method.bets
                else none
                for watched in self.tasks
            ]
        ).T
        lows, highs = np.array([(one.interval.lower, one.interval.upper) for one in audits]).T
        level = (aims.parts[3] / len(audits) if aims.every else aims.parts[2]) * delta
        passes = (logs[0] >= log(1 / level) + ROUNDING) | (lows >= aims.threshold)
        if aims.every:
            fails = logs[1] >= log(1 / level) + ROUNDING
        else:
            wealth = [exp(min(one - ROUNDING, 600.0)) for one in logs[1]]
            fails = np.array(holm(wealth, aims.parts[3] * delta))
        fails = fails | (highs < aims.threshold)
        certain = aims.every or (bool(np.all(passes)) and not bool(np.any(fails)))
        return [
            "fail" if fail else "pass" if passed and certain else None
            for fail, passed in zip(fails, passes, strict=True)
        ]


def slow_evidence(case: Case, threshold: float) -> tuple[float, float]:
    """Return the largest log-wealth against "at most" and "at least" the threshold, straight from the formulas."""
    clock, test, best = SlowClock(), Test(threshold, case.delta), [-np.inf, -np.inf]
    for step in Book(case).steps(clock):
        test.play(step, clock)
        best = [max(old, float(np.logaddexp.reduce(test.wealth[side]))) for side, old in enumerate(best)]
    return best[0], best[1]
