"""The certificate of a session with many tasks (`cereval-tasks/1`), and its check.

That of a run, whose model was asked, also has the run's id, its plan and the changes of its budget.

Checking decides every draw again from the seed, then recomputes the interval of the macro mean, that of every task
and every verdict with the slow audit (`audit`, `book`, `games`), from the log and the forecasts alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, fsum, log
from typing import Any

import numpy as np

from cereval.certificate.audit import Audited, audit
from cereval.certificate.base import Entry, Verdict
from cereval.certificate.book import Book
from cereval.certificate.case import Aim, Case, Forecast, Seen
from cereval.certificate.checking import WrongError, close, equal
from cereval.certificate.clock import SlowClock
from cereval.certificate.games import Test
from cereval.certificate.issue import ordered, sealed
from cereval.certificate.stored import Kind, Stored, check_stored, verify_kind
from cereval.goals.tasks import tasks_goal_from_spec
from cereval.known import Known, tasks_session_for
from cereval.logbook import Change, Log, replayed, tell
from cereval.methods.certified import LOGICAL_SLACK, CertifiedMethod
from cereval.methods.follower import Follower
from cereval.plan import Plan
from cereval.records import Draw, Interval
from cereval.stats.betting import ROUNDING
from cereval.stats.evidence import holm
from cereval.tasks import TaskSession, TasksResult

FORMAT = "cereval-tasks/1"
FIELDS = frozenset(("format", "settings", "result", "side_information", "versions", "log", "chain", "digest"))
RUN_FIELDS = FIELDS | {"run_id", "plan", "changes"}


def issue_tasks(
    session: TaskSession, known: Known, log: Sequence[Entry], about: Mapping[str, Any]
) -> dict[str, Any]:
    """The certificate of the results consumed so far; `about` names the model and the data."""
    settings = ordered({**session.settings(), "about": dict(about)})
    return sealed(
        FORMAT,
        settings,
        [entry.as_dict() for entry in log],
        settings=settings,
        result=ordered(session.result().as_dict()),
        side_information=known.as_dict(),
    )


def issue_tasks_run(
    plan: Plan, known: Known, result: TasksResult, log: Sequence[Entry], changes: Sequence[Change] = ()
) -> dict[str, Any]:
    """The certificate of a run in the store, from the results consumed so far, in draw order."""
    settings = ordered(settings_of(plan, known))
    return sealed(
        FORMAT,
        settings,
        [entry.as_dict() for entry in log],
        run_id=plan.run_id,
        settings=settings,
        result=ordered(result.as_dict()),
        plan=ordered(plan.as_dict()),
        changes=[ordered(change.as_dict()) for change in changes],
        side_information=known.as_dict(),
    )


def settings_of(plan: Plan, known: Known) -> dict[str, Any]:
    """The settings of the session that a plan describes, and what they are about."""
    about = {"model": plan.model_name, "data": [plan.data_name], "items": plan.data_hash}
    return {**tasks_session_for(plan, known).settings(), "about": about}


def verify(certificate: Any, stored: Stored | None = None, *, explain: bool = False) -> Verdict:
    """Every check in turn: see `stored.verify_kind`."""
    kind = Kind(FORMAT, FIELDS, RUN_FIELDS, "intervals and verdicts recomputed by the audit", check_stored)
    return verify_kind(kind, certificate, _Recomputed(certificate), stored, explain=explain)


def session_from(settings: Mapping[str, Any], known: Known) -> TaskSession:
    """The session that the settings describe, before its first draw."""
    if known.groups is None:
        raise WrongError("the side information lacks the items' tasks")
    names = np.array(settings["tasks"])
    return TaskSession(
        names[known.groups],
        goal=tasks_goal_from_spec(settings["goal"]),
        history=known.history,
        **{name: settings[name] for name in ("confidence", "budget", "seed")},
    )


class _Recomputed:
    """The session behind a certificate, told its log once more, and what its games looked at on the way."""

    def __init__(self, certificate: Any) -> None:
        self.certificate = certificate

    def check_draws(self) -> None:
        settings, entries = self.certificate["settings"], self.certificate["log"]
        self.known = Known.from_dict(self.certificate["side_information"], settings["n_items"])
        self.session = session_from(settings, self.known)
        equal("settings", settings, {**ordered(self.session.settings()), "about": settings["about"]})
        engine = self.session.engine
        self.macro = Watched(engine)
        self.tasks = [Watched(follower) for follower in engine.followers]
        changes = tuple(Change(**change) for change in self.certificate.get("changes", ()))
        drawn = max([len(entries), *(change.drawn for change in changes)])
        results = {number: entry["score"] for number, entry in enumerate(entries)}
        draws = replayed(self.session, Log(results, drawn, changes), self._tell)
        for draw, entry in zip(draws, entries, strict=False):
            if draw.item != entry["item"] or not close(entry["probability"], draw.probability):
                raise WrongError(
                    f"draw {draw.index} would have been item {draw.item} with probability "
                    f"{draw.probability:.6g}; the log has item {entry['item']}, {entry['probability']:.6g}"
                )
        equal("consumed results", len(entries), self.session.n_evaluated)

    def _tell(self, session: TaskSession, draw: Draw, score: float | None) -> None:
        before, engine = session.n_evaluated, session.engine
        tell(session, draw, score)
        if session.n_evaluated == before:
            raise WrongError(f"the result of draw {draw.index} would not have counted")
        if not engine.paused:
            self.macro.note(draw.item, score)
        task = int(engine.groups[draw.item])
        place = int(np.searchsorted(engine.followers[task].members, draw.item))
        self.tasks[task].note(place, score)

    def check_plan(self) -> None:
        plan = Plan.from_dict(self.certificate["plan"])
        equal("side_information", list(self.known.names), list(plan.side_information))
        stated = plan.target, dict(plan.weights), dict(plan.growth)
        equal("plan.target, plan.weights, plan.growth", stated, ("benchmark", {}, {}))
        equal("settings of the plan", self.certificate["settings"], ordered(settings_of(plan, self.known)))

    def check_result(self) -> None:
        stated, found = self.certificate["result"], self.session.result()
        if "run_id" in self.certificate and stated.get("stopped") == "budget" and found.stopped == "running":
            # Money and time are limits that a log does not show.
            found = replace(found, stopped="budget")
        equal_deep("result", stated, ordered(found.as_dict()))

    def check_audit(self) -> None:
        engine, stated = self.session.engine, self.certificate["result"]
        audits = [
            audit(watched.case([Aim(since, eps, None, None) for since, eps in follower.aims]))
            for watched, follower in zip(self.tasks, engine.followers, strict=True)
        ]
        self._check_verdicts(audits)
        for name, found, follower in zip(self.session.names, audits, engine.followers, strict=True):
            self._check_task(f"tasks.{name} (audit)", stated["tasks"][name], found, follower)
        self._check_macro(audits)

    def _check_macro(self, audits: Sequence[Audited]) -> None:
        engine, stated, logical = self.session.engine, self.certificate["result"]["macro"], self._logical()
        eps = float(engine.aim.eps or 0.0)
        own = audit(self.macro.case([Aim(since, eps, None, limit) for since, limit in self.session.budgets]))
        for number, chance in enumerate(own.chances):
            equal(f"probability of draw {number}", self.certificate["log"][number]["probability"], chance)
        lower = fsum(one.interval.lower for one in audits) / len(audits)
        upper = fsum(one.interval.upper for one in audits) / len(audits)
        lower = max(own.interval.lower, lower, logical.lower)
        upper = min(own.interval.upper, upper, logical.upper)
        crossed = any(one.contradiction for one in (own, *audits)) or lower > upper + LOGICAL_SLACK
        interval = logical if crossed or engine.complete else Interval(lower, upper)
        equal("macro.lower (audit)", stated["lower"], interval.lower)
        equal("macro.upper (audit)", stated["upper"], interval.upper)

    def _check_task(self, name: str, stated: Any, found: Audited, follower: Follower) -> None:
        low, high, threshold = found.interval.lower, found.interval.upper, self.session.engine.aims.threshold
        if stated["verdict"] is not None and threshold is not None:
            low = max(low, threshold) if stated["verdict"] == "pass" else low
            high = min(high, threshold) if stated["verdict"] == "fail" else high
        equal(f"{name}, lower", stated["lower"], low)
        equal(f"{name}, upper", stated["upper"], high)
        equal(f"{name}, n", stated["n"], follower.consumed)

    def _logical(self) -> Interval:
        """What the seen scores prove of the macro mean: each task's sums, its unseen items anywhere in [0, 1]."""
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
            equal(
                f"tasks.{name}.verdict (audit)", self.certificate["result"]["tasks"][name]["verdict"], verdict
            )


