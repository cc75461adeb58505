"""Say what Inspect finds through the entry-point group `inspect_ai`: the task and the metric `cereval/certified`.

Inspect imports this in every one of its processes: the hook is registered only once a task is certified.
"""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai._eval.loader import load_tasks  # there is no public loader of a task's spec
from inspect_ai._util.error import PrerequisiteError
from inspect_ai._util.registry import registry_params

from cereval.errors import CerevalError, InvalidInput, Misuse
from cereval.integrations.inspect.certify import certify
from cereval.integrations.inspect.metric import certified_metric
from cereval.text import did_you_mean

__all__ = ["certified", "certified_metric"]


PREFIX = "cereval_"
OPTIONS = tuple(name for name in signature(certify).parameters if name != "task")


@task
def certified(task: str | None = None, eps: float | None = None, **arguments: Any) -> Task:
    """Certify any task, unedited: `inspect eval cereval/certified -T task=FILE.py@NAME -T eps=0.02 --model ...`.

    The arguments of `cereval.integrations.inspect.certify` begin with `cereval_` here; all others are the task's own.
    `task` and `eps` are short for `cereval_task` and `cereval_eps`; with `cereval_task` they are the task's own too.
    """
    short = {"task": task, "eps": eps}
    ours = {name: arguments.pop(name) for name in list(arguments) if name.startswith(PREFIX)}
    ours = {name.removeprefix(PREFIX): value for name, value in ours.items()}
    given = {name: value for name, value in short.items() if value is not None}
    try:
        if "task" in ours:
            arguments |= given
        else:
            ours = {**given, **ours}
        return certify(_loaded(ours.pop("task", None), arguments), **_checked(ours))
    except CerevalError as error:
        raise PrerequisiteError(str(error)) from None


def _checked(ours: dict[str, Any]) -> dict[str, Any]:
    for name, value in ours.items():
        if name not in OPTIONS:
            raise Misuse(f"-T {PREFIX}{name}={value}: no such option; {did_you_mean(name, OPTIONS)}")
    if ours.get("history") is not None:
        ours["history"] = placed(ours["history"])
    return ours


def _loaded(spec: str | None, arguments: dict[str, Any]) -> Task:
    """Load the task of a spec; an argument that it does not take could be meant for us."""
    if spec is None:
        raise InvalidInput("task", "given: -T task=FILE.py@NAME", None)
    inner = load_tasks([found(spec)], arguments)
    if len(inner) != 1:
        raise InvalidInput("task", "one task (FILE.py@NAME)", f"{len(inner)} in {spec}")
    unused = sorted(set(arguments) - set(registry_params(inner[0])))
    if unused:
        ours = [f"-T {PREFIX}{name}=" for name in unused if name in OPTIONS]
        hint = f"; cereval's own are written {', '.join(ours)}" if ours else ""
        raise Misuse(f"{spec} has no argument {', '.join(unused)}{hint}")
    return inner[0]


def found(spec: str) -> str:
    """Find the file of a task's spec in this folder or those above it: `eval-retry` works in the folder of the file."""
    file, at, name = spec.partition("@")
    return f"{placed(file)}{at}{name}"


def placed(path: str) -> str:
    """Return the path, from the nearest folder above in which it exists; else as it is (a registered task, an
    URL)."""
    here = Path.cwd()
    return next((str(base / path) for base in (here, *here.parents) if (base / path).exists()), path)
