"""Recompute everything that a certificate says, and say what does not hold. One frame for all kinds.

Every check is a function that may object; the first that does decides, because the later ones rest on it. The checks
up to the counts hold whatever the engine; draws, result and audit are those of one engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import ceil, floor, isclose
from typing import Any, Literal

from cereval.certificate.audit import Audit
from cereval.certificate.format import chained, digest, form_of, ordered
from cereval.certificate.seal import Seal, certificate_departures, known_of, provenance
from cereval.errors import CerevalError, InvalidInput, LogMismatch, shown
from cereval.forms import read_as
from cereval.methods.drawing import TOLERANCE
from cereval.plan import MOST_ITEMS, Known, Plan, about_luck, digest_of
from cereval.questions import formats, kind_of
from cereval.questions.base import Kind
from cereval.questions.log import Change, Log
from cereval.questions.session import AskTell
from cereval.records import Draw, Scored, plain
from cereval.version import ENGINE, __version__

ROUNDING = 1e-9
"""By how much sums in another order may differ, and limits cross."""
PRINTED = (1e4, 1e5, 1e6)
"""Results are printed to so many parts: percentages with two to four decimals."""
OURS = "cereval-"
Status = Literal["valid", "invalid", "unchecked", "departed"]
"""`departed`: not what was sealed before, whatever the certificate is worth by itself."""
Check = tuple[str, Callable[[], str | None]]
"""What is checked, in words, and a function that raises `WrongError`, or says what it checked instead."""

DIGEST, RUN_ID, CHAIN = "digest", "run id", "hash chain of the log"


@dataclass(frozen=True, slots=True)
class Verdict:
    status: Status
    reasons: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        return self.status == "valid"


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Hold what a store has of the run: its plan, the results of its log, the changes, the data's hash, what was
    known.
    """

    plan: Mapping[str, Any]
    log: Sequence[tuple[Draw, Scored]]
    changes: tuple[Mapping[str, Any], ...]
    known: Known
    data_hash: str


class WrongError(Exception):
    """Report a check that does not hold; its text is the reason."""


class UncheckedError(Exception):
    """Report what cannot be checked here, and why."""


def verify(
    certificate: Any, stored: Stored | None = None, *, explain: bool = False, seal: Seal | None = None
) -> Verdict:
    """Check a certificate of any format.

    explain: where only a hash is wrong, go on until a check says which field it is. seal: what the run was to depend
    on; every later choice is a reason.
    """
    refused = refused_at_sight(certificate)
    if refused is not None:
        return refused
    verdict = _Checks(formats()[certificate["format"]], certificate, stored).conclude(explain=explain)
    return verdict if seal is None or verdict.status == "invalid" else _held_to(seal, certificate, verdict)


def _held_to(seal: Seal, certificate: Mapping[str, Any], verdict: Verdict) -> Verdict:
    found: list[str] = []
    broken, _ = _outcome(lambda: found.extend(certificate_departures(seal, certificate)))
    departed = [*found, *([broken] if broken else [])]
    if departed:
        return Verdict("departed", (*departed, *verdict.reasons), verdict.checked)
    kept = sum(certificate.get("provenance", {}).get("kept", {}).values())
    older = f", {kept:,} answers kept from earlier runs" if kept else ""
    said = f"followed its seal {seal.digest[:12]} (seed, history, goal, data, model, prompt, scorer, budget{older})"
    return Verdict(verdict.status, verdict.reasons, (*verdict.checked, said))


def refused_at_sight(content: Any) -> Verdict | None:
    """Return the verdict on what is no certificate, or one of a format that only a later version knows."""
    kind = content.get("format") if isinstance(content, Mapping) else None
    if not isinstance(kind, str) or not kind.startswith(OURS):
        reason = "it names no format" if kind is None else f"its format is {shown(kind)}"
        return Verdict("invalid", (f"this is no certificate of cereval: {reason}",))
    if kind in formats():
        return None
    # Every format has the same digest, also one that is still to come: so a changed `format` is found.
    wrong, _ = _outcome(lambda: _check_digest(content)) if "digest" in content else (None, None)
    if wrong is not None:
        return Verdict("invalid", (wrong,))
    reason = f"cereval {__version__} does not know the format {shown(kind)}: check it with the version that made it"
    return Verdict("unchecked", (reason,))


