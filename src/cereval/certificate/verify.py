"""`verify`: recompute everything that a certificate says, and say what does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cereval.certificate.audit import audit
from cereval.certificate.base import FORMAT, Verdict
from cereval.certificate.case import Aim, Case, Forecast, Seen
from cereval.certificate.checking import (
    CHAIN,
    DIGEST,
    RUN_ID,
    Check,
    WrongError,
    check_chain,
    check_digest,
    check_fields,
    close,
    conclude,
    equal,
)
from cereval.certificate.stored import Stored, check_run_id, check_stored
from cereval.goals import Goal, goal_from_spec
from cereval.known import Known, session_for
from cereval.logbook import Change, Log, replayed, tell
from cereval.methods.certified import CertifiedMethod
from cereval.methods.uniform import Hedged
from cereval.plan import Plan
from cereval.records import Draw, Result
from cereval.session import Session

FIELDS = frozenset(
    (
        "format",
        "run_id",
        "result",
        "plan",
        "changes",
        "side_information",
        "versions",
        "log",
        "chain",
        "digest",
    )
)


def verify(certificate: Any, stored: Stored | None = None, *, explain: bool = False) -> Verdict:
    """Every check in turn: see `checking`."""
    return conclude(certificate, _checks(certificate, stored), explain=explain)


def _checks(certificate: Any, stored: Stored | None) -> list[Check]:
    recomputed = _Recomputed(certificate)
    checks: list[Check] = [
        ("format", lambda: check_fields(certificate, FORMAT, FIELDS)),
        (DIGEST, lambda: check_digest(certificate)),
        (RUN_ID, lambda: check_run_id(certificate)),
        (CHAIN, lambda: check_chain(certificate, "plan")),
        ("draws decided again from the seed", recomputed.check_draws),
        ("every field of the result", recomputed.check_result),
        ("interval recomputed by the audit", recomputed.check_audit),
    ]
    if stored is not None:
        checks.append(("log in the store", lambda: check_stored(certificate, stored)))
    return checks


class _Recomputed:
    """The session behind a certificate, replayed once, and the forecasts that it used on the way."""

    def __init__(self, certificate: Any) -> None:
        self.certificate = certificate

    def check_draws(self) -> None:
        certificate = self.certificate
        self.plan = Plan.from_dict(certificate["plan"])
        self.changes = tuple(Change(**change) for change in certificate["changes"])
        self.known = Known.from_dict(certificate["side_information"], self.plan.n_items)
        equal("side_information", list(self.known.names), list(self.plan.side_information))
        self.session = session_for(self.plan, self.known)
        self.recorder = Recorder(self.session)
        drawn = max([len(certificate["log"]), *(change.drawn for change in self.changes)])
        results = {number: entry["score"] for number, entry in enumerate(certificate["log"])}
        draws = replayed(self.session, Log(results, drawn, self.changes), self.recorder.tell)
        for draw, entry in zip(draws, certificate["log"], strict=False):
            same = draw.item == entry["item"] and close(draw.probability, entry["probability"])
            if not same:
                raise WrongError(
                    f"draw {draw.index} would have been item {draw.item} with probability "
                    f"{draw.probability:.6g}; the log has item {entry['item']}, {entry['probability']:.6g}"
                )

    def check_result(self) -> None:
        stated, found = self.certificate["result"], self.session.result()
        if stated.get("stopped") == "budget" and found.stopped == "running":
            # Money and time are limits that a log does not show.
            found = replace(found, stopped="budget")
        equal("consumed results", len(self.certificate["log"]), found.n_evaluated)
        if set(stated) != set(found.as_dict()):
            raise WrongError("the result has other fields than a result")
        for name, value in found.as_dict().items():
            equal(f"result.{name}", stated[name], value)

    def check_audit(self) -> None:
        method = self.session.method
        if not isinstance(method, CertifiedMethod) or isinstance(method, Hedged):
            return
        audited = audit(self._case(method))
        if self.plan.target != "population":
            # A population is sampled in the order of one permutation, each item as if drawn anew.
            for number, (chance, entry) in enumerate(
                zip(audited.chances, self.certificate["log"], strict=True)
            ):
                equal(f"probability of draw {number}", entry["probability"], chance)
        stated = self.certificate["result"]
        equal("result.lower (audit)", stated["lower"], audited.interval.lower)
        equal("result.upper (audit)", stated["upper"], audited.interval.upper)
        equal("result.estimate (audit)", stated["estimate"], self._moved(audited.mean, self.session.result()))

    def _moved(self, mean: float, result: Result) -> float:
        """The weighted mean, moved to where the interval reaches at most eps on either side."""
        low, high, eps = result.lower, result.upper, self.session.goal.aim(None).eps
        if eps is not None and result.upper - result.lower <= 2 * eps:
            low, high = max(low, result.upper - eps), min(high, result.lower + eps)
        return min(max(mean, low), max(high, low))

    def _case(self, method: CertifiedMethod) -> Case:
        shares = method.tally.shares
        first = aim_of(0, goal_from_spec(self.plan.goal), self.plan.max_calls)
        later = [aim_of(c.drawn, goal_from_spec(c.goal), c.max_calls) for c in self.changes]
        return Case(
            shares=shares,
            equal=bool(np.all(shares == shares[0])),
            replacement=self.plan.target != "benchmark",
            delta=1 - self.plan.confidence,
            aims=(first, *later),
            seen=[_seen(entry) for entry in self.certificate["log"]],
            forecasts=self.recorder.forecasts,
            given_up=first.threshold is not None and any(aim.threshold != first.threshold for aim in later),
            tuning=method.tuning,
        )


def aim_of(since: int, goal: Goal, budget: int | None) -> Aim:
    """What a goal has the bets work towards."""
    aim = goal.aim(budget)
    return Aim(since, aim.eps, aim.threshold, aim.budget, aim.marks)


class Recorder:
    """Notes each forecast that a session turns to while it is told its results."""

    def __init__(self, session: Session) -> None:
        self.forecasts: list[Forecast] = []
        self._last: object = None
        self._note(session, 0)

    def tell(self, session: Session, draw: Draw, score: float | None) -> None:
        number = session.n_evaluated
        tell(session, draw, score)
        if session.n_evaluated > number:
            self._note(session, number)

    def _note(self, session: Session, number: int) -> None:
        method = session.method
        if isinstance(method, CertifiedMethod) and method.tally.outlook is not self._last:
            outlook = self._last = method.tally.outlook
            if self.forecasts and self.forecasts[-1].since == number:
                self.forecasts.pop()
            self.forecasts.append(Forecast.of(outlook, number))


def _seen(entry: Mapping[str, Any]) -> Seen:
    score = entry["score"]
    return Seen(entry["item"], 0.0, 1.0) if score is None else Seen(entry["item"], score, score)
