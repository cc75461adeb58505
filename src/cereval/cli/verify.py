"""Recompute a certificate, and say whether it holds: `cereval verify`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.options import JSON, STORE, names_a_run
from cereval.text import printable

if TYPE_CHECKING:
    from cereval.certificate.seal import Seal
    from cereval.certificate.verify import Stored, Verdict

VALID, COULD_NOT_CHECK, INVALID = 0, 1, 2
LONGEST = 4000
HOSTED = ".eval"
"""How the name of a log of Inspect ends."""


@click.command()
@click.argument("certificate")
@STORE
@click.option("--seal", metavar="FILE", help="Check that the run followed what `cereval seal` fixed before.")
@click.option(
    "--public-key",
    metavar="FILE",
    help="With --seal: check its signature with this Ed25519 key; needs cereval[sign].",
)
@JSON
def verify(
    certificate: str, store: str | None, seal: str | None, public_key: str | None, as_json: bool
) -> int:
    """Check CERTIFICATE, a file or a run's id: hashes, draws, every field, and the interval by an independent
    computation.

    Of a run in the store, such as those of a fleet, the newest certificate is checked.

    The log in the store is compared too: in --store, or in a database beside the certificate. A certificate of
    another engine (the rules that decide draws and intervals) is checked as far as possible.

    CERTIFICATE may be a log of Inspect that holds one (LOG.eval): then every sample of the log is compared too.

    With --seal every choice that was made after the seal is named: seed, history, goal, data, model, prompt, scorer,
    budget.

    Exit codes: 0 valid, 1 could not check all of it, 2 invalid, no certificate at all, or another plan than sealed.
    """
    from cereval.certificate.verify import Verdict, refused_at_sight
    from cereval.certificate.verify import verify as check
    from cereval.errors import BadContent
    from cereval.files import read_json
    from cereval.store.base import DEFAULT_URL

    path = Path(certificate)
    try:
        if names_a_run(certificate):
            store = store or DEFAULT_URL
            content = _in_the_store(certificate, store)
        else:
            content = _in_a_log(path) if path.suffix == HOSTED else read_json(path)
    except BadContent as error:
        return _printed(Verdict("invalid", (f"this is no certificate of cereval: {error}",)), as_json)
    refused = refused_at_sight(content)
    if refused is not None:
        return _printed(refused, as_json)
    sealed, unsigned = _sealed(seal, public_key)
    stored = _stored(content, Path(certificate), store)
    verdict = check(content, stored, explain=True, seal=sealed)
    if path.suffix == HOSTED and verdict.status != "invalid":
        verdict = _beside_samples(path, content, verdict)
    if unsigned is not None and verdict.status != "invalid":
        verdict = Verdict("departed", (unsigned, *verdict.reasons), verdict.checked)
    return _printed(verdict, as_json)


def _in_the_store(run_id: str, url: str) -> Any:
    """Take the newest certificate of a run out of the store."""
    from cereval.errors import StoreError
    from cereval.questions import kind_of
    from cereval.store.base import opened_store

    with opened_store(url, reading=True) as store:
        run = store.run(run_id)
        found = store.certificates(run.run_id)
    if not found and not kind_of(run.plan).format:
        raise StoreError(f"run {run.run_id} is a part of another run, which has the certificate")
    if not found:
        raise StoreError(f"run {run.run_id} has no certificate yet: it is {run.status}")
    return found[-1]


def _in_a_log(path: Path) -> Any:
    """Take the certificate out of a log of Inspect."""
    from cereval.integrations.inspect import certificate_of

    return certificate_of(path)


def _beside_samples(path: Path, content: Any, verdict: Verdict) -> Verdict:
    """Compare the samples of a log of Inspect with its certificate."""
    from dataclasses import replace

    from cereval.integrations.inspect.logs import departures_of

    differ = departures_of(path, content)
    if differ:
        more = f" ({len(differ)} draws in all)" if len(differ) > 1 else ""
        return replace(verdict, status="invalid", reasons=(differ[0] + more, *verdict.reasons))
    return replace(verdict, checked=(*verdict.checked, "every sample of the log"))


def _sealed(seal: str | None, key: str | None) -> tuple[Seal | None, str | None]:
    """Read the seal; say what is wrong with its signature, where that is asked for."""
    from cereval.errors import InvalidInput
    from cereval.runner.sealing import read_seal, wrongly_signed

    if seal is None and key is not None:
        raise InvalidInput("--public-key", "given with --seal", key)
    if seal is None:
        return None, None
    sealed = read_seal(Path(seal))
    return sealed, None if key is None else wrongly_signed(sealed, Path(key))


def _stored(content: Any, path: Path, url: str | None) -> Stored | None:
    """Return what the store has of the run. A store that was named must have it; one that lies beside may."""
    from cereval.runner.start import evidence
    from cereval.store.base import opened_store

    run_id = str(content.get("run_id", "")) if isinstance(content, dict) else ""
    if url is not None:
        with opened_store(url, reading=True) as store:
            return evidence(content, store)
    for file in sorted(path.absolute().parent.iterdir()):
        if file.suffix in (".db", ".sqlite", ".sqlite3") and holds_run(file, run_id):
            return _stored(content, path, f"sqlite:///{file}")
    return None


def holds_run(file: Path, run_id: str) -> bool:
    """Tell whether a file is a database of cereval with this run; it may be another's, so nothing is touched."""
    import sqlite3

    from cereval.errors import StoreError
    from cereval.store.database import reading_uri

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


def _printed(verdict: Verdict, as_json: bool) -> int:
    if as_json:
        # What departs from its seal is not valid, whatever it is worth by itself; `status` says which it was.
        short = "invalid" if verdict.status == "departed" else verdict.status
        facts = {"verdict": short, "status": verdict.status, "valid": verdict.valid}
        click.echo(json.dumps({**facts, "reasons": verdict.reasons, "checked": verdict.checked}))
    else:
        said = "; ".join(verdict.reasons or verdict.checked)
        said = f"this is not what was sealed: {said}" if verdict.status == "departed" else said
        # What a certificate says is somebody's text: it must not reach the terminal raw.
        click.echo(printable(f"{verdict.status}: {said}", LONGEST))
    return (
        VALID if verdict.valid else INVALID if verdict.status in ("invalid", "departed") else COULD_NOT_CHECK
    )
