"""Follow a data set that grows, version after version, with all certificates valid at once: `cereval extend`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from cereval.cli.options import ASKING, ITEMS, OUTPUT, SEAL, apply, names_a_run, take
from cereval.errors import InvalidInput
from cereval.settings import AgainOptions, ExtendOptions, FieldOptions

ELSEWHERE = ("trust", "store", "certificate", "report", "as_json", "display", "name", "tags", "data")


@click.command()
@click.argument("source", required=False, metavar="[DATA|RUN|SCORES]")
@click.option(
    "--data",
    metavar="DATA",
    help="A question file for the candidate to be asked: the first version, or with RUN the items that are new.",
)
@apply(ASKING)
@take(ExtendOptions)
@apply(ITEMS, SEAL, OUTPUT)
@click.pass_context
def extend(context: click.Context, /, source: str | None, data: str | None, **flags: Any) -> int:
    """Evaluate a candidate on data that grow: what each version takes, and what is proven of it.

    Earlier certificates stay valid, and all versions hold at once with the stated confidence. Only new items are
    asked; what was learnt before is kept.

    DATA is a question file, as for `run`, and the candidate is asked: each version is a run in the store. `cereval
    extend RUN --data DATA` adds the items of DATA that RUN does not have, as a new run, with the candidate and the goal
    of RUN. A repeated command, or `cereval resume RUN`, goes on where it ended.

    SCORES is a table of recorded scores, whose column --model answers; then DATA of the later versions is one too
    (`replay extend`: what would all versions have taken?).

    New items may be chosen by somebody who knows every result but not the seed: do not show them a certificate, a
    page, the store, or a seed that was printed.

    Exit codes: 0 goal reached, 1 could not run, 3 the last version is not certified within eps.
    """
    from cereval.cli.asking import ask_candidates
    from cereval.cli.recorded import recorded_sources, use_recorded

    if source is None and data is None:
        raise InvalidInput("DATA or SCORES", "given", None)
    if data is None and names_a_run(str(source)):
        raise InvalidInput("--data", "given with RUN: a question file with the items that are new", None)
    file = data or str(source)
    if Path(file).suffix in (".yaml", ".yml"):
        raise InvalidInput("DATA", "questions (jsonl, csv, parquet, hf:org/name), not a task file", file)
    if data is not None and source is not None:
        return _add_version(source, data, context, flags)
    if sources := recorded_sources(file, (), flags):
        return use_recorded("growing", sources, context, flags, 1)
    if flags["items"] is not None:
        raise InvalidInput("--items", "left out where models are asked", flags["items"])
    return ask_candidates("growing", (file,), flags)


def _add_version(run_id: str, data: str, context: click.Context, flags: Mapping[str, Any]) -> int:
    """Ask what is new in a file, with the candidate, the scorer and the goal of the version before."""
    from cereval.cli.asking import finish
    from cereval.cli.recorded import read_recorded
    from cereval.models.scripted import RECORDED
    from cereval.runner.recall import extend_run, new_items
    from cereval.store.base import opened_store

    _refuse_settings(context, flags)
    # Lock the version before: two extensions at once would share draws, and what one shows foretells the other.
    with opened_store(flags["store"]) as store, store.hold(store.run(run_id).run_id):
        given = {
            name: one[0] if isinstance(one, tuple) and one else one or None for name, one in flags.items()
        }
        model = str(store.run(run_id).plan["candidates"][0]["model"])
        columns = [model.removeprefix(RECORDED)] if model.startswith(RECORDED) else []
        recorded = read_recorded((data,), columns, flags).data if columns else None
        added, overrides = new_items(data, given, recorded)
        work = extend_run(run_id, store, added, overrides, trust=bool(flags["trust"]))
        labels = [*flags["name"], *(flags["tags"] or ())]
        return finish(work, work.plan, store, flags, labels=labels)


def _refuse_settings(context: click.Context, flags: Mapping[str, Any]) -> None:
    """Refuse flags that decide answers and bets: they are the same in all versions."""
    changeable = (*AgainOptions.__annotations__, *FieldOptions.__annotations__, *ELSEWHERE)
    for parameter in context.command.params:
        name = str(parameter.name)
        if name not in changeable and flags.get(name) not in (None, (), False):
            wanted = "left out for a new version of RUN, which has it"
            raise InvalidInput(parameter.opts[-1], wanted, flags[name])
