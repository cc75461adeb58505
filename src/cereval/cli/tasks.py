"""Evaluate many tasks at once, each with a certificate, and one for their macro mean: `cereval tasks`."""

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
from cereval.settings import TasksOptions


@click.command()
@click.argument("files", nargs=-1, metavar="[DATA|SCORES]...")
@click.option(
    "--data", multiple=True, metavar="DATA", help="A question file, the same as DATA; may be repeated."
)
@apply(ASKING)
@take(TasksOptions)
@apply(ITEMS, CONFIG, DRY_RUN, SEAL, OUTPUT)
@click.pass_context
def tasks(context: click.Context, /, files: tuple[str, ...], data: tuple[str, ...], **flags: Any) -> int:
    """Evaluate one candidate on many tasks: the macro mean, every task, or a threshold for all of them.

    DATA is a question file or a task file, as for `run`, and the candidate is asked: the categories (--by) of one file
    are the tasks, or each of several files is one. Or SCORES is a table of recorded scores (`item` and one column per
    model): with --items each category is a task; of several SCORES files each is one. There nobody
    is asked and all scores are used. A repeated command, or
    `cereval resume RUN`, goes on where it ended.

    Draws go where they help the goal most, and what is learnt in one task helps to forecast the next. All intervals
    and decisions hold at once with the stated confidence.

    Exit codes: 0 goal reached or all pass, 1 could not run, 2 some task certainly fails, 3 undecided.
    """
    from cereval.cli.asking import ask_candidates
    from cereval.cli.recorded import recorded_tasks, use_recorded
    from cereval.errors import InvalidInput

    if files and data:
        raise InvalidInput("DATA", "given as arguments or with --data, and not both", ", ".join(data))
    if not files and not data and flags["config"] is None:
        raise InvalidInput("DATA or SCORES", "given", None)
    if files and recorded_tasks(files, flags):
        if len(files) > 1 and (flags["items"] is not None or flags["by"] is not None):
            raise InvalidInput("--items", "left out where each of several files is a task", flags["items"])
        return use_recorded("tasks", files, context, flags, 1)
    if flags["items"] is not None:
        raise InvalidInput("--items", "left out where models are asked", flags["items"])
    sources = data or files
    for name in ("by", "category"):
        if flags[name] is not None and len(sources) > 1:
            raise InvalidInput(f"--{name}", "left out where each of several files is a task", flags[name])
    if flags["by"] is not None and flags["category"] is not None:
        raise InvalidInput("--category", "left out where --by names the task", flags["category"])
    return ask_candidates("tasks", sources, flags)
