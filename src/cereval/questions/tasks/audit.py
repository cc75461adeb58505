"""Recompute the macro mean, every task and every verdict from the log and the forecasts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, fsum, log
from typing import Any

import numpy as np

from cereval.certificate.audit import AimSince, Audit, Book, Equal, SlowClock, Watched, bounds, budgets_of
from cereval.certificate.audit.interval import Audited, Test, audit
from cereval.methods.certified import LOGICAL_SLACK
from cereval.methods.tasks import Follower
from cereval.questions.session import AskTell, tell
from cereval.questions.tasks.session import TaskSession
from cereval.records import Draw, Interval, Scored
from cereval.stats.interval import ROUNDING
from cereval.stats.rounding import sum_slack
from cereval.stats.threshold import holm


class TasksAudit(Audit):
    """Check the macro mean's game, the tasks' own, and the verdicts on a threshold."""

    def begin(self, session: AskTell) -> None:
        assert isinstance(session, TaskSession)
        self.macro = Watched(session.engine)
        self.tasks = [Watched(follower) for follower in session.engine.followers]

    def tell(self, session: AskTell, draw: Draw, scores: Scored) -> None:
        assert isinstance(session, TaskSession)
        before, engine = session.n_evaluated, session.engine
        tell(session, draw, scores)
        if session.n_evaluated == before:
            return
        if not engine.paused:
            self.macro.note(draw.item, *bounds(scores[0]))
        task = int(engine.groups[draw.item])
        place = int(np.searchsorted(engine.followers[task].members, draw.item))
        self.tasks[task].note(place, *bounds(scores[0]))

    def check(self, certificate: Mapping[str, Any], session: AskTell, equal: Equal) -> str:
        assert isinstance(session, TaskSession)
        self.session, self.certificate, self.equal = session, certificate, equal
        engine, stated = session.engine, certificate["result"]
        audits = [
            audit(watched.case([AimSince(since, eps, None, None) for since, eps in follower.aims]))
            for watched, follower in zip(self.tasks, engine.followers, strict=True)
        ]
        self._check_verdicts(audits)
        for name, found, follower in zip(self.session.names, audits, engine.followers, strict=True):
            self._check_task(f"tasks.{name} (audit)", stated["tasks"][name], found, follower)
        self._check_macro(audits)
        return self.kind.audited

    def _check_macro(self, audits: Sequence[Audited]) -> None:
        engine, stated, logical = self.session.engine, self.certificate["result"]["macro"], self._logical()
        eps = float(engine.aim.eps or 0.0)
        budgets = budgets_of(self.session.first_budget, self.session.changes)
        own = audit(self.macro.case([AimSince(since, eps, None, limit) for since, limit in budgets]))
        for number, chance in enumerate(own.chances):
            self.equal(
                f"probability of draw {number}", self.certificate["log"][number]["probability"], chance
            )
        lower = fsum(one.interval.lower for one in audits) / len(audits)
        upper = fsum(one.interval.upper for one in audits) / len(audits)
        lower = max(own.interval.lower, lower, logical.lower)
        upper = min(own.interval.upper, upper, logical.upper)
        slack = max(LOGICAL_SLACK, sum_slack(self.session.n_items))
        crossed = any(one.contradiction for one in (own, *audits)) or lower > upper + slack
        interval = logical if crossed or engine.complete else Interval(lower, upper)
        self.equal("macro.lower (audit)", stated["lower"], interval.lower)
        self.equal("macro.upper (audit)", stated["upper"], interval.upper)

    def _check_task(self, name: str, stated: Any, found: Audited, follower: Follower) -> None:
        low, high, threshold = found.interval.lower, found.interval.upper, self.session.engine.aims.threshold
        if stated["verdict"] is not None and threshold is not None:
            low = max(low, threshold) if stated["verdict"] == "pass" else low
            high = min(high, threshold) if stated["verdict"] == "fail" else high
        self.equal(f"{name}, lower", stated["lower"], low)
        self.equal(f"{name}, upper", stated["upper"], high)
        self.equal(f"{name}, n", stated["n"], follower.consumed)

    def _logical(self) -> Interval:
        """Return what the seen scores prove of the macro mean: each task's sums, its unseen items anywhere in [0,
        1]."""
        lows, highs = [], []
        for watched, follower in zip(self.tasks, self.session.engine.followers, strict=True):
            size = len(follower.members)
            lows.append(fsum(one.low for one in watched.seen) / size)
            highs.append((fsum(one.high for one in watched.seen) + size - len(watched.seen)) / size)
        return Interval(max(fsum(lows) / len(lows), 0.0), min(fsum(highs) / len(highs), 1.0))

    def _check_verdicts(self, audits: Sequence[Audited]) -> None:
        aims, delta = self.session.engine.aims, self.session.engine.delta
        if aims.threshold is None:
            return
        logs = np.array([slow_evidence(watched, aims.threshold) for watched in self.tasks]).T
        lows, highs = np.array([(one.interval.lower, one.interval.upper) for one in audits]).T
        level = (aims.parts[3] / len(audits) if aims.every else aims.parts[2]) * delta
        passes = (logs[0] >= log(1 / level) + ROUNDING) | (lows >= aims.threshold)
        if aims.every:
            fails = logs[1] >= log(1 / level) + ROUNDING
        else:
            fails = np.array(
                holm([exp(min(one - ROUNDING, 600.0)) for one in logs[1]], aims.parts[3] * delta)
            )
        fails = fails | (highs < aims.threshold)
        certain = aims.every or (bool(np.all(passes)) and not bool(np.any(fails)))
        for task, name in enumerate(self.session.names):
            verdict = "fail" if fails[task] else "pass" if passes[task] and certain else None
            self.equal(
                f"tasks.{name}.verdict (audit)", self.certificate["result"]["tasks"][name]["verdict"], verdict
            )


def slow_evidence(watched: Watched, threshold: float) -> tuple[float, float]:
    """Return the largest log-wealth against "at most" and "at least" the threshold, straight from the formulas."""
    case = watched.case([AimSince(0, 0.5, None, None)])
    book, clock, test = Book(case), SlowClock(), Test(threshold, case.delta)
    best = [-np.inf, -np.inf]
    for number, result in enumerate(case.seen):
        position = book.position(number)
        _, low, high = book.increment(position, result)
        test.play(number, position, clock, low, high)
        best = [max(old, float(np.logaddexp.reduce(test.wealth[side]))) for side, old in enumerate(best)]
        clock.add((low + high) / 2, position.variance, position.largest_square, position.level)
        book.enter(result)
    return best[0], best[1]
