"""Seal a run: fix what it will depend on before its first call, without revealing its seed.

It holds the plan (of prompts and weights, digests), a digest of what was known of the items, the engine, and a
commitment to the seed: SHA-256 of the seed and a random nonce. Both stay in the store until the run's certificate
reveals them. Whoever has the seal can then tell every choice that was made later. A seal cannot tell what was done
before it was shown to somebody, nor whether the answers are true.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins
from msgspec.structs import replace

from cereval.certificate.format import Hash, RunId, ordered
from cereval.errors import InvalidInput, Misuse, shown
from cereval.forms import Record, read_as
from cereval.imports import optional
from cereval.plan import Known, Plan, digest_of
from cereval.questions import kind_of
from cereval.questions.base import Engine
from cereval.questions.log import Change

SEAL_FORMAT = "cereval-seal/1"
HIDDEN = ("seed", "nonce")
"""Fields of a plan that a seal only commits to."""
DIGESTED = re.compile(r"^weights|^candidates\[\d+\]\.prompt")
"""Parts of a plan of which a seal holds digests: they may be long, or private until the certificate."""
_MISSING = object()


class Signature(Record):
    """Of the text `cereval-seal/1:DIGEST`; key: the public key. Both in base64."""

    algorithm: Literal["ed25519"]
    key: str
    value: str


class Seal(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a run will depend on, fixed before its first call. `cereval verify CERTIFICATE --seal FILE` names every
    later choice.

    >>> from cereval.plan import candidate_spec
    >>> goal, nonce = {"goal": "estimate", "eps": 0.1}, "ab" * 32
    >>> plan = Plan("estimate", goal, "sha256:0", 10, (candidate_spec("m"),), seed=7, nonce=nonce)
    >>> seal = seal_of(plan, Known())
    >>> "seed" in seal.plan, Seal.from_dict(seal.as_dict()) == seal
    (False, True)
    """

    format: Literal["cereval-seal/1"]
    kind: str
    engine: Engine
    run_id: RunId
    plan: Annotated[
        dict[str, Any],
        Meta(
            description="As in its certificate, without seed and nonce; of prompt and weights, SHA-256 of each part."
        ),
    ]
    commitment: Annotated[
        Hash,
        Meta(description="SHA-256 of the text `cereval-seal/1:SEED:NONCE`; the certificate reveals both."),
    ]
    side_information: Annotated[
        Hash,
        Meta(
            description="SHA-256 over categories and history: for each its shape and the SHA-256 of its numbers "
            "(little-endian, 64 bits, row by row)."
        ),
    ]
    digest: Annotated[Hash, Meta(description="SHA-256 of all other fields but the signature.")]
    signature: Signature | UnsetType = UNSET

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = to_builtins(self)
        return found

    @classmethod
    def from_dict(cls, values: Any) -> Seal:
        seal = read_as(cls, values, "seal")
        if seal.digest != seal_digest(values):
            raise InvalidInput(
                "seal", f"whole: what it holds has the digest {seal_digest(values)}", seal.digest
            )
        return seal


def seal_digest(values: Mapping[str, Any]) -> str:
    return digest_of({name: value for name, value in values.items() if name not in ("digest", "signature")})


def seal_of(plan: Plan, known: Known, engine: int | None = None) -> Seal:
    if not plan.nonce:
        raise Misuse(f"run {plan.run_id} was not sealed before it began")
    body = {
        "format": SEAL_FORMAT,
        "kind": kind_of(plan).name,
        "engine": plan.engine if engine is None else engine,
        "run_id": plan.run_id,
        "plan": sealed_form(plan),
        "commitment": commitment(plan.seed, plan.nonce),
        "side_information": fingerprint(known),
    }
    return Seal.from_dict({**body, "digest": digest_of(body)})


def sealed_form(plan: Plan) -> dict[str, Any]:
    values = {name: value for name, value in plan.as_dict().items() if name not in HIDDEN}
    candidates = [{**one, "prompt": _digests(one["prompt"])} for one in plan.candidates]
    found: dict[str, Any] = ordered({**values, "weights": _digests(plan.weights), "candidates": candidates})
    return found


