"""Turn logs of other evaluation tools into one table of scores: `cereval import`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cereval.cli.options import FIELDS, JSON, apply, output_flag, writable
from cereval.cli.output import print_json
from cereval.datasets.items import Fields
from cereval.datasets.read import read_dataset
from cereval.errors import InvalidInput
from cereval.integrations import logs
from cereval.text import printable


@click.command(name="import")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@output_flag("Where the scores go: .parquet or .csv, `item` and one column per model.", required=True)
@click.option(
    "--items-output",
    callback=writable,
    metavar="FILE",
    help="Write `item`, `text` and `category` (the task) too, for `cereval replay --items`.",
)
@click.option(
    "--metric",
    metavar="NAME",
    help="Which score, as the tool calls it: SCORER or SCORER.PART of Inspect, METRIC or METRIC,FILTER of lm-eval.  "
    "[default: the first]",
)
@click.option("--task", "tasks", multiple=True, metavar="NAME", help="Only this task; may be repeated.")
@click.option(
    "--data",
    metavar="FILE",
    help="Keep only the items of this question file, under its ids, so that they fit your own runs.",
)
@apply(FIELDS)
@JSON
def import_logs(
    files: tuple[str, ...],
    output: str,
    items_output: str | None,
    metric: str | None,
    tasks: tuple[str, ...],
    data: str | None,
    as_json: bool,
    **fields: Any,
) -> int:
    """Turn logs of other tools into a table of scores for `replay`, `rank`, `compare` and `--history`.

    FILES are logs, or folders of them: Inspect (.eval, .json), lm-eval (samples_*.jsonl), HELM (a run's folder),
    promptfoo (.json, .jsonl), lighteval (details_*.parquet), AlpacaEval (annotations.json). None of the tools need be
    installed.

    Items are matched by their text and choices, never by their place: the same question from two tools is one row.
    What failed is missing, not wrong. Files that cannot be used are named on stderr, one line each, and left out.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    if data is None and given:
        raise InvalidInput(f"--{next(iter(given))}", "given with --data", next(iter(given.values())))
    for path in filter(None, (output, items_output)):
        if Path(path).suffix.lower() not in logs.FORMATS:
            raise InvalidInput("-o", "a file that ends in " + " or ".join(logs.FORMATS), path)
    known = None if data is None else read_dataset(data, Fields(**fields)).items
    found = logs.import_logs(files, metric=metric, tasks=tasks, items=known)
    logs.write_scores(Path(output), found)
    if items_output is not None:
        logs.write_items(Path(items_output), found)
    for line in found.skipped:
        click.echo("skipped: " + printable(" ".join(line.split())), err=True)
    models = list(found.scores.models)
    if as_json:
        about = {"items": len(found.scores.items), "models": models, "output": output}
        print_json({**about, "notes": list(found.notes), "skipped": list(found.skipped)})
        return 0
    for note in found.notes:
        click.echo(printable(note))
    click.echo(f"wrote {len(found.scores.items):,} items, {len(models):,} models to {output}")
    return 0
