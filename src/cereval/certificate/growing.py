"""The certificate of a growing data set (`cereval-growing/1`), and its check.

That of a run, whose model was asked, also has the run's id and its plan, which names the run of the version before.

Checking decides every draw again from the seed, recomputes every field of the result, and then the interval and the
estimate of every version with the slow audit (`growing_audit`, or `audit` for the target population).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cereval.certificate.audit import audit
from cereval.certificate.base import Verdict
from cereval.certificate.case import Seen
from cereval.certificate.checking import WrongError, close, equal
from cereval.certificate.growing_audit import Left, audit_version, uniform_case
from cereval.certificate.issue import ordered, sealed
from cereval.certificate.stored import Kind, Stored, check_log, verify_kind
from cereval.goals import Estimate
from cereval.growing import Growing
from cereval.growing_result import GrowingResult, Version
from cereval.plan import Plan

FORMAT = "cereval-growing/1"
FIELDS = frozenset(("format", "settings", "result", "versions", "log", "chain", "digest"))
RUN_FIELDS = FIELDS | {"run_id", "plan"}
STATED = ("lower", "upper", "estimate")


def issue_growing(session: Growing, about: Mapping[str, Any]) -> dict[str, Any]:
    """The certificate of all versions so far; `about` names the model and the data."""
    return _issued(session, session.result(), about, {})


def issue_growing_run(plan: Plan, session: Growing, result: GrowingResult) -> dict[str, Any]:
    """The certificate of a run in the store: that of its version and of all before it."""
    run = {"run_id": plan.run_id, "plan": ordered(plan.as_dict())}
    return _issued(session, result, about_plan(plan), run)


def _issued(
    session: Growing, result: GrowingResult, about: Mapping[str, Any], run: Mapping[str, Any]
) -> dict[str, Any]:
    settings = ordered({**settings_of(session), "about": dict(about)})
    return sealed(
        FORMAT, settings, log_of(session), settings=settings, result=ordered(result.as_dict()), **run
    )


def about_plan(plan: Plan) -> dict[str, Any]:
    """The model and the data of a run."""
    return {"model": plan.model_name, "data": plan.data_name, "items": plan.data_hash}


def settings_of(session: Growing) -> dict[str, Any]:
    """All that decides draws and bets; `sizes`: how many items each version added."""
    return {
        "goal": session.goal.spec(),
        "confidence": session.confidence,
        "target": session.target,
        "seed": session.seed,
        "sizes": [version.n_new for version in session.versions],
    }


def log_of(session: Growing) -> list[dict[str, Any]]:
    """Every consumed result with its version, in draw order."""
    return [
        {"version": number, "item": draw.item, "probability": draw.probability, "score": score}
        for number, (draws, scores) in enumerate(session.consumed, start=1)
        for draw, score in zip(draws, scores, strict=True)
    ]


def verify(certificate: Any, stored: Stored | None = None, *, explain: bool = False) -> Verdict:
    """Every check in turn: see `stored.verify_kind`."""
    kind = Kind(
        FORMAT, FIELDS, RUN_FIELDS, "the interval of every version recomputed by the audit", check_log
    )
    return verify_kind(kind, certificate, _Recomputed(certificate), stored, explain=explain)


class _Recomputed:
    """The session behind a certificate, told its log once more."""

    def __init__(self, certificate: Any) -> None:
        self.certificate = certificate

    def check_draws(self) -> None:
        settings = self.certificate["settings"]
        self.eps, self.delta = settings["goal"]["eps"], 1 - settings["confidence"]
        log = self.certificate["log"]
        if [entry["version"] for entry in log] != sorted(entry["version"] for entry in log):
            raise WrongError("the log is not in the order of the versions")
        for number, new in enumerate(settings["sizes"], start=1):
            if number == 1:
                self.session = _first(settings)
            else:
                self.session.extend(new)
            for entry in log:
                if entry["version"] == number:
                    self._tell(entry)
        equal("settings", settings, {**ordered(settings_of(self.session)), "about": settings["about"]})
        equal("results in the log", len(log), self.session.n_evaluated)

    def _tell(self, entry: Mapping[str, Any]) -> None:
        fresh = self.session.ask(1)
        if not fresh:
            raise WrongError(f"version {entry['version']} would have had no further draw")
        (draw,) = fresh
        if draw.item != entry["item"] or not close(entry["probability"], draw.probability):
            raise WrongError(
                f"draw {draw.index} of version {entry['version']} would have been item {draw.item} with "
                f"probability {draw.probability:.6g}; the log has item {entry['item']}"
            )
        if entry["score"] is None:
            self.session.fail(draw)
        else:
            self.session.tell(draw, entry["score"])

    def check_plan(self) -> None:
        plan, settings = Plan.from_dict(self.certificate["plan"]), self.certificate["settings"]
        equal("plan.growth.sizes", list(plan.growth["sizes"]), settings["sizes"])
        equal("plan.n_items", plan.n_items, sum(settings["sizes"]))
        equal("plan.method, plan.weights", (plan.method, dict(plan.weights)), ("growing", {}))
        for name in ("goal", "confidence", "target", "seed"):
            equal(f"plan.{name}", getattr(plan, name), settings[name])
        equal("settings.about", settings["about"], ordered(about_plan(plan)))

    def check_result(self) -> None:
        found = ordered(self.session.result().as_dict())
        stated = self.certificate["result"]
        if "run_id" in self.certificate and (stated["stopped"], found["stopped"]) == ("budget", "running"):
            # Money and time are limits that a log does not show.
            found["stopped"] = "budget"
        equal("fields of the result", sorted(stated), sorted(found))
        for name in set(found) - {"versions"}:
            equal(f"result.{name}", stated[name], found[name])
        equal("versions in the result", len(stated["versions"]), len(found["versions"]))
        for number, (told, right) in enumerate(zip(stated["versions"], found["versions"], strict=True)):
            equal(f"fields of version {number + 1}", sorted(told), sorted(right))
            for name, value in right.items():
                equal(f"version {number + 1}, {name}", told[name], value)

    def check_audit(self) -> None:
        if self.certificate["settings"]["target"] == "population":
            self._check_population()
            return
        left = Left()
        for number, (version, scores) in enumerate(self._told(), start=1):
            items = [entry["item"] for entry in self.certificate["log"] if entry["version"] == number]
            seen = [_seen(item - left.size, score) for item, score in zip(items, scores, strict=True)]
            found = audit_version(left, version.n_new, seen, self.eps, self.delta)
            for name, value in zip(STATED, (*_ends(found.interval), found.estimate), strict=True):
                equal(f"version {number}, {name} (audit)", getattr(version, name), value)
            left = found.left

    def _check_population(self) -> None:
        seen: list[Seen] = []
        for number, (version, scores) in enumerate(self._told(), start=1):
            seen += [_seen(0, score) for score in scores]
            found = audit(uniform_case(1, seen, self.eps, self.delta, population=True))
            for name, value in zip(STATED, _ends(found.interval), strict=False):
                equal(f"version {number}, {name} (audit)", getattr(version, name), value)

    def _told(self) -> Sequence[tuple[Version, list[float | None]]]:
        consumed = [scores for _, scores in self.session.consumed]
        return list(zip(self.session.versions, consumed, strict=True))


def _first(settings: Mapping[str, Any]) -> Growing:
    if settings["goal"].get("goal") != "estimate":
        raise WrongError("the goal of a growing session is an estimate")
    return Growing(
        settings["sizes"][0],
        goal=Estimate(settings["goal"]["eps"]),
        **{name: settings[name] for name in ("confidence", "target", "seed")},
    )


def _seen(item: int, score: float | None) -> Seen:
    return Seen(item, 0.0, 1.0) if score is None else Seen(item, score, score)


def _ends(interval: Any) -> tuple[float, float]:
    return interval.lower, interval.upper