def _digests(parts: Mapping[str, Any]) -> dict[str, str]:
    return {name: digest_of(ordered(value)) for name, value in parts.items()}


def commitment(seed: int, nonce: str) -> str:
    """Commit to a seed: it cannot be guessed from this without the nonce, nor exchanged later.

    >>> commitment(1, "a") == commitment(2, "a"), len(commitment(1, "a"))
    (False, 64)
    """
    return hashlib.sha256(f"{SEAL_FORMAT}:{seed}:{nonce}".encode()).hexdigest()


def fingerprint(known: Known) -> str:
    """Digest side information by its numbers: packed bytes depend on the machine's zlib."""
    tables = {}
    for name in known.names:
        table = np.asarray(getattr(known, name))
        kind = "<i8" if table.dtype.kind == "i" else "<f8"
        clean = np.where(np.isnan(table), np.nan, table) if kind == "<f8" else table
        raw = np.ascontiguousarray(clean, dtype=kind).tobytes()
        tables[name] = {"shape": list(table.shape), "sha256": hashlib.sha256(raw).hexdigest()}
    return digest_of(tables)


# -- what was done, against what was sealed ---------------------------------------------------------------------------


def departures(
    seal: Seal, plan: Plan, known: Known, engine: Any, changes: Sequence[Change] = ()
) -> tuple[str, ...]:
    found = [*_apart("kind", seal.kind, kind_of(plan).name), *_apart("engine", seal.engine, engine)]
    if commitment(plan.seed, plan.nonce) != seal.commitment:
        which = "are not those" if plan.nonce else "cannot be those (it has no nonce)"
        found.append(f"seed: the seed {plan.seed} and its nonce {which} that were sealed")
    found += differences(seal, plan)
    if fingerprint(known) != seal.side_information:
        found.append(
            "side_information: categories or history are not those that were known when it was sealed"
        )
    found += [line for change in changes for line in _changed(plan, change)]
    if not found and plan.run_id != seal.run_id:
        found.append(f"run_id is {plan.run_id}, sealed {seal.run_id}")
    return tuple(found)


def differences(seal: Seal, plan: Plan, leaving_out: Sequence[str] = ()) -> list[str]:
    stated, found = seal.plan, sealed_form(plan)
    names = [name for name in dict.fromkeys([*sorted(found), *sorted(stated)]) if name not in leaving_out]
    return [
        line for name in names for line in _apart(name, stated.get(name, _MISSING), found.get(name, _MISSING))
    ]


def _apart(name: str, sealed: Any, found: Any) -> Iterator[str]:
    if isinstance(sealed, Mapping) and isinstance(found, Mapping):
        for part in sorted({*sealed, *found}):
            yield from _apart(f"{name}.{part}", sealed.get(part, _MISSING), found.get(part, _MISSING))
    elif name == "candidates" and isinstance(sealed, list) and len(sealed) == len(found):
        for number, (one, other) in enumerate(zip(sealed, found, strict=True)):
            yield from _apart(f"{name}[{number}]", one, other)
    elif found is _MISSING:
        yield f"{name} is missing, sealed {shown(sealed)}"
    elif sealed is _MISSING:
        yield f"{name} is {shown(found)}, sealed without one"
    elif digest_of(sealed) != digest_of(found):
        yield (
            f"{name} is another than was sealed"
            if DIGESTED.match(name)
            else f"{name} is {shown(found)}, sealed {shown(sealed)}"
        )


def _changed(plan: Plan, change: Change) -> list[str]:
    """Tell what a change on the way set; one that set nothing new is told too, as it is part of the record."""
    when = f"after {change.consumed:,} results"
    told = []
    if dict(change.goal) != dict(plan.goal):
        told.append(f"goal was changed {when} to {shown(dict(change.goal))}, sealed {shown(dict(plan.goal))}")
    if change.max_calls != plan.max_calls:
        told.append(f"max_calls was changed {when} to {change.max_calls}, sealed {plan.max_calls}")
    return told or [f"changes: goal or budget were set {when}"]


