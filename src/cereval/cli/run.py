"""Carry questions and a model's address to a certificate: `cereval run` and `cereval gate`."""

from __future__ import annotations

from typing import Any

import click

from cereval.cli.options import ASKING, CONFIG, DRY_RUN, ITEMS, OUTPUT, SEAL, apply, take
from cereval.settings import GateOptions, RunOptions


@click.command()
@click.argument("data", required=False)
@click.argument("names", nargs=-1, metavar="[NAME]")
@apply(ASKING)
@take(RunOptions)
@apply(ITEMS, CONFIG, DRY_RUN, SEAL, OUTPUT)
@click.pass_context
def run(context: click.Context, /, data: str | None, names: tuple[str, ...], **flags: Any) -> int:
    """Evaluate a model on DATA with as few calls as a certified answer takes.

    DATA may also be recorded scores: a table (`item` and one column per model, named with --model) or a log of another
    tool. Then nobody is asked, and all of them are used (`replay`: what would it have cost?).

    DATA is a JSONL, CSV or Parquet file, hf:org/name[:config][@split], or a task file (YAML) with the same
    settings as the flags. NAME is a candidate of --candidates. Repeating a command goes on where it ended: no answer is
    paid for twice.

    Exit codes: 0 goal reached or certified pass, 1 could not run, 2 certified fail, 3 undecided.
    """
    from cereval.cli.asking import ask_candidates
    from cereval.cli.recorded import recorded_sources, use_recorded

    if sources := recorded_sources(data, names, flags):
        return use_recorded("estimate", sources, context, flags, 1)
    return ask_candidates("estimate", () if data is None else (data,), flags, names=names)


@click.command()
@click.argument("data", required=False)
@click.argument("names", nargs=-1, metavar="[NAME]")
@apply(ASKING)
@take(GateOptions)
@apply(ITEMS, CONFIG, DRY_RUN, SEAL, OUTPUT)
@click.pass_context
def gate(context: click.Context, /, data: str | None, names: tuple[str, ...], **flags: Any) -> int:
    """Let a model pass only if its mean score on DATA is certainly at least C; takes the flags of `run`.

    A gate tests what is served now: it asks again, unless --reuse or --max-age says which answers may be kept.

    Exit codes: 0 certified pass, 1 could not run, 2 certified fail, 3 undecided (the budget is spent).
    """
    from cereval.cli.asking import ask_candidates
    from cereval.cli.recorded import recorded_sources, use_recorded
    from cereval.errors import InvalidInput

    if (
        flags["min"] is flags["each_at_least"] is None
        and flags["config"] is None
        and not str(data).endswith((".yaml", ".yml"))
    ):
        raise InvalidInput("--min", "given: the mean score to reach", None)
    if sources := recorded_sources(data, names, flags):
        return use_recorded("estimate", sources, context, flags, 1)
    fresh = (flags["max_age"] is None or None) if flags["fresh"] is None else flags["fresh"]
    return ask_candidates("estimate", () if data is None else (data,), {**flags, "fresh": fresh}, names=names)
