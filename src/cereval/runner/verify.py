"""Verify a certificate beside the store that has its run, and the seal that fixed its plan."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cereval.certificate.seal import Seal
from cereval.certificate.verify import Stored, Verdict, refused_at_sight, verify
from cereval.errors import InvalidInput, StoreError
from cereval.questions import kind_of
from cereval.runner.sealing import read_seal, wrongly_signed
from cereval.runner.start import evidence
from cereval.store.base import opened_store
from cereval.store.database import reading_uri


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
    """Return the newest certificate of a run in a store."""
    with opened_store(url, reading=True) as store:
        run = store.run(run_id)
        found = store.certificates(run.run_id)
    if not found and not kind_of(run.plan).format:
        raise StoreError(f"run {run.run_id} is a part of another run, which has the certificate")
    if not found:
        raise StoreError(f"run {run.run_id} has no certificate yet: it is {run.status}")
    return found[-1]


def _sealed(seal: str | Path | None, key: str | Path | None) -> tuple[Seal | None, str | None]:
    """Read the seal; say what is wrong with its signature, where that is asked for."""
    if seal is None and key is not None:
        raise InvalidInput("public_key", "given with a seal", str(key))
    if seal is None:
        return None, None
    sealed = read_seal(Path(seal))
    return sealed, None if key is None else wrongly_signed(sealed, Path(key))


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