def known_of(certificate: Mapping[str, Any]) -> Known:
    side, items = certificate.get("side_information", {}), certificate["plan"]["n_items"]
    names = [name for name in ("groups", "history") if name in side]
    return Known.from_dict({name: side[name] for name in names}, items)


def certificate_departures(seal: Seal, certificate: Mapping[str, Any]) -> tuple[str, ...]:
    if "plan" not in certificate:
        return ("plan: this is no certificate of a run, and only runs are sealed",)
    plan = Plan.from_dict(certificate["plan"])
    changes = tuple(Change(**change) for change in certificate.get("changes", ()))
    followed = departures(seal, plan, known_of(certificate), certificate.get("engine"), changes)
    return (*followed, *kind_of(plan).chosen_later(certificate, plan))


# -- where a run's seed and answers came from -------------------------------------------------------------------------


def provenance(
    plan: Plan,
    known: Known,
    kept: Mapping[str, int],
    engine: int | None = None,
    served: Mapping[str, Mapping[str, int]] | None = None,
) -> dict[str, Any]:
    """Say whether the seed was drawn, which answers earlier runs had paid for, and the digest of the seal.

    kept: of the consumed answers, how many were taken from which earlier run. served: of each candidate, under which
    names a server answered, and how often.
    """
    sealed = {"seal": seal_of(plan, known, engine).digest} if plan.nonce else {}
    seed = "drawn" if plan.seed_drawn else "chosen"
    names = (
        {"served": {name: dict(sorted(counts.items())) for name, counts in served.items()}} if served else {}
    )
    return {"seed": seed, "kept": dict(sorted(kept.items())), **sealed, **names}


ALGORITHM: Literal["ed25519"] = "ed25519"
EXTRA = "sign"
PRIVATE = "an unencrypted private Ed25519 key (PEM or OpenSSH)"
PUBLIC = "a public Ed25519 key (PEM or OpenSSH)"


def sign(seal: Seal, key: bytes) -> Seal:
    private = _loaded(key, b"OPENSSH PRIVATE KEY", ("private_key", {"password": None}), "--sign", PRIVATE)
    kinds = optional("cryptography.hazmat.primitives.serialization", EXTRA)
    raw = private.public_key().public_bytes(kinds.Encoding.Raw, kinds.PublicFormat.Raw)
    value = private.sign(_message(seal))
    return replace(seal, signature=Signature(ALGORITHM, _text(raw), _text(value)))


def wrong_signature(seal: Seal, key: bytes) -> str | None:
    """Say why a seal is not signed by the owner of a public key; None: it is."""
    public = _loaded(key, b"ssh-ed25519", ("public_key", {}), "--public-key", PUBLIC)
    if not isinstance(seal.signature, Signature):
        return "signature: the seal is not signed"
    refused = optional("cryptography.exceptions", EXTRA).InvalidSignature
    try:
        public.verify(base64.b64decode(seal.signature.value, validate=True), _message(seal))
    except (refused, binascii.Error, ValueError):
        return "signature: the seal was not signed with this key, or was changed since"
    return None


def _message(seal: Seal) -> bytes:
    return f"{SEAL_FORMAT}:{seal.digest}".encode()


def _loaded(content: bytes, ssh: bytes, how: tuple[str, dict[str, Any]], flag: str, wanted: str) -> Any:
    """Read a key in PEM, or as `ssh-keygen -t ed25519` writes it; nothing of it is ever shown."""
    reading = optional("cryptography.hazmat.primitives.serialization", EXTRA)
    errors = optional("cryptography.exceptions", EXTRA)
    kinds = optional("cryptography.hazmat.primitives.asymmetric.ed25519", EXTRA)
    what, given = how
    load = getattr(reading, f"load_{'ssh' if ssh in content else 'pem'}_{what}")
    try:
        key = load(content, **given)
    except (ValueError, TypeError, errors.UnsupportedAlgorithm):
        raise InvalidInput(flag, wanted, "a file that holds none") from None
    if not isinstance(key, kinds.Ed25519PrivateKey | kinds.Ed25519PublicKey):
        raise InvalidInput(flag, wanted, "a key of another kind")
    return key


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
