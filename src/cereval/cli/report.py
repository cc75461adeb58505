"""Write one self-contained HTML page about a run, from the store alone: `cereval report`."""

from __future__ import annotations

from pathlib import Path

import click

from cereval.cli.options import JSON, STORE, writable


@click.command()
@click.argument("run", metavar="RUN")
@STORE
@click.option(
    "-o", "--output", callback=writable, metavar="FILE", help="Write the page here.  [default: RUN.html]"
)
@JSON
def report(run: str, store: str | None, output: str | None, as_json: bool) -> int:
    """Write a page about RUN (an id, or its beginning): the answer, what it rests on, how to verify it.

    The page needs no network, runs no script, and reads well on a phone and in print.
    """
    from cereval.cli.output import print_json
    from cereval.plan import as_file_name
    from cereval.report import page_of, write_page
    from cereval.store.base import opened_store

    with opened_store(store) as opened:
        page = page_of(opened, run)
    path = Path(output or f"{as_file_name(page.run_id)}.html")
    write_page(path, page.html)
    if as_json:
        print_json({**page.result, "run_id": page.run_id, "report": str(path)})
    else:
        click.echo(f"wrote {path}")
    return 0
