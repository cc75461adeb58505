"""Describe the certificate: a JSON object that holds an answer and everything needed to recompute it.

Obligations of every format:
- it depends on the plan, the results and the changes alone: no clock, no path, no order of arrival, so that a
  run that was killed and resumed has the same certificate as one that was not: bit for bit on one machine;
- `digest` is the hash of all the rest and `chain` runs over the log entry by entry, so that no field can be
  changed alone;
- `engine` is the number of the rules that decide draws and intervals: another one may decide them differently;
- it holds no secret: a plan has none.

The folder `schemas` has the published form of each.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from cereval.plan import Known, Plan, digest_of
from cereval.questions.base import Kind
from cereval.questions.log import Change
from cereval.questions.session import AskTell
from cereval.records import Certified, plain
from cereval.version import ENGINE, __version__


def issue(
    kind: Kind,
    session: AskTell,
    result: Certified,
    known: Known,
    *,
    about: Mapping[str, Any] | None = None,
    plan: Plan | None = None,
    changes: Sequence[Change] = (),
    provenance: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Seal the results that a session has consumed so far: of a run with its plan, of a replay with `about`.

    provenance: where the seed and the answers of a run came from (`cereval.certificate.seal.provenance`).
    """
    told = about if plan is None else kind.about(plan)
    found: dict[str, Callable[[], Any]] = {
        "settings": lambda: ordered(kind.settings(session, told or {})),
        "side_information": lambda: kind.side_information(session, known),
        "plan": lambda: ordered(plan.as_dict()) if plan else None,
        "run_id": lambda: plan.run_id if plan else None,
        "changes": lambda: [ordered(change.as_dict()) for change in changes],
    }
    wanted = kind.fields | (kind.run_fields if plan is not None else frozenset())
    body = {name: make() for name, make in found.items() if name in wanted}
    body |= {name: value for name in kind.optional if (value := found[name]())}
    if provenance is not None:
        body["provenance"] = ordered(provenance)
    return sealed(
        kind.format,
        body[kind.begins_with],
        kind.log(session),
        result=ordered(plain(result.as_dict())),
        **body,
    )


def sealed(kind: str, start: Mapping[str, Any], log: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """Chain a log to what it starts from, and add the digest of it all."""
    certificate = {
        "format": kind,
        "engine": ENGINE,
        **fields,
        "versions": versions(),
        "log": log,
        "chain": chained(digest_of(start), log),
    }
    return {**certificate, "digest": digest(certificate)}


def chained(start: str, log: Sequence[Mapping[str, Any]]) -> str:
    """Return the last link of a chain in which every link is the hash of the one before and of one entry.

    >>> chained("a", [{"item": 1}, {"item": 2}]) == chained("a", [{"item": 2}, {"item": 1}])
    False
    """
    link = start
    for entry in log:
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"), allow_nan=False)
        link = hashlib.sha256(f"{link}{text}".encode()).hexdigest()
    return link


def digest(certificate: Mapping[str, Any]) -> str:
    """Return the hash of everything but the digest itself."""
    return digest_of({key: value for key, value in certificate.items() if key != "digest"})


def ordered(value: Any) -> Any:
    """Return the same with sorted keys: a plan that comes from a store has them in another order."""
    if isinstance(value, Mapping):
        return {key: ordered(value[key]) for key in sorted(value)}
    return [ordered(inner) for inner in value] if isinstance(value, list | tuple) else value


def versions() -> dict[str, str]:
    """Return what computed the numbers: with others, the last digits may differ."""
    return {"cereval": __version__, "numpy": np.__version__, "python": platform.python_version()}


def schema(format: str = "cereval-certificate/1") -> dict[str, Any]:
    """Return the published JSON schema of a format of certificates, with that of plans in its place."""
    found = _schema_file(format.removeprefix("cereval-").partition("/")[0])
    own = found["properties"].get("plan", {})
    if "$ref" in own:
        plan = _schema_file("plan")
        narrowed = {name: {**plan["properties"][name], **rule} for name, rule in own["properties"].items()}
        found["properties"]["plan"] = {**plan, "properties": {**plan["properties"], **narrowed}}
    return found


def _schema_file(name: str) -> dict[str, Any]:
    text = (files(__package__) / "schemas" / f"{name}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
