"""`cereval report`: one self-contained HTML page about a run, from the store alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.run_options import STORE

if TYPE_CHECKING:
    from cereval.store.base import Run, Store


@click.command()
@click.argument("run", metavar="RUN")
@STORE
@click.option("-o", "--output", metavar="FILE", help="Where the page goes.  [default: RUN.html]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def report(run: str, store: str | None, output: str | None, as_json: bool) -> int:
    """Write a page about RUN (an id, or its beginning): the answer, what it rests on, how to verify it.

    The page needs no network, runs no script, and reads well on a phone and in print.
    """
    from cereval.cli.output import print_json
    from cereval.cli.stores import existing_store

    opened = existing_store(store)
    try:
        found = opened.run(run)
        certified = found.plan.get("tasks") or found.plan.get("growth")
        result, page = _certified_page(opened, found) if certified else _page(opened, found)
    finally:
        opened.close()
    path = Path(output or f"{found.run_id}.html")
    write_page(path, page)
    if as_json:
        print_json({**result, "run_id": found.run_id, "report": str(path)})
    else:
        click.echo(f"wrote {path}")
    return 0


def _page(store: Store, run: Run) -> tuple[Mapping[str, Any], str]:
    """The fields of the result, and the page."""
    from cereval.report.comparison import render_pair_run
    from cereval.report.page import render
    from cereval.report.story import read_story

    story = read_story(store, run.run_id)
    page = render_pair_run(story) if "second" in story.plan.model else render(story)
    return story.result.as_dict(), page


def _certified_page(store: Store, run: Run) -> tuple[Mapping[str, Any], str]:
    """The same for runs whose page tells their certificate."""
    from cereval.plan import Plan
    from cereval.report.growing import render_growing
    from cereval.report.story import item_from
    from cereval.report.tasks import render_tasks
    from cereval.runner.certify import newest_certificate
    from cereval.runner.start import start

    plan = Plan.from_dict(run.plan)
    begun = start(plan, tuple(map(item_from, store.items(plan.data_hash))), store)
    certificate = newest_certificate(begun, store)
    return certificate["result"], (render_tasks if plan.tasks else render_growing)(certificate)


def write_page(path: Path, page: str) -> None:
    """Lone surrogates, which UTF-8 has no form for, cannot stop the page."""
    from cereval.errors import BadFile

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadFile(
            f"the page cannot be written to {path} ({error.strerror}); name another -o FILE"
        ) from None
