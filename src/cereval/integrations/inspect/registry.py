"""Say what Inspect finds through the entry-point group `inspect_ai`: the task and the metric `cereval/certified`.

Inspect imports this in every one of its processes: the hook is registered only once a task is certified.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai._eval.loader import load_tasks  # there is no public loader of a task's spec
from inspect_ai._util.error import PrerequisiteError

from cereval.errors import CerevalError
from cereval.integrations.inspect.certify import certify
from cereval.integrations.inspect.metric import certified_metric

__all__ = ["certified", "certified_metric"]


@task
def certified(
    task: str,
    eps: float | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    at_least: float | None = None,
    history: str | None = None,
    by: str | None = None,
    each: float | None = None,
    which_fail: float | None = None,
    scorer: str | None = None,
    value: str | None = None,
    **task_args: Any,
) -> Task:
    """Certify any task, unedited: `inspect eval cereval/certified -T task=FILE.py@NAME -T eps=0.02 --model ...`.

    Other -T arguments are the task's own. See `cereval.integrations.inspect.certify` for those above.
    """
    try:
        inner = load_tasks([found(task)], task_args)
        if len(inner) != 1:
            raise PrerequisiteError(f"task must be one task (FILE.py@NAME), got {len(inner)} in {task!r}")
        return certify(
            inner[0],
            eps=eps,
            confidence=confidence,
            seed=seed,
            at_least=at_least,
            history=history if history is None else placed(history),
            by=by,
            each=each,
            which_fail=which_fail,
            scorer=scorer,
            value=value,
        )
    except CerevalError as error:
        raise PrerequisiteError(str(error)) from None


def found(spec: str) -> str:
    """Find the file of a task's spec in this folder or those above it: `eval-retry` works in the folder of the file."""
    file, at, name = spec.partition("@")
    return f"{placed(file)}{at}{name}"


def placed(path: str) -> str:
    """Return the path, from the nearest folder above in which it exists; else as it is (a registered task, an
    URL)."""
    here = Path.cwd()
    return next((str(base / path) for base in (here, *here.parents) if (base / path).exists()), path)