class _Checks:
    def __init__(self, kind: Kind, certificate: Mapping[str, Any], stored: Stored | None) -> None:
        self.kind, self.certificate, self.stored = kind, certificate, stored
        self.is_run = "run_id" in certificate
        self.audit: Audit | None = None

    def all(self) -> list[Check]:
        ours = self.certificate.get("engine") == ENGINE
        every: list[tuple[bool, str, Callable[[], str | None]]] = [
            (True, "format", self.format),
            (True, DIGEST, self.digest),
            (self.is_run, RUN_ID, self.run_id),
            (True, CHAIN, self.chain),
            (True, "counts", self.counts),
            ("provenance" in self.certificate, "provenance", self.provenance),
            (self.is_run and self.stored is not None, "log in the store", self.store),
            (ours, f"draws decided again from the seed, probabilities within {TOLERANCE:g}", self.draws),
            (ours, f"every field of the result, numbers within {TOLERANCE:g}", self.result),
            (ours, self.kind.audited, self.recompute),
            (ours and self.is_run, "plan", self.plan),
        ]
        return [(name, check) for applies, name, check in every if applies]

    def conclude(self, *, explain: bool) -> Verdict:
        checked: list[str] = []
        reasons: list[str] = []
        try:
            for name, check in self.all():
                reason, said = _outcome(check)
                if reason is None:
                    checked.append(said or name)
                    continue
                reasons.append(reason)
                if not (explain and name in (DIGEST, RUN_ID, CHAIN)):
                    break
            if not reasons:
                self.engine()
        except UncheckedError as unchecked:
            return Verdict("unchecked", (str(unchecked),), tuple(checked))
        except MemoryError:
            reason = f"there is not enough memory to check a certificate about {self.items:,} items"
            return Verdict("unchecked", (reason,))
        return Verdict("invalid" if reasons else "valid", tuple(reasons), tuple(checked))

    @property
    def items(self) -> int:
        settings, plan = (self.certificate.get(name, {}) for name in ("settings", "plan"))
        found = max(settings.get("n_items", 0), sum(settings.get("sizes", ())), plan.get("n_items", 0))
        return int(found)

    def engine(self) -> None:
        """Leave what another engine made unchecked: it may bet and draw differently, and only it can recompute."""
        engine, version = self.certificate["engine"], self.certificate["versions"]["cereval"]
        if engine != ENGINE:
            raise UncheckedError(
                f"made by engine {engine} (cereval {shown(version)}), this is engine {ENGINE}: hashes, counts and what "
                "else does not depend on the engine hold; check the rest with that version"
            )

    # -- whatever the engine ----------------------------------------------------------------------------------

    def format(self) -> None:
        try:
            read_as(form_of(self.kind, self.is_run), self.certificate, "certificate")
        except InvalidInput as error:
            raise WrongError(str(error)) from None

    def digest(self) -> None:
        """Check the hash of everything but itself; what it says of its size is then believed."""
        _check_digest(self.certificate)
        if self.items > MOST_ITEMS:
            raise UncheckedError(f"it is about {self.items} items; at most {MOST_ITEMS:,} are checked")

    def run_id(self) -> None:
        equal("run_id", self.certificate["run_id"], Plan.from_dict(self.certificate["plan"]).run_id)

    def chain(self) -> None:
        start = self.kind.begins_with
        if self.certificate["chain"] != chained(digest_of(self.certificate[start]), self.certificate["log"]):
            raise WrongError(f"the hash chain does not fit the log: an entry or the {start} were changed")

    def counts(self) -> None:
        result = self.certificate["result"]
        scores = [self.kind.scores(entry) for entry in self.certificate["log"]]
        equal("results in the log", len(scores), result.get("n_evaluated", result.get("calls")))
        equal("result.failures", result["failures"], sum(None in told for told in scores))
        middle = result.get("estimate", result.get("difference"))
        if middle is not None and not result["lower"] - ROUNDING <= middle <= result["upper"] + ROUNDING:
            raise WrongError("the estimate is outside its interval")

    def provenance(self) -> None:
        """Check that the provenance is the plan's (a drawn seed, the seal's digest), and no more answers were kept
        than there are.
        """
        certificate, stated = self.certificate, self.certificate["provenance"]
        kept = stated["kept"]
        answers = sum(len(self.kind.scores(entry)) for entry in certificate["log"])
        if sum(kept.values()) > answers:
            raise WrongError(f"provenance.kept has more than the {answers} answers in the log")
        plan = Plan.from_dict(certificate["plan"])
        served = stated.get("served")
        if served is not None and not set(served) <= set(plan.names):
            raise WrongError("provenance.served names a candidate that the plan has not")
        found = provenance(plan, known_of(certificate), kept, certificate["engine"], served)
        same("provenance", stated, found)

    def store(self) -> None:
        stored, certificate = self.stored, self.certificate
        assert stored is not None
        equal("plan in the store", digest_of(dict(stored.plan)), digest_of(certificate["plan"]))
        equal("data hash in the store", stored.data_hash, certificate["plan"]["data_hash"])
        for number, entry in enumerate(certificate["log"]):
            if number >= len(stored.log):
                raise WrongError(f"the store has no answer to draw {number}")
            there = self.kind.entry(*stored.log[number])
            equal(f"draw {number} in the store", there, {name: entry[name] for name in there})
        if "changes" in certificate:
            stated = certificate["changes"]
            equal("changes in the store", list(stored.changes)[: len(stated)], stated)
        if "side_information" in certificate and stored.known.names:
            packed = {name: certificate["side_information"].get(name) for name in stored.known.names}
            equal("side information in the store", stored.known.fingerprint, digest_of(packed))

    # -- of one engine ----------------------------------------------------------------------------------------

    def draws(self) -> None:
        certificate, entries = self.certificate, self.certificate["log"]
        changes = tuple(Change(**change) for change in certificate.get("changes", ()))
        results = {number: self.kind.scores(entry) for number, entry in enumerate(entries)}
        drawn = max([len(entries), *(change.drawn for change in changes)])
        log = Log(results, drawn, changes, self.kind.draws(entries), check=True)
        self.session, draws = self.kind.retold(certificate, log, self._tell)
        if self.audit is None:
            self.audit = self._audit(self.session)
        for number, (draw, entry) in enumerate(zip(draws, entries, strict=False)):
            self._same(number, draw, entry)
        equal("consumed results", len(self.kind.log(self.session)), len(entries))
        if "settings" in certificate:
            about = certificate["settings"].get("about", {"data": certificate["settings"].get("data")})
            same("settings", certificate["settings"], ordered(self.kind.settings(self.session, about)))

    def _tell(self, session: AskTell, draw: Draw, scores: Scored) -> None:
        if self.audit is None:
            self.audit = self._audit(session)
        self.audit.tell(session, draw, scores)

    def _audit(self, session: AskTell) -> Audit:
        module, _, name = (self.kind.audit or "cereval.certificate.audit:Audit").partition(":")
        found: Audit = getattr(import_module(module), name)(self.kind, session)
        return found

    def _same(self, number: int, draw: Draw, entry: Mapping[str, Any]) -> None:
        found = self.kind.entry(draw, self.kind.scores(entry))
        chance = found.get("probability")
        differs = any(entry[name] != found[name] for name in found if name != "probability")
        if differs or (chance is not None and not isclose(entry["probability"], chance, rel_tol=TOLERANCE)):
            raise WrongError(f"draw {number} would have been {_told(found)}; the log has {_told(entry)}")

    def result(self) -> None:
        if self.is_run:
            self.session.remarks = about_luck(Plan.from_dict(self.certificate["plan"]))
        stated, found = self.certificate["result"], plain(self.session.result().as_dict())
        if self.is_run and (stated.get("stopped"), found["stopped"]) == ("budget", "running"):
            # Money and time are limits that a log does not show.
            found["stopped"] = "budget"
            for version in found.get("versions", [])[-1:]:
                version["stopped"] = stated["versions"][-1]["stopped"]
        same("result", stated, found)

    def recompute(self) -> str | None:
        assert self.audit is not None
        return self.audit.check(self.certificate, self.session, equal)

    def plan(self) -> None:
        plan = Plan.from_dict(self.certificate["plan"])
        equal("kind of the plan", kind_of(plan).name, self.kind.name)
        equal("plan.engine", plan.engine, ENGINE)
        self.kind.check_plan(self.certificate, same)


