"""The certificate of a ranking (`cereval-ranking/1`), and its check.

Checking asks the session behind it every draw again, compares every field, and then proves the order a second time:
each pair of the transitive reduction must have its evidence, played anew from the log by the slow audit in
`ranking_audit`, and the order must be what follows from those pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cereval.certificate.base import Verdict
from cereval.certificate.checking import WrongError, check_recorded, close, equal
from cereval.certificate.issue import ordered, sealed
from cereval.certificate.ranking_audit import RankingAudit
from cereval.errors import shown
from cereval.goals.ranking import rank_goal_from_spec
from cereval.rank.session import RankSession

FORMAT = "cereval-ranking/1"
FIELDS = frozenset(("format", "settings", "result", "versions", "log", "chain", "digest"))
SETTINGS = frozenset(("models", "n_items", "goal", "confidence", "budget", "seed", "data"))


def issue_ranking(session: RankSession, data: str = "") -> dict[str, Any]:
    """The certificate of the results consumed so far, in draw order; `data` names the data and is not checked."""
    settings = ordered(
        {
            "models": list(session.models),
            "n_items": session.n_items,
            "goal": session.goal.spec(),
            "confidence": session.confidence,
            "budget": session.budget,
            "seed": session.seed,
            "data": data,
        }
    )
    entries = [{"model": draw.model, "item": draw.item, "score": score} for draw, score in session.log]
    return sealed(FORMAT, settings, entries, settings=settings, result=session.result().as_dict())


def verify(certificate: Any, stored: object = None, *, explain: bool = False) -> Verdict:  # noqa: ARG001
    """Every check in turn: see `checking`. Rankings of recorded scores are not kept in a store."""
    again = _Recomputed(certificate)
    return check_recorded(
        certificate,
        FORMAT,
        FIELDS,
        again,
        "order, answer and intervals recomputed by the audit",
        explain=explain,
    )


def session_from(settings: Mapping[str, Any]) -> RankSession:
    """The session that a certificate's settings describe, before its first draw."""
    if set(settings) != SETTINGS:
        raise WrongError("the settings have other fields than those of a ranking")
    return RankSession(
        settings["n_items"],
        settings["models"],
        goal=rank_goal_from_spec(dict(settings["goal"])),
        **{name: settings[name] for name in ("confidence", "budget", "seed")},
    )


class _Recomputed:
    """The session behind a certificate, told its log once more."""

    def __init__(self, certificate: Any) -> None:
        self.certificate = certificate

    def check_draws(self) -> None:
        self.session = session_from(self.certificate["settings"])
        for number, entry in enumerate(self.certificate["log"]):
            fresh = [] if self.session.done else self.session.ask(1)
            if not fresh:
                raise WrongError(f"there would have been no draw {number}")
            draw = fresh[0]
            stated = {"model": draw.model, "item": draw.item, "score": entry["score"]}
            equal(f"draw {number}", dict(entry), stated)
            if entry["score"] is None:
                self.session.fail(draw)
            else:
                self.session.tell(draw, entry["score"])

    def check_result(self) -> None:
        same("result", self.certificate["result"], self.session.result().as_dict())

    def check_audit(self) -> None:
        if self.certificate["result"]["stopped"] == "contradiction":
            return
        objection = RankingAudit(self.certificate).objection()
        if objection is not None:
            raise WrongError(objection)


def same(name: str, stated: Any, found: Any) -> None:
    """Objects to the first difference, naming where it is; floats may differ in their last digits."""
    if isinstance(found, Mapping):
        if not isinstance(stated, Mapping) or set(stated) != set(found):
            raise WrongError(f"{name} has other fields than recomputed: {shown(stated)}")
        for key, value in found.items():
            same(f"{name}.{key}", stated[key], value)
    elif isinstance(found, list):
        if not isinstance(stated, list) or len(stated) != len(found):
            raise WrongError(f"{name} is {shown(stated)}, recomputed {shown(found)}")
        for number, (one, other) in enumerate(zip(stated, found, strict=True)):
            same(f"{name}[{number}]", one, other)
    elif isinstance(found, float) and not isinstance(stated, bool) and close(stated, found):
        return
    else:
        equal(name, stated, found)
