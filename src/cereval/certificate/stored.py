"""What a certificate says of its run, against the run's plan and the log in the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cereval.certificate.checking import WrongError, equal
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
