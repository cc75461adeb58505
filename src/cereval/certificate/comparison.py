"""The certificate of a comparison (`cereval-comparison/1`), and its check.

Checking decides every draw again from the seed, recomputes the interval of y = (1 + first - second)/2 with the slow
audit (`audit`, `book`, `games`) from the log and the forecasts alone, and reads the decision off it once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cereval.certificate.audit import Audited, audit
from cereval.certificate.base import Verdict
from cereval.certificate.case import Case, Forecast, Seen
from cereval.certificate.checking import WrongError, check_recorded, close, equal
from cereval.certificate.issue import ordered, sealed
from cereval.certificate.verify import aim_of
from cereval.compare import CompareSession
from cereval.errors import InvalidInput
from cereval.goals.compare import COMPARE_GOALS, EQUAL, ROUNDING
from cereval.packing import packed, unpacked

FORMAT = "cereval-comparison/1"
FIELDS = frozenset(("format", "settings", "result", "side_information", "versions", "log", "chain", "digest"))
ARRAYS = {"weights": ("<f8", 1), "embeddings": ("<f8", 2), "groups": ("<i8", 1), "history": ("<f8", 2)}
"""What may be known beforehand: kind of number, and dimensions."""


def issue_comparison(session: CompareSession, about: Mapping[str, Any]) -> dict[str, Any]:
    """The certificate of the results consumed so far; `about` names the two models and the data."""
    settings = ordered({**session.settings(), "about": dict(about)})
    entries = [
        {"item": draw.item, "probability": draw.probability, "first": first, "second": second}
        for draw, first, second in session.log
    ]
    pool = session.pool
    arrays = {
        "weights": session.weights,
        "embeddings": pool.embeddings,
        "groups": pool.groups,
        "history": pool.history,
    }
    return sealed(
        FORMAT,
        settings,
        entries,
        settings=settings,
        result=session.result().as_dict(),
        side_information={name: packed(array) for name, array in arrays.items() if array is not None},
    )


def verify(certificate: Any, stored: object = None, *, explain: bool = False) -> Verdict:  # noqa: ARG001
    """Every check in turn: see `checking`. Comparisons of recorded scores are not kept in a store."""
    again = _Recomputed(certificate)
    return check_recorded(
        certificate, FORMAT, FIELDS, again, "interval and decision recomputed by the audit", explain=explain
    )


def session_from(certificate: Mapping[str, Any]) -> CompareSession:
    """The session that a certificate describes, before its first draw."""
    settings, side = certificate["settings"], certificate["side_information"]
    size, spec = settings["n_items"], dict(settings["goal"])
    unknown = sorted(set(side) - set(ARRAYS))
    if unknown:
        raise InvalidInput("side information", "one of " + ", ".join(ARRAYS), unknown[0])
    arrays: dict[str, Any] = {
        name: unpacked(name, side[name], kind[0], size, kind[1])
        for name, kind in ARRAYS.items()
        if name in side
    }
    goal = COMPARE_GOALS[spec.pop("goal")](**spec)
    return CompareSession(
        size, goal=goal, **arrays, **{name: settings[name] for name in ("confidence", "budget", "seed")}
    )


class _Recomputed:
    """The session behind a certificate, told its log once more, and the forecasts that it used on the way."""

    def __init__(self, certificate: Any) -> None:
        self.certificate = certificate
        self.forecasts: list[Forecast] = []
        self.seen: list[Seen] = []
        self._last: object = None

    def check_draws(self) -> None:
        settings = self.certificate["settings"]
        self.session = session_from(self.certificate)
        equal("settings", settings, {**ordered(self.session.settings()), "about": settings["about"]})
        self._note_forecast(0)
        for number, entry in enumerate(self.certificate["log"]):
            self._tell(number, entry)

    def _tell(self, number: int, entry: Mapping[str, Any]) -> None:
        fresh = self.session.ask(1)
        if not fresh:
            raise WrongError(f"there would have been no draw {number}")
        draw = fresh[0]
        if draw.item != entry["item"] or not close(entry["probability"], draw.probability):
            raise WrongError(
                f"draw {number} would have been item {draw.item} with probability {draw.probability:.6g}; "
                f"the log has item {entry['item']}, {entry['probability']:.6g}"
            )
        if set(entry) != {"item", "probability", "first", "second"}:
            raise WrongError(f"entry {number} of the log has other fields than an entry")
        self.session.tell(draw, entry["first"], entry["second"])
        self._note_forecast(number)
        self.seen.append(_seen(entry))

    def _note_forecast(self, number: int) -> None:
        """Called after a result was told: the outlook is the one that it was booked under."""
        outlook = self.session.engine.tally.outlook
        if outlook is not self._last:
            self._last = outlook
            self.forecasts = [one for one in self.forecasts if one.since < number]
            self.forecasts.append(Forecast.of(outlook, number))

    def check_result(self) -> None:
        stated, found = self.certificate["result"], self.session.result().as_dict()
        if not isinstance(stated, Mapping) or list(stated) != list(found):
            raise WrongError("the result has other fields than a comparison")
        for name, value in found.items():
            equal(f"result.{name}", stated[name], value)

    def check_audit(self) -> None:
        found = audit(self._case())
        for number, (chance, entry) in enumerate(zip(found.chances, self.certificate["log"], strict=True)):
            equal(f"probability of draw {number}", entry["probability"], chance)
        stated, interval = self.certificate["result"], found.interval
        equal("result.lower (audit)", stated["lower"], 2 * interval.lower - 1)
        equal("result.upper (audit)", stated["upper"], 2 * interval.upper - 1)
        equal("result.decision (audit)", stated["decision"], self._decision(found))

    def _case(self) -> Case:
        engine, session = self.session.engine, self.session
        return Case(
            shares=engine.tally.shares,
            equal=session.pool.weights is None,
            replacement=False,
            delta=1 - session.confidence,
            aims=[aim_of(0, session.goal, session.budget)],
            seen=self.seen,
            forecasts=self.forecasts,
            given_up=False,
            tuning=engine.tuning,
        )

    def _decision(self, found: Audited) -> str:
        """Which values of the difference are left, in the order in which the goal asks."""
        spec = self.certificate["settings"]["goal"]
        slack = ROUNDING if len(self.seen) == int((self.session.pool.shares() > 0).sum()) else 0.0
        low, high = found.interval.lower, found.interval.upper
        if spec["goal"] == "not-worse":
            limit = (1 - spec["eps"]) / 2
            return "not-worse" if low >= limit - slack else "worse" if high <= limit - slack else "undecided"
        if low >= EQUAL + slack or high <= EQUAL - slack:
            return "first" if low >= EQUAL + slack else "second"
        tie = spec["tie"] if spec["goal"] == "sign" else spec["eps"]
        inside = low >= EQUAL - tie / 2 - slack and high <= EQUAL + tie / 2 + slack
        return "no-difference" if inside else "undecided"


def _seen(entry: Mapping[str, Any]) -> Seen:
    """Where y lies, a failed call's score anywhere in [0, 1]."""
    first, second = entry["first"], entry["second"]
    low = (0.0 if first is None else first) - (1.0 if second is None else second)
    high = (1.0 if first is None else first) - (0.0 if second is None else second)
    return Seen(entry["item"], (1 + low) / 2, (1 + high) / 2)
