"""Recompute a certificate, and say whether it holds: `cereval verify`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from cereval.certificate.verify import Verdict
from cereval.cli.options import JSON, STORE, names_a_run
from cereval.errors import BadContent
from cereval.files import read_json
from cereval.runner.sealing import newest_certificate, verify_certificate
from cereval.store.base import DEFAULT_URL
from cereval.text import printable

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
    """Check CERTIFICATE, a file or a run's id or name: hashes, draws, every field, and the interval by an independent
    computation.

    Of a run in the store, such as those of a fleet, the newest certificate is checked.

    The log in the store is compared too: in --store, or in a database beside the certificate. A certificate of
    another engine (the rules that decide draws and intervals) is checked as far as possible.

    CERTIFICATE may be a log of Inspect that holds one (LOG.eval): then every sample of the log is compared too.

    With --seal every choice that was made after the seal is named: seed, history, goal, data, model, prompt, scorer,
    budget.

    Exit codes: 0 valid, 1 could not check all of it, 2 invalid, no certificate at all, or another plan than sealed.
    """
    path = Path(certificate)
    try:
        if names_a_run(certificate) or (certificate == path.name and not path.suffix and not path.exists()):
            store = store or DEFAULT_URL
            content = newest_certificate(certificate, store)
        else:
            content = _in_a_log(path) if path.suffix == HOSTED else read_json(path)
    except BadContent as error:
        return _printed(Verdict("invalid", (f"this is no certificate of cereval: {error}",)), as_json)
    verdict = verify_certificate(content, store, seal, public_key, folder=path.absolute().parent)
    if path.suffix == HOSTED and verdict.status != "invalid":
        verdict = _beside_samples(path, content, verdict)
    return _printed(verdict, as_json)


def _in_a_log(path: Path) -> Any:
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
