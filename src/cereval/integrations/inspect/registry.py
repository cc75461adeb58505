"""Name what Inspect finds through the entry-point group `inspect_ai`: the task and the metric `cereval/certified`.

Inspect imports this in every one of its processes, also where nothing is certified: all else is imported when used.
"""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

from inspect_ai import Task, task

from cereval.errors import CerevalError, InvalidInput, Misuse
from cereval.integrations.inspect.scores import certified_metric
from cereval.text import did_you_mean

__all__ = ["certified", "certified_metric"]

PREFIX = "cereval_"


@task
def certified(task: str | None = None, eps: float | None = None, **arguments: Any) -> Task:
    """Certify any task, unedited: `inspect eval cereval/certified -T task=FILE.py@NAME -T eps=0.02 --model ...`.

    The arguments of `cereval.integrations.inspect.certify` begin with `cereval_` here; all others are the task's own.
    `task` and `eps` are short for `cereval_task` and `cereval_eps`; with `cereval_task` they are the task's own too.
    """
    from cereval.integrations.inspect.certify import certify
    from cereval.integrations.inspect.host import PrerequisiteError

    ours = {name: arguments.pop(name) for name in list(arguments) if name.startswith(PREFIX)}
    ours = {name.removeprefix(PREFIX): value for name, value in ours.items()}
    short = {name: value for name, value in (("task", task), ("eps", eps)) if value is not None}
    if "task" in ours:
        arguments |= short
    else:
        ours = {**short, **ours}
    options = signature(certify).parameters
    try:
        for name, value in ours.items():
            if name not in options:
                raise Misuse(f"-T {PREFIX}{name}={value}: no such option; {did_you_mean(name, options)}")
        inner = _load_task(ours.pop("task", None), arguments, options)
        if ours.get("history") is not None:
            ours["history"] = find_path(ours["history"])
        return certify(inner, **ours)
    except CerevalError as error:
        raise PrerequisiteError(str(error)) from None


def _load_task(spec: str | None, arguments: dict[str, Any], options: Any) -> Task:
    """Load the task of a spec; refuse an argument that it does not take, which may have been meant for us."""
    from cereval.integrations.inspect.host import load_tasks, registry_params

    if spec is None:
        raise InvalidInput("task", "given: -T task=FILE.py@NAME", None)
    # `eval-retry` works in the folder of the file.
    file, at, name = spec.partition("@")
    found = load_tasks([f"{find_path(file)}{at}{name}"], arguments)
    if len(found) != 1:
        raise InvalidInput("task", "one task (FILE.py@NAME)", f"{len(found)} in {spec}")
    unused = sorted(set(arguments) - set(registry_params(found[0])))
    if unused:
        ours = [f"-T {PREFIX}{name}=" for name in unused if name in options]
        hint = f"; cereval's own are written {', '.join(ours)}" if ours else ""
        raise Misuse(f"{spec} has no argument {', '.join(unused)}{hint}")
    return found[0]


def find_path(path: str) -> str:
    """Return the path in the nearest folder above in which it exists; else as it is (a registered task, an URL)."""
    here = Path.cwd()
    return next((str(base / path) for base in (here, *here.parents) if (base / path).exists()), path)