def _check_digest(certificate: Mapping[str, Any]) -> None:
    if certificate["digest"] != digest(certificate):
        raise WrongError("the digest does not fit the content: something was changed")


def _outcome(check: Callable[[], str | None]) -> tuple[str | None, str | None]:
    try:
        return None, check()
    except (WrongError, LogMismatch) as wrong:
        return str(wrong), None
    except (
        CerevalError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        OverflowError,
    ) as error:
        return f"it cannot be read as a certificate: {type(error).__name__}: {shown(str(error))}", None


def _told(entry: Mapping[str, Any]) -> str:
    chance = entry.get("probability")
    return f"item {entry['item']}" + (f" with probability {chance:.6g}" if is_number(chance) else "")


def equal(name: str, stated: Any, found: Any) -> None:
    alike = close(stated, found) if isinstance(found, float) else stated == found
    whole = isinstance(found, int) and type(stated) is not type(found)
    if not alike or whole or isinstance(stated, bool) != isinstance(found, bool):
        raise WrongError(f"{name} is {shown(stated)}, recomputed {shown(found)}")


def same(name: str, stated: Any, found: Any) -> None:
    if isinstance(found, Mapping):
        if not isinstance(stated, Mapping) or set(stated) != set(found):
            raise WrongError(f"{name} has other fields than recomputed: {shown(stated)}")
        for key, value in found.items():
            same(f"{name}.{key}", stated[key], value)
    elif isinstance(found, list | tuple):
        if not isinstance(stated, list | tuple) or len(stated) != len(found):
            raise WrongError(f"{name} is {shown(stated)}, recomputed {shown(found)}")
        for number, (one, other) in enumerate(zip(stated, found, strict=True)):
            same(f"{name}[{number}]", one, other)
    else:
        equal(name, stated, found)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def close(stated: Any, found: float) -> bool:
    """Tell whether a number is the same as on another machine: up to rounding, or to 1e-6 where it is printed alike,
    rounded down, up or to the nearest, so that no tolerance hides an edit.

    >>> close(0.25, 0.25 + 1e-10), close(0.2500004, 0.2500001), close(0.25, 0.25 - 4.9e-7), close(0.25, 0.26)
    (True, True, False, False)
    """
    if not is_number(stated):
        return False
    if isclose(stated, found, rel_tol=ROUNDING, abs_tol=ROUNDING):
        return True
    return isclose(stated, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE) and all(
        way(scale * stated) == way(scale * found) for scale in PRINTED for way in (floor, ceil, round)
    )
