"""`cereval report`: one self-contained HTML page about a run, from the store alone."""

from __future__ import annotations

from pathlib import Path

import click

from cereval.cli.run_options import STORE


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
    from cereval.report.comparison import render_pair_run
    from cereval.report.page import render
    from cereval.report.story import read_story

    opened = existing_store(store)
    try:
        story = read_story(opened, run)
    finally:
        opened.close()
    path = Path(output or f"{story.run.run_id}.html")
    write_page(path, render_pair_run(story) if "second" in story.plan.model else render(story))
    if as_json:
        print_json({**story.result.as_dict(), "run_id": story.run.run_id, "report": str(path)})
    else:
        click.echo(f"wrote {path}")
    return 0


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