class Watched:
    """A game that is told its results again: notes each forecast that it turns to, and the results."""

    def __init__(self, method: CertifiedMethod) -> None:
        self.method = method
        self.seen: list[Seen] = []
        self.forecasts: list[Forecast] = []
        self._last: object = None
        self._turn(0)

    def note(self, item: int, score: float | None) -> None:
        """Call after the result was told: the outlook is the one that it was booked under."""
        self._turn(len(self.seen))
        self.seen.append(Seen(item, 0.0, 1.0) if score is None else Seen(item, score, score))

    def _turn(self, number: int) -> None:
        outlook = self.method.tally.outlook
        if outlook is not self._last:
            self._last = outlook
            self.forecasts = [one for one in self.forecasts if one.since < number]
            self.forecasts.append(Forecast.of(outlook, number))

    def case(self, aims: Sequence[Aim]) -> Case:
        """What the audit of this game needs."""
        setting, shares = self.method.setting, self.method.tally.shares
        return Case(
            shares=shares,
            equal=setting.pool.weights is None,
            replacement=False,
            delta=setting.delta,
            aims=aims,
            seen=self.seen,
            forecasts=self.forecasts,
            given_up=False,
            tuning=self.method.tuning,
        )


def slow_evidence(watched: Watched, threshold: float) -> tuple[float, float]:
    """The largest log-wealth against "at most" and "at least" the threshold, straight from the formulas."""
    case = watched.case([Aim(0, 0.5, None, None)])
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


def equal_deep(name: str, stated: Any, found: Any) -> None:
    """`equal` for nested mappings and lists."""
    if isinstance(found, Mapping):
        if not isinstance(stated, Mapping) or set(stated) != set(found):
            raise WrongError(f"{name} has other fields than were recomputed")
        for key, value in found.items():
            equal_deep(f"{name}.{key}", stated[key], value)
    else:
        equal(name, stated, found)
