"""What a certificate says of its run, against the run's plan and the log in the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from cereval.certificate.base import Verdict
from cereval.certificate.checking import RUN_ID, Check, Recomputed, WrongError, check_recorded, equal
from cereval.known import Known
from cereval.plan import Plan, digest_of
from cereval.records import Draw


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """What a store has of the run: its plan, draws and results, the data's hash, and what was known."""

    plan: Mapping[str, Any]
    draws: tuple[Draw, ...]
    results: Mapping[int, float | None]
    changes: tuple[Mapping[str, Any], ...]
    known: Known
    data_hash: str


class Replayed(Recomputed, Protocol):
    """What was recomputed of a run can be held against its plan too."""

    def check_plan(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """Certificates of one format, of a replay or of a run. audited: what the slow path recomputes."""

    format: str
    fields: frozenset[str]
    run_fields: frozenset[str]
    audited: str
    against_store: Callable[[Mapping[str, Any], Stored], None]


def verify_kind(
    kind: Kind, certificate: Any, again: Replayed, stored: Stored | None, *, explain: bool
) -> Verdict:
    """Every check in turn: see `checking`. The certificate of a run is compared with its plan and the store too."""
    run = isinstance(certificate, Mapping) and "run_id" in certificate
    hashes: list[Check] = [(RUN_ID, lambda: check_run_id(certificate))] if run else []
    more: list[Check] = [("plan", again.check_plan)] if run else []
    if run and stored is not None:
        more.append(("log in the store", lambda: kind.against_store(certificate, stored)))
    fields = kind.run_fields if run else kind.fields
    return check_recorded(
        certificate, kind.format, fields, again, kind.audited, hashes=hashes, more=more, explain=explain
    )


def check_run_id(certificate: Mapping[str, Any]) -> None:
    """The id is the hash of the plan."""
    equal("run_id", certificate["run_id"], Plan.from_dict(certificate["plan"]).run_id)


def check_stored(certificate: Mapping[str, Any], stored: Stored) -> None:
    """Plan, data, side information, changes and every result are those in the store."""
    check_log(certificate, stored)
    equal(
        "side information in the store", stored.known.fingerprint, digest_of(certificate["side_information"])
    )
    equal("changes in the store", list(stored.changes)[: len(certificate["changes"])], certificate["changes"])


def check_log(certificate: Mapping[str, Any], stored: Stored) -> None:
    """Plan, data and every result are those in the store."""
    equal("plan in the store", digest_of(dict(stored.plan)), digest_of(certificate["plan"]))
    equal("data hash in the store", stored.data_hash, certificate["plan"]["data_hash"])
    for number, entry in enumerate(certificate["log"]):
        if number >= len(stored.draws) or number not in stored.results:
            raise WrongError(f"the store has no answer to draw {number}")
        draw = stored.draws[number]
        there = {"item": draw.item, "probability": draw.probability, "score": stored.results[number]}
        equal(f"draw {number} in the store", there, {name: entry[name] for name in there})
