"""`issue`: from a run's log to its certificate."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cereval import __version__
from cereval.certificate.base import FORMAT, Entry, chained, digest
from cereval.known import Known
from cereval.logbook import Change
from cereval.plan import Plan, digest_of
from cereval.records import Result


def issue(
    plan: Plan, known: Known, result: Result, log: Sequence[Entry], changes: Sequence[Change] = ()
) -> dict[str, Any]:
    """The certificate of the results consumed so far, in draw order."""
    return sealed(
        FORMAT,
        plan.as_dict(),
        [entry.as_dict() for entry in log],
        run_id=plan.run_id,
        result=result.as_dict(),
        plan=ordered(plan.as_dict()),
        changes=[ordered(change.as_dict()) for change in changes],
        side_information=known.as_dict(),
    )


def sealed(kind: str, start: Mapping[str, Any], log: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """A certificate of any kind: its fields, the log chained to what it starts from, and the digest of it all."""
    certificate = {
        "format": kind,
        **fields,
        "versions": versions(),
        "log": log,
        "chain": chained(digest_of(start), log),
    }
    return {**certificate, "digest": digest(certificate)}


def ordered(value: Any) -> Any:
    """The same with sorted keys: a plan that comes from a store has them in another order."""
    if isinstance(value, Mapping):
        return {key: ordered(value[key]) for key in sorted(value)}
    return [ordered(inner) for inner in value] if isinstance(value, list | tuple) else value


def versions() -> dict[str, str]:
    """What computed the numbers: with others, the last digits may differ."""
    return {"cereval": __version__, "numpy": np.__version__, "python": platform.python_version()}
