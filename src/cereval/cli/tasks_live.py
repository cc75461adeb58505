"""`cereval tasks` with a model that is asked: one run in the store, with a certificate of every task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cereval.cli.compared_live import TASK_FLAGS
from cereval.cli.output import print_json
from cereval.cli.tasks import exit_code, print_for_people
from cereval.errors import InvalidInput
from cereval.goals.tasks import TasksGoal, tasks_goal_from_spec
from cereval.sessions.tasks import TasksResult

if TYPE_CHECKING:
    from cereval.cli.preparing import Prepared
    from cereval.cli.task import Task
    from cereval.plan import Plan
    from cereval.runner.run import Outcome
    from cereval.store.base import Store


def tasks_live(files: Sequence[str], goal: TasksGoal, flags: Mapping[str, Any]) -> int:
    """Asks where it helps most, through the store: a repeated command goes on where it ended."""
    from cereval.cli.running import Showing, carry_out, opened_store
    from cereval.cli.task import task_from
    from cereval.runner.start import planned

    given = {name: flags[name] for name in TASK_FLAGS} | {"category": _field(files, flags)}
    given |= {"model": flags["model"], "max_calls": flags["budget"]}
    task = task_from(files[0], None, given)
    work = _divided(task, files, goal, flags["by"])
    store = opened_store(task.store)
    try:
        plan = planned(work.plan, work.items, store, history="none" not in flags["history"])
        code = carry_out(work, plan, store, Showing(flags["display"], flags["certificate"], flags["as_json"]))
        if flags["report"] is not None:
            _write_page(flags["report"], store, plan.run_id)
        return code
    finally:
        store.close()


def _divided(task: Task, files: Sequence[str], goal: TasksGoal, by: str | None) -> Prepared:
    """Complaints about the field of the tasks name the flag that was typed."""
    from cereval.cli.preparing import divided

    try:
        return divided(task, files, goal)
    except InvalidInput as error:
        if by is None or error.field != "--category":
            raise
        raise InvalidInput("--by", error.allowed, error.received) from None


def _field(files: Sequence[str], flags: Mapping[str, Any]) -> str | None:
    """The field that names the task; flags that only recorded scores have are refused."""
    if flags["items"] is not None:
        raise InvalidInput("--items", "left out where the model is asked", flags["items"])
    if set(flags["history"]) - {"store", "none"}:
        wanted = "`store` (the default) or `none` where the model is asked"
        raise InvalidInput("--history", wanted, flags["history"][0])
    by: str | None = flags["by"]
    category: str | None = flags["category"]
    if by is not None and len(files) > 1:
        raise InvalidInput("--by", "left out where each of several files is a task", by)
    if by is not None and category is not None:
        raise InvalidInput("--category", "left out where --by names the task", category)
    return category if by is None else by


def _write_page(path: str, store: Store, run_id: str) -> None:
    from cereval.cli.report import write_page
    from cereval.report.tasks import render_tasks

    write_page(Path(path), render_tasks(store.certificates(run_id)[-1]))


def show_tasks(outcome: Outcome, path: Path, plan: Plan, store: Store, *, as_json: bool) -> int:
    """The answer of a run with many tasks; returns the exit code."""
    from cereval.cli.running import run_facts, run_rows, suggest_resuming

    result, goal = outcome.result, tasks_goal_from_spec(plan.goal)
    assert isinstance(result, TasksResult)
    if as_json:
        named = {"model": plan.model_name, **goal.spec()}
        print_json({**result.as_dict(), **named, **run_facts(outcome, path)})
    else:
        print_for_people(result, goal, plan.model_name, run_rows(outcome, path))
        suggest_resuming(outcome, store)
    return exit_code(result)
