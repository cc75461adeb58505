"""Seal a run before its first call, carry out the run that a seal fixed, and verify what came of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from cereval.certificate.seal import Seal, departures, differences, seal_of, sign, wrong_signature
from cereval.certificate.verify import Stored, Verdict, refused_at_sight, verify
from cereval.datasets.base import Item
from cereval.errors import BadContent, BadFile, InvalidInput, Misuse, StoreError
from cereval.files import read_bytes, read_json, write_whole
from cereval.plan import Plan
from cereval.questions import kind_of
from cereval.runner.finding import known_items, planned
from cereval.runner.start import changes_of, evidence, start
from cereval.store.base import Store, opened_store
from cereval.store.database import reading_uri

SEALED = "sealed"
"""The status of a run that is fixed and has not asked anything yet."""
NONCE_BYTES = 32
KEY_LIMIT = 64 * 1024
READABLE = 0o644
"""A seal is there to be shown."""
DECIDED_LATER = ("side_information", "history", "attempt", "seed_source", "data_name", "engine")
"""Fields that a command line does not fix: the seal's are taken. A file may have moved: its content counts."""


def sealed(
    plan: Plan, items: Sequence[Item], store: Store, *, history: bool, key: Path | None = None
) -> Seal:
    """Create a run of its own for a plan, with what is known now, and seal it; nothing is asked.

    key: a file with the private key to sign it with.
    """
    fixed = planned(replace(plan, nonce=token_hex(NONCE_BYTES)), items, store, history=history)
    seal = seal_of(fixed, known_items(fixed, items, store))
    seal = seal if key is None else sign(seal, read_bytes(key, KEY_LIMIT))
    start(fixed, items, store)
    store.mark(fixed.run_id, SEALED, {"seal": seal.digest})
    return seal


def read_seal(path: Path) -> Seal:
    """Read a seal from a file; nothing in it is trusted or carried out."""
    content = read_json(path)
    try:
        return Seal.from_dict(content)
    except InvalidInput as error:
        raise BadContent(f"{path} is no seal of cereval: {error}") from None


def written(path: Path, seal: Seal) -> None:
    try:
        write_whole(path, json.dumps(seal.as_dict(), indent=1, allow_nan=False) + "\n")
        path.chmod(READABLE)
    except OSError as error:
        raise BadFile(f"the seal cannot be written to {path} ({error.strerror}); name another file") from None


def sealed_plan(seal: Seal, plan: Plan, items: Sequence[Item], store: Store, *, history: bool) -> Plan:
    """Find the run that a seal fixed; refuse a command that asks for anything else, naming the field."""
    _refuse(_unlike(seal, plan, history))
    try:
        run = store.run(seal.run_id)
    except (StoreError, InvalidInput):
        advice = "name the store that it was sealed in with --store"
        raise StoreError(f"the store has no run {seal.run_id}, which this seal is of; {advice}") from None
    found = Plan.from_dict(run.plan)
    if not plan.seed_drawn and plan.seed != found.seed:
        raise Misuse(f"this is not what was sealed: seed is {plan.seed}; leave --seed out, the store has it")
    known = known_items(found, items, store)
    _refuse(departures(seal, found, known, found.engine, changes_of(store, found.run_id)))
    return found


def _unlike(seal: Seal, plan: Plan, history: bool) -> list[str]:
    kind = kind_of(plan).name
    if kind != seal.kind:
        return [f"kind is {kind}, sealed {seal.kind}"]
    unlike = differences(seal, plan, DECIDED_LATER)
    if not history and seal.plan.get("history"):
        unlike.append("history is not wanted, sealed with the scores of earlier runs")
    return unlike


def _refuse(unlike: Sequence[str]) -> None:
    if unlike:
        more = f" (and {len(unlike) - 1} more)" if len(unlike) > 1 else ""
        raise Misuse(f"this is not what was sealed: {unlike[0]}{more}; nothing was asked")


# -- checking ---------------------------------------------------------------------------------------------------------


def verify_certificate(
    content: Any,
    store: str | None = None,
    seal: str | Path | None = None,
    public_key: str | Path | None = None,
    folder: Path | None = None,
) -> Verdict:
    """Recompute a certificate; compare it with the log in a store, and with what was sealed.

    store: where the run must be; without it, a database in the folder is used that has it.
    """
    refused = refused_at_sight(content)
    if refused is not None:
        return refused
    sealed, unsigned = _sealed(seal, public_key)
    verdict = verify(content, _stored(content, store, folder), explain=True, seal=sealed)
    if unsigned is not None and verdict.status != "invalid":
        return Verdict("departed", (unsigned, *verdict.reasons), verdict.checked)
    return verdict


def newest_certificate(run_id: str, url: str) -> Mapping[str, Any]:
    with opened_store(url, reading=True) as store:
        run = store.run(run_id)
        found = store.certificates(run.run_id)
    if not found and not kind_of(run.plan).format:
        raise StoreError(f"run {run.run_id} is a part of another run, which has the certificate")
    if not found:
        raise StoreError(f"run {run.run_id} has no certificate yet: it is {run.status}")
    return found[-1]


def _sealed(seal: str | Path | None, key: str | Path | None) -> tuple[Seal | None, str | None]:
    if seal is None and key is not None:
        raise InvalidInput("public_key", "given with a seal", str(key))
    if seal is None:
        return None, None
    sealed = read_seal(Path(seal))
    return sealed, None if key is None else wrong_signature(sealed, read_bytes(key, KEY_LIMIT))


def _stored(content: Any, url: str | None, folder: Path | None) -> Stored | None:
    """Return what the store has of the run. A store that was named must have it; one in the folder may."""
    run_id = str(content.get("run_id", "")) if isinstance(content, dict) else ""
    if url is not None:
        with opened_store(url, reading=True) as store:
            return evidence(content, store)
    for file in sorted(folder.iterdir()) if folder else ():
        if file.suffix in (".db", ".sqlite", ".sqlite3") and holds_run(file, run_id):
            return _stored(content, f"sqlite:///{file}", None)
    return None


def holds_run(file: Path, run_id: str) -> bool:
    """Tell whether a file is a database of cereval with this run; it may be another's, so nothing is touched."""
    try:
        connection = sqlite3.connect(reading_uri(file), uri=True)
    except (sqlite3.Error, StoreError):
        return False
    try:
        tables = connection.execute(
            "select count(*) from sqlite_master where name in ('cereval_schema', 'runs')"
        )
        if tables.fetchone()[0] != 2:
            return False
        return connection.execute("select 1 from runs where run_id = ?", (run_id,)).fetchone() is not None
    except sqlite3.Error:
        return False
    finally:
        connection.close()
