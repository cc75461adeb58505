"""`cereval tasks`: many tasks in one session, each with a certificate, and one for their macro mean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.compare import ASKING, asked, refuse_asking
from cereval.cli.output import (
    FAILED,
    PASSED,
    UNDECIDED,
    interval,
    percent,
    plus_minus,
    print_json,
    print_table,
)
from cereval.cli.run_options import OUTPUT, STORE, apply
from cereval.cli.written import CERTIFICATE, report_option

if TYPE_CHECKING:
    from cereval.goals.tasks import TasksGoal
    from cereval.sessions.tasks import TasksResult

ANSWERS = {"all-pass": "certified pass", "some-fail": "certified fail", None: "undecided"}


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
@click.option("--each-eps", type=float, metavar="EPS", help="And, or instead: every task within this.")
@click.option("--at-least", type=float, metavar="C", help="Instead: is every task's mean >= C?")
@click.option("--which-fail", type=float, metavar="C", help="Instead: which tasks' means are < C?")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="For everything at once.")
@click.option("--budget", "--max-calls", type=int, metavar="N", help="Ask at most N questions.")
@click.option("--seed", type=int, default=0, show_default=True)
@CERTIFICATE
@report_option("Write a page about the result.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@apply(ASKING, STORE, OUTPUT[1])
@click.pass_context
def tasks(context: click.Context, /, files: tuple[str, ...], data: tuple[str, ...], **flags: Any) -> int:
    """Evaluate one model on many tasks: the macro mean, every task, or a threshold for all of them.

    SCORES is a table of recorded scores (`item` and one column per model). With --items each category is a task;
    of several SCORES files each is one. Or DATA is a question file, as for `run`, and the model is asked: the
    categories (--by) of one file are the tasks, or each of several files is one. The options from --base-url on
    are those of `run`. A repeated command, or `cereval resume RUN`, goes on where it ended, and `cereval report RUN`
    writes the page.

    Draws go where they help the goal most, and what is learnt in one task helps to forecast the next. All intervals
    and decisions hold at once with the stated confidence.

    Exit codes: 0 goal reached or all pass, 1 could not run, 2 some task certainly fails, 3 undecided.
    """
    from cereval.errors import InvalidInput

    if bool(files) == bool(data):
        raise InvalidInput("SCORES or DATA", "given, as arguments or with --data", ", ".join(data) or None)
    goal = goal_of(*(flags[name] for name in ("eps", "each_eps", "at_least", "which_fail")))
    if data or asked(files[0], (flags["model"],)):
        from cereval.cli.tasks_live import tasks_live

        return tasks_live(data or files, goal, flags)
    refuse_asking(context, flags)
    return _recorded(files, goal, flags)


def _recorded(scores: tuple[str, ...], goal: TasksGoal, flags: dict[str, Any]) -> int:
    from cereval.certificate.base import Entry
    from cereval.certificate.tasks import issue_tasks
    from cereval.cli.task_tables import read_task_table
    from cereval.known import Known
    from cereval.sessions.tasks import TaskSession

    table = read_task_table(scores, flags["model"], flags["items"], flags["by"], flags["history"])
    settings = {name: flags[name] for name in ("confidence", "budget", "seed")}
    session = TaskSession(table.groups, goal=goal, history=table.history, **settings)
    log = []
    while not session.done:
        for draw in session.ask(1):
            score = float(table.scores[draw.item])
            session.tell(draw, score)
            log.append(Entry(draw.item, draw.probability, score))
    about = {"model": flags["model"], "data": [Path(name).name for name in scores], "items": table.digest}
    certificate = issue_tasks(session, Known(session.engine.groups, table.history), log, about)
    _write(flags["certificate"], flags["report"], certificate)
    result = session.result()
    truth = table.truth(result)
    if flags["as_json"]:
        print_json({**result.as_dict(), "model": flags["model"], **goal.spec(), **truth})
    else:
        inside = "inside" if truth["truth_inside"] else "NOT all inside"
        true = ("truth", f"macro {truth['truth']:.2%}; it and all tasks are {inside} their intervals")
        print_for_people(result, goal, flags["model"], [true, ("stopped", result.stopped)])
    return exit_code(result)


def exit_code(result: TasksResult) -> int:
    """0 goal reached or all pass, 2 some task fails, 3 undecided."""
    if result.decision == "some-fail":
        return FAILED
    return PASSED if result.stopped == "goal" else UNDECIDED


def goal_of(eps: float | None, each: float | None, at_least: float | None, which: float | None) -> TasksGoal:
    """The goal that the flags ask for."""
    from cereval.errors import InvalidInput
    from cereval.goals.tasks import AllAtLeast, EachWithin, Macro, WhichFail

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


def _write(certificate: str | None, report: str | None, content: dict[str, Any]) -> None:
    if certificate is not None:
        from cereval.cli.running import write_certificate

        write_certificate(Path(certificate), content)
    if report is not None:
        from cereval.cli.report import write_page
        from cereval.report.tasks import render_tasks

        write_page(Path(report), render_tasks(content))


def print_for_people(result: TasksResult, goal: TasksGoal, model: str, facts: list[tuple[str, str]]) -> None:
    """A headline, a row for every task, and a small table that ends with `facts` and the notes."""
    click.echo(_headline(result, goal))
    verdict = goal.aims.threshold is not None
    rows = [
        [name, f"{task.n:,} of {task.n_items:,}", f"{task.estimate:.1%}", interval(task.lower, task.upper)]
        + ([task.verdict or "undecided"] if verdict else [])
        for name, task in result.tasks.items()
    ]
    header = ["task", "asked", "estimate", "interval", *(["verdict"] if verdict else [])]
    print_table(rows, header, numbers=(1, 2, 3))
    first = [
        ("model", model),
        ("macro mean", interval(result.macro.lower, result.macro.upper)),
        ("guarantee", f"{result.guarantee}, all rows at once"),
    ]
    print_table([*first, *facts, *(("note", note) for note in result.notes)])


def _headline(result: TasksResult, goal: TasksGoal) -> str:
    from cereval.goals.tasks import WhichFail

    count, threshold = len(result.tasks), goal.aims.threshold
    answer = f"macro mean of {'1 task' if count == 1 else f'{count} tasks'} {plus_minus(result.macro)}"
    if threshold is not None:
        named = f": {', '.join(result.failing)}" if result.failing else ""
        if isinstance(goal, WhichFail):
            below = ", ".join(result.failing) or "none"
            so_far = "" if result.stopped == "goal" else ", so far"
            answer = f"below {percent(threshold)}{so_far}: {below}"
        else:
            answer = f"all {count} tasks at least {percent(threshold)}: {ANSWERS[result.decision]}{named}"
    asked = f"{result.n_evaluated:,} of {result.n_items:,} questions asked"
    return f"{answer}, {percent(result.confidence)} confidence, {asked} ({result.saved:.1%} saved)"
