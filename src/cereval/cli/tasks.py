"""Evaluate many tasks at once, each with a certificate, and one for their macro mean: `cereval tasks`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
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
    are_asked,
    refuse_asking,
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
    model): with --items each category is a task; of several SCORES files each is one. A repeated command, or
    `cereval resume RUN`, goes on where it ended.

    Draws go where they help the goal most, and what is learnt in one task helps to forecast the next. All intervals
    and decisions hold at once with the stated confidence.

    Exit codes: 0 goal reached or all pass, 1 could not run, 2 some task certainly fails, 3 undecided.
    """
    from cereval.cli.asking import ask_candidates
    from cereval.errors import InvalidInput

    if files and data:
        raise InvalidInput("DATA", "given as arguments or with --data, and not both", ", ".join(data))
    if not files and not data and flags["config"] is None:
        raise InvalidInput("DATA or SCORES", "given", None)
    by_name = len(flags["models"]) != 1 or not files
    if data or by_name or flags["candidates_file"] or are_asked(files[0], flags["models"]):
        if flags["items"] is not None:
            raise InvalidInput("--items", "left out where models are asked", flags["items"])
        sources = data or files
        for name in ("by", "category"):
            if flags[name] is not None and len(sources) > 1:
                raise InvalidInput(f"--{name}", "left out where each of several files is a task", flags[name])
        if flags["by"] is not None and flags["category"] is not None:
            raise InvalidInput("--category", "left out where --by names the task", flags["category"])
        return ask_candidates("tasks", sources, flags)
    refuse_asking(context, flags)
    return _tasks_recorded(files, flags)


def _tasks_recorded(scores: Sequence[str], flags: dict[str, Any]) -> int:
    from cereval.cli.options import given_options
    from cereval.cli.recorded import Watch, finish_recorded, read_task_table
    from cereval.plan import Known
    from cereval.questions.replay import drive
    from cereval.questions.tasks.session import TaskSession
    from cereval.settings import goal_of

    options, model = given_options(flags, TasksOptions), flags["models"][0]
    goal = goal_of("tasks", options)
    history = options.get("history", ())
    table = read_task_table(scores, model, flags["items"], flags["by"], history, flags["store"])
    session = TaskSession(
        table.groups,
        goal=goal,
        history=table.history,
        confidence=options.get("confidence", 0.95),
        budget=flags["max_calls"],
        seed=flags["seed"],
        models=(model,),
    )
    watch = Watch(session)
    truth = table.truth(drive(session, table.scores, watch=watch))
    inside = "inside" if truth["truth_inside"] else "NOT all inside"
    about = {"model": model, "data": [Path(name).name for name in scores], "items": table.digest}
    return finish_recorded(
        "tasks",
        session,
        Known(None, table.history),
        flags,
        about=about,
        extra={"model": model, **goal.spec(), **truth},
        rows=[("truth", f"macro {truth['truth']:.2%}; it and all tasks are {inside} their intervals")],
        steps=watch.steps,
    )
