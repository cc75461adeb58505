"""Sign seals with an Ed25519 key of the user's, which shows who fixed a plan. Needs the extra `sign`."""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace
from typing import Any

from cereval.certificate.seal import SEAL_FORMAT, Seal
from cereval.errors import InvalidInput
from cereval.imports import optional

ALGORITHM = "ed25519"
EXTRA = "sign"
PRIVATE = "an unencrypted private Ed25519 key (PEM or OpenSSH)"
PUBLIC = "a public Ed25519 key (PEM or OpenSSH)"


def sign(seal: Seal, key: bytes) -> Seal:
    """Sign a seal's digest with a private key."""
    private = _loaded(key, b"OPENSSH PRIVATE KEY", ("private_key", {"password": None}), "--sign", PRIVATE)
    kinds = optional("cryptography.hazmat.primitives.serialization", EXTRA)
    raw = private.public_key().public_bytes(kinds.Encoding.Raw, kinds.PublicFormat.Raw)
    value = private.sign(_message(seal))
    named = {"algorithm": ALGORITHM, "key": _text(raw), "value": _text(value)}
    return replace(seal, signature=named)


def wrong_signature(seal: Seal, key: bytes) -> str | None:
    """Say why a seal is not signed by the owner of a public key; None: it is."""
    public = _loaded(key, b"ssh-ed25519", ("public_key", {}), "--public-key", PUBLIC)
    if not seal.signature:
        return "signature: the seal is not signed"
    if seal.signature.get("algorithm") != ALGORITHM:
        return f"signature: only {ALGORITHM} is known"
    refused = optional("cryptography.exceptions", EXTRA).InvalidSignature
    try:
        public.verify(base64.b64decode(seal.signature.get("value", ""), validate=True), _message(seal))
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
