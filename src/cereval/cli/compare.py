"""Compare two candidates on the same items: `cereval compare`."""

from __future__ import annotations

from typing import Any

import click

from cereval.cli.options import (
    ASKING,
    CONFIG,
    DRY_RUN,
    ITEMS,
    OUTPUT,
    SEAL,
    apply,
    take,
)
from cereval.settings import CompareOptions


@click.command()
@click.argument("data", required=False, metavar="DATA|SCORES|RUN")
@click.argument("names", nargs=-1, metavar="[NAME NAME|RUN]")
@apply(ASKING)
@take(CompareOptions, several=True)
@apply(ITEMS, CONFIG, DRY_RUN, SEAL, OUTPUT)
@click.pass_context
def compare(context: click.Context, /, data: str | None, names: tuple[str, ...], **flags: Any) -> int:
    """Compare two candidates on the same items, from as few of them as a certified answer takes.

    DATA is a question file or a task file, as for `run`, and the two are asked. A candidate is a model with its prompt
    and settings: an option that is given once is for both, given twice the first is the first candidate's and the
    second the second's (`--model m --system @a.txt --system @b.txt`). Or both are NAMEs of --candidates. Or SCORES is a
    table of recorded scores (`item` and one column per model), or two logs of other tools; two RUNs are compared on
    the questions that both answered. There nobody is asked and all answers are used. A repeated command, or
    `cereval resume RUN`, goes on where it ended.

    The answer is `first`, `second`, or `no-difference` larger than --tie: whichever is certain first. It holds,
    together with the interval of the difference, with the stated confidence whenever you stop.

    Exit codes: 0 decided or goal reached, 1 could not run, 2 certified worse (--not-worse), 3 undecided.
    """
    from cereval.cli.asking import ask_candidates
    from cereval.cli.recorded import are_runs, recorded_sources, use_recorded, use_runs
    from cereval.errors import InvalidInput

    if data is not None and are_runs(data, names):
        return use_runs("compare", (data, *names), flags, 2)
    if sources := recorded_sources(data, names, flags):
        return use_recorded("compare", sources, context, flags, 2)
    if flags["items"] is not None:
        raise InvalidInput("--items", "left out where models are asked", flags["items"])
    return ask_candidates("compare", () if data is None else (data,), flags, names=names, candidates=2)
