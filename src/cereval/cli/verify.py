"""`cereval verify`: recompute a certificate, and say whether it holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.run_options import STORE
from cereval.errors import BadFile, shown

if TYPE_CHECKING:
    from cereval.certificate.base import Verdict
    from cereval.certificate.stored import Stored
    from cereval.plan import Plan
    from cereval.records import Draw
    from cereval.store.base import Store

VALID, COULD_NOT_CHECK, INVALID = 0, 1, 2
OURS = "cereval-"


@click.command()
@click.argument("certificate")
@STORE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify(certificate: str, store: str | None, as_json: bool) -> int:
    """Check CERTIFICATE: hashes, draws, every field, and the interval by an independent computation.

    The log in the store is compared too: in --store, or in a database beside the certificate.

    Exit codes: 0 valid, 1 could not check, 2 invalid, or no certificate at all.
    """
    from cereval.certificate.kinds import checker

    content = read_certificate(Path(certificate))
    refused = _refused_at_sight(content)
    if refused is not None:
        return _printed(refused, as_json)
    stored = _stored(content, Path(certificate), store)
    return _printed(checker(content)(content, stored, explain=True), as_json)


def read_certificate(path: Path) -> Any:
    """The JSON in a file, each key once and every number finite; None when it is not that."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        return None
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number of a certificate")


def _refused_at_sight(content: Any) -> Verdict | None:
    """The verdict on what is no certificate, or one of a kind that only a later version knows."""
    from cereval import __version__
    from cereval.certificate.base import Verdict
    from cereval.certificate.kinds import CHECKERS

    if content is None:
        reason = "it is not JSON, or has a key twice or a number that is not finite"
        return Verdict("invalid", (f"this is no certificate of cereval: {reason}",))
    kind = content.get("format") if isinstance(content, dict) else None
    if isinstance(kind, str) and kind in CHECKERS:
        return None
    if isinstance(kind, str) and kind.startswith(OURS):
        advice = "check it with the version that made it"
        return Verdict(
            "unchecked", (f"cereval {__version__} does not know the format {shown(kind)}: {advice}",)
        )
    reason = "it names no format" if kind is None else f"its format is {shown(kind)}"
    return Verdict("invalid", (f"this is no certificate of cereval: {reason}",))


def _stored(content: Any, path: Path, url: str | None) -> Stored | None:
    """What the store has of the run. A store that was named must have it; one that lies beside may."""
    from cereval.cli.stores import existing_store

    run_id = str(content.get("run_id", "")) if isinstance(content, dict) else ""
    if url is not None:
        store = existing_store(url)
        try:
            return _evidence(store, run_id)
        finally:
            store.close()
    for file in sorted(path.absolute().parent.iterdir()):
        if file.suffix in (".db", ".sqlite", ".sqlite3") and holds_run(file, run_id):
            return _stored(content, path, f"sqlite:///{file}")
    return None


def holds_run(file: Path, run_id: str) -> bool:
    """Whether a file is a database of cereval with this run; it may be another's, so nothing is touched."""
    import sqlite3

    try:
        connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
    except sqlite3.Error:
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


def _evidence(store: Store, run_id: str) -> Stored:
    from cereval.certificate.stored import Stored
    from cereval.cli.preparing import item_from
    from cereval.datasets.base import content_hash
    from cereval.plan import Plan
    from cereval.runner.start import changes_of, known_items

    run = store.run(run_id)
    plan = Plan.from_dict(run.plan)
    items = tuple(item_from(row) for row in store.items(plan.data_hash))
    draws, results = _log(store, plan)
    return Stored(
        plan=run.plan,
        draws=draws,
        results=results,
        changes=tuple(change.as_dict() for change in changes_of(store, run.run_id)),
        known=known_items(plan, items, store),
        data_hash=content_hash(items),
    )


def _log(store: Store, plan: Plan) -> tuple[tuple[Draw, ...], dict[int, float | None]]:
    """Draws, and results by their place; of growing data, those of all versions so far."""
    if plan.growth:
        from cereval.runner.growth import consumed

        pairs = consumed(plan, store)
        return tuple(draw for draw, _ in pairs), dict(enumerate(score for _, score in pairs))
    answers = store.answers(plan.run_id, texts=False)
    return store.draws(plan.run_id), {answer.draw: answer.score for answer in answers}


def _printed(verdict: Verdict, as_json: bool) -> int:
    if as_json:
        facts = {"status": verdict.status, "valid": verdict.valid}
        click.echo(json.dumps({**facts, "reasons": verdict.reasons, "checked": verdict.checked}))
    else:
        click.echo(f"{verdict.status}: " + ("; ".join(verdict.reasons or verdict.checked)))
    return VALID if verdict.valid else INVALID if verdict.status == "invalid" else COULD_NOT_CHECK
