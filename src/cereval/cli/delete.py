"""Remove a run and its answers: `cereval delete`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cereval.cli.options import JSON, STORE

if TYPE_CHECKING:
    from cereval.store.base import Store


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@STORE
@click.option("--yes", is_flag=True, help="Remove without asking for confirmation.")
@JSON
def delete(runs: tuple[str, ...], store: str | None, yes: bool, as_json: bool) -> int:
    """Remove RUN (an id, or its beginning) with its parts, draws, answers and certificates, for good.

    A run that others depend on (their history, the version before, the comparison it is part of) is not removed.
    """
    from cereval.cli.output import print_json
    from cereval.errors import Misuse
    from cereval.store.base import opened_store

    with opened_store(store) as opened:
        found = list(dict.fromkeys(one for run in runs for one in _with_parts(opened, run)))
        needed = _needed_by(opened, found)
        if needed:
            raise Misuse(f"run {needed[0]} rests on what would be deleted; delete it first, or with it")
        if not (yes or as_json) and not click.confirm(f"delete {', '.join(found)} for good?"):
            return 1
        opened.delete(found)
    if as_json:
        print_json({"deleted": found})
    else:
        click.echo(f"deleted {', '.join(found)}")
    return 0


def _with_parts(store: Store, run: str) -> Sequence[str]:
    """Return a run and those of its parts that no other run has."""
    from cereval.plan import Plan
    from cereval.questions import kind_of
    from cereval.runner.finding import run_ids

    found = store.run(run)
    own = set(run_ids(Plan.from_dict(found.plan)))
    for run_id, values in store.plans():
        if run_id != found.run_id and kind_of(values).parts(Plan.from_dict(values))[0].run_id != run_id:
            own -= set(run_ids(Plan.from_dict(values)))
    return [found.run_id, *sorted(own - {found.run_id})]


def _needed_by(store: Store, run_ids: Sequence[str]) -> list[str]:
    """Return the other runs whose history, earlier version or parts are among these."""
    from cereval.plan import Plan
    from cereval.questions import kind_of

    gone = set(run_ids)
    found = []
    for run_id, values in store.plans():
        kind, plan = kind_of(values), Plan.from_dict(values)
        rests_on = {*plan.history, kind.before(values), *(part.run_id for part in kind.parts(plan))}
        if run_id not in gone and rests_on & gone:
            found.append(run_id)
    return found
