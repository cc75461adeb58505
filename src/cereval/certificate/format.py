"""Describe the certificate: a JSON object that holds an answer and everything needed to recompute it.

Obligations of every format:
- it depends on the plan, the results and the changes alone: no clock, no path, no order of arrival, so that a
  run that was killed and resumed has the same certificate as one that was not: bit for bit on one machine;
- `digest` is the hash of all the rest and `chain` runs over the log entry by entry, so that no field can be
  changed alone;
- `engine` is the number of the rules that decide draws and intervals: another one may decide them differently;
- it holds no secret: a plan has none.

`form_of` is the form of each, as a type: what is read is checked against it, and `schema` publishes it.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, Literal, get_type_hints

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType, defstruct
from msgspec.json import schema as json_schema

from cereval.forms import Count, Positive, Record
from cereval.plan import PLAN_FORMAT, Known, Plan, digest_of
from cereval.questions import formats
from cereval.questions.base import Engine, Kind
from cereval.questions.log import Change
from cereval.questions.session import AskTell
from cereval.records import Certified, plain
from cereval.version import ENGINE, __version__

Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
RunId = Annotated[
    str, Meta(pattern="^[0-9a-f]{12}$", description="The first 12 hex digits of SHA-256 over the plan.")
]
Chain = Annotated[
    Hash,
    Meta(
        description="Last link: each is SHA-256 of the link before (first: of the settings; of the plan, where there "
        "are none) and the entry as JSON with sorted keys and no spaces."
    ),
]
Digest = Annotated[
    Hash, Meta(description="SHA-256 of all other fields as JSON with sorted keys and no spaces.")
]


class Versions(Record):
    """What computed the numbers: with others, the last digits may differ."""

    cereval: str
    numpy: str
    python: str


class Provenance(Record):
    """Of a run in a store: where its seed and its answers came from, and the digest of its seal."""

    seed: Literal["drawn", "chosen"]
    kept: Annotated[
        dict[str, Positive], Meta(description="How many answers were taken from which earlier run.")
    ]
    seal: Hash | UnsetType = UNSET
    served: Annotated[
        dict[str, dict[str, Positive]] | UnsetType,
        Meta(description="Of each candidate, under which names a server answered, and how often."),
    ] = UNSET


class Changed(Record):
    """A goal or budget that was set after so many results and so many draws; horizon: what money or time were
    expected to buy, in results (0: no longer); round: draws that went out together from there on."""

    consumed: Count
    drawn: Count
    goal: dict[str, Any]
    max_calls: Positive | None
    horizon: Count | UnsetType = UNSET
    round: Positive | UnsetType = UNSET


@cache
def form_of(kind: Kind, run: bool | None = None) -> type[Struct]:
    """Return the form of a kind's certificates: of a run, or of recorded scores; None: of either."""
    needed: dict[str, Any] = {
        "format": Literal[kind.format],
        "engine": Engine,
        "result": published(kind.result_form, kind.result_form.silent),
        "versions": Versions,
        "log": GenericAlias(list, (kind.entry_form,)),
        "chain": Chain,
        "digest": Digest,
    }
    of_runs: dict[str, Any] = {"run_id": RunId, "plan": published(Plan, format=Literal[PLAN_FORMAT])}
    of_runs |= {"changes": list[Changed]} if kind.lists_changes else {}
    free: dict[str, Any] = {} if run is False else {"provenance": Provenance}
    if kind.settings_form:
        needed["settings"] = kind.settings_form
    if kind.side_form:
        (free if kind.side_may_lack else needed)["side_information"] = kind.side_form
    if run or not kind.settings_form:
        needed |= of_runs
    elif run is None:
        free |= of_runs
    fields: list[Any] = [*needed.items(), *((name, form | UnsetType, UNSET) for name, form in free.items())]
    return defstruct(kind.format, fields, forbid_unknown_fields=True)


def published(form: Any, leaving_out: frozenset[str] = frozenset(), **more: Any) -> type[Struct]:
    hints = get_type_hints(form, include_extras=True)
    fields = {name: hints[name] for name in form.__dataclass_fields__ if name not in leaving_out}
    return defstruct(form.__name__, [*more.items(), *fields.items()], forbid_unknown_fields=True)


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
    wanted = form_of(kind, plan is not None).__struct_fields__
    body = {name: make() for name, make in found.items() if name in wanted}
    if kind.side_may_lack and not body["side_information"]:
        del body["side_information"]
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
    return digest_of({key: value for key, value in certificate.items() if key != "digest"})


def ordered(value: Any) -> Any:
    """Return the same with sorted keys: a plan that comes from a store has them in another order."""
    if isinstance(value, Mapping):
        return {key: ordered(value[key]) for key in sorted(value)}
    return [ordered(inner) for inner in value] if isinstance(value, list | tuple) else value


def versions() -> dict[str, str]:
    return {"cereval": __version__, "numpy": np.__version__, "python": platform.python_version()}


def schema(format: str = "cereval-certificate/1") -> dict[str, Any]:
    from cereval.certificate.seal import SEAL_FORMAT, Seal

    found = json_schema(Seal if format == SEAL_FORMAT else form_of(formats()[format]))
    whole = found["$defs"].pop(found["$ref"].rpartition("/")[2])
    for one in (whole, *found["$defs"].values()):
        if "properties" in one:
            # Files have every field, also those with a usual value; only fields without one may be absent.
            usual = [
                name
                for name, form in one["properties"].items()
                if form.pop("default", MISSING) is not MISSING
            ]
            one["required"] = [
                name for name in one["properties"] if name in (*usual, *one.get("required", ()))
            ]
            one.setdefault("additionalProperties", False)
    title = format.replace("-", " ").partition("/")[0]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **whole,
        "title": title,
        "$defs": found["$defs"],
    }
