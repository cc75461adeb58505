"""Evaluate many tasks in one session, each with a certificate, and one for their macro mean: `cereval tasks`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.options import (
    CERTIFICATE,
    JSON,
    LIVE,
    MAX_CALLS,
    REPORT,
    SEAL,
    SEED,
    apply,
    are_asked,
    asking_flags,
    refuse_asking,
    refuse_recorded,
)

if TYPE_CHECKING:
    from cereval.questions.tasks.goal import TasksGoal
    from cereval.runner.prepare import Prepared
    from cereval.runner.request import Request


@click.command()
@click.argument("files", nargs=-1, metavar="[SCORES|DATA]...")
@click.option(
    "--data", multiple=True, metavar="DATA", help="A question file, the same as DATA; may be repeated."
)
@click.option(
    "--model",
    required=True,
    metavar="COLUMN|NAME",
    help="The column of SCORES to evaluate, or the model to ask, such as openai/NAME.",
)
@click.option("--items", metavar="ITEMS", help="Parquet, csv or jsonl with `item` and the column of --by.")
@click.option(
    "--by",
    metavar="COLUMN",
    help="The column of ITEMS, or the field of DATA, that names the task.  [default: category]",
)
@click.option(
    "--history",
    multiple=True,
    metavar="others|COLUMNS|FILE|store|none",
    help="Scores of past models: all other columns, some of them, or another scores file. May be repeated. "
    "Where the model is asked: `store` (the default) or `none`.",
)
@click.option("--eps", type=float, help="Stop when the macro mean is known within this.  [default: 0.02]")
@click.option(
    "--each-eps",
    type=float,
    metavar="EPS",
    help="Also, or instead: stop when every task's mean is known within this.",
)
@click.option(
    "--at-least", type=float, metavar="C", help="Instead: is every task's mean >= C? In CI with --fresh."
)
@click.option("--which-fail", type=float, metavar="C", help="Instead: which tasks' means are < C?")
@click.option(
    "--confidence",
    type=float,
    help="Probability with which everything holds at once, at least.  [default: 0.95]",
)
@apply(MAX_CALLS, SEED, CERTIFICATE, REPORT, JSON, LIVE, SEAL)
@click.pass_context
def tasks(context: click.Context, /, files: tuple[str, ...], data: tuple[str, ...], **flags: Any) -> int:
    """Evaluate one model on many tasks: the macro mean, every task, or a threshold for all of them.

    SCORES is a table of recorded scores (`item` and one column per model). With --items each category is a task;
    of several SCORES files each is one. Or DATA is a question file, as for `run`, and the model is asked: the
    categories (--by) of one file are the tasks, or each of several files is one. The options from --base-url on
    are those of `run`. A repeated command, or `cereval resume RUN`, goes on where it ended.

    Draws go where they help the goal most, and what is learnt in one task helps to forecast the next. All intervals
    and decisions hold at once with the stated confidence.

    Exit codes: 0 goal reached or all pass, 1 could not run, 2 some task certainly fails, 3 undecided.
    """
    from cereval.errors import InvalidInput

    if bool(files) == bool(data):
        raise InvalidInput("SCORES or DATA", "given, as arguments or with --data", ", ".join(data) or None)
    goal = goal_of(*(flags[name] for name in ("eps", "each_eps", "at_least", "which_fail")))
    if data or are_asked(files[0], (flags["model"],)):
        return _live(data or files, goal, flags)
    refuse_asking(context, flags)
    return _recorded(files, goal, flags)


def goal_of(eps: float | None, each: float | None, at_least: float | None, which: float | None) -> TasksGoal:
    """Return the goal that the flags ask for."""
    from cereval.errors import InvalidInput
    from cereval.questions.tasks.goal import AllAtLeast, EachWithin, Macro, WhichFail

    if at_least is not None and which is not None:
        raise InvalidInput("--which-fail", "left out when --at-least is given", which)
    if (at_least is not None or which is not None) and (eps is not None or each is not None):
        raise InvalidInput("--eps and --each-eps", "left out when a threshold is given", eps or each)
    if at_least is not None:
        return AllAtLeast(at_least)
    if which is not None:
        return WhichFail(which)
    if eps is None and each is not None:
        return EachWithin(each)
    return Macro(each=each) if eps is None else Macro(eps, each)


def _live(files: Sequence[str], goal: TasksGoal, flags: dict[str, Any]) -> int:
    from cereval.cli.running import run_live
    from cereval.runner.request import request_from

    refuse_recorded(flags, "items")
    given = {**asking_flags(flags, "model"), "category": _field(files, flags)}
    request = request_from(files[0], None, given)
    work = _divided(request, files, goal, flags["by"])
    return run_live(work, request, flags, history="none" not in flags["history"])


def _divided(request: Request, files: Sequence[str], goal: TasksGoal, by: str | None) -> Prepared:
    """Prepare the run; complaints about the field of the tasks name the flag that was typed."""
    from cereval.errors import InvalidInput
    from cereval.runner.prepare import divided

    try:
        return divided(request, files, goal)
    except InvalidInput as error:
        if by is None or error.field != "--category":
            raise
        raise InvalidInput("--by", error.allowed, error.received) from None


def _field(files: Sequence[str], flags: Mapping[str, Any]) -> str | None:
    """Return the field that names the task."""
    from cereval.errors import InvalidInput

    by: str | None = flags["by"]
    category: str | None = flags["category"]
    if by is not None and len(files) > 1:
        raise InvalidInput("--by", "left out where each of several files is a task", by)
    if by is not None and category is not None:
        raise InvalidInput("--category", "left out where --by names the task", category)
    return category if by is None else by


def _recorded(scores: tuple[str, ...], goal: TasksGoal, flags: dict[str, Any]) -> int:
    from cereval.cli.recorded import read_task_table
    from cereval.cli.running import Watch, finish_recorded
    from cereval.plan import Known
    from cereval.questions.replay import drive
    from cereval.questions.tasks.session import TaskSession

    reading = flags["model"], flags["items"], flags["by"], flags["history"], flags["store"]
    table = read_task_table(scores, *reading)
    session = TaskSession(
        table.groups,
        goal=goal,
        history=table.history,
        confidence=0.95 if flags["confidence"] is None else flags["confidence"],
        budget=flags["max_calls"],
        seed=flags["seed"],
        models=(flags["model"],),
    )
    watch = Watch(session)
    truth = table.truth(drive(session, table.scores, watch=watch))
    inside = "inside" if truth["truth_inside"] else "NOT all inside"
    about = {"model": flags["model"], "data": [Path(name).name for name in scores], "items": table.digest}
    return finish_recorded(
        "tasks",
        session,
        Known(None, table.history),
        flags,
        about=about,
        extra={"model": flags["model"], **goal.spec(), **truth},
        rows=[("truth", f"macro {truth['truth']:.2%}; it and all tasks are {inside} their intervals")],
        steps=watch.steps,
    )
