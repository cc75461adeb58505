"""`certify(task, ...)`: the same task, whose samples are drawn by a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from inspect_ai import Task, task_with
from inspect_ai._util.registry import registry_info
from inspect_ai.dataset import MemoryDataset
from inspect_ai.log import HeadlineMetric
from inspect_ai.scorer._scorer import SCORER_METRICS, scorer_metrics, unique_scorer_name

from cereval.errors import InvalidInput, Misuse
from cereval.integrations.inspect.history import recorded
from cereval.integrations.inspect.measures import check_measure
from cereval.integrations.inspect.metric import LIVE, NAME, certified_metric
from cereval.integrations.inspect.pool import pool_of
from cereval.integrations.inspect.source import CertifiedSource
from cereval.integrations.question import Wish


def certify(
    task: Task,
    *,
    eps: float | None = None,
    at_least: float | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    history: str | Sequence[str] | None = None,
    by: str | None = None,
    each: float | None = None,
    which_fail: float | None = None,
    scorer: str | None = None,
    value: str | None = None,
    metric: str | None = None,
) -> Task:
    """Change a task in place, as `task_with` does, so that its samples are drawn and its score certified.

    Solver, scorer, sandbox, limits and metrics stay the task's own. eps, at_least, confidence: as for `cereval run`.
    seed: None draws one. history: a folder of Inspect logs, or several: what other models scored on the same samples
    helps to choose. by: a field of the samples' metadata that names their tasks; then eps is that of the macro mean,
    each that of every task, at_least a threshold for all, which_fail asks for those below it. scorer: which of several.
    value: which part of a score that has several. metric: which of the scorer's metrics, if it is a mean of its scores;
    `mean` certifies the mean score whatever the metrics are.

    One Task object evaluates one model: call this once for each.
    """
    if task.sample_source is not None:
        raise Misuse("this task draws its own samples (a SampleSource, or certified already)")
    wish = Wish(eps, at_least, confidence, seed, None, by is not None, each, which_fail)
    judge, name = _scorer(task, scorer)
    pool = pool_of(task.dataset, by)
    metrics = scorer_metrics(judge) if task.metrics is None else task.metrics
    check_measure(name, metrics, value, metric, [one.metadata for one in pool.samples[:20]])
    past = recorded(history, pool.contents, name, value) if history is not None else None
    source = CertifiedSource(task, pool, wish, name, value, past)
    key = uuid4().hex[:12]
    LIVE[key] = source
    from cereval.integrations.inspect import hook  # noqa: F401  Inspect's banner counts the hooks of every process

    _measure(task, judge, metrics, key, unequal=by is not None or (past is not None and bool(past.logs)))
    noted = {**(task.metadata or {}), **source.noted(key)}
    described = task.dataset
    task_with(task, dataset=source, name=task.name, metadata=noted)
    task.dataset = MemoryDataset([], name=described.name, location=described.location)
    return task


def _scorer(task: Task, wanted: str | None) -> tuple[Any, str]:
    """Return the scorer whose mean is certified, and its name in the log."""
    if not task.scorer:
        raise Misuse(f"task {task.name} has no scorer: there is no mean to certify")
    named: dict[str, Any] = {}
    for one in task.scorer:
        named[unique_scorer_name(one, list(named))] = one
    name = next(iter(named)) if wanted is None else wanted
    if name not in named:
        raise InvalidInput("scorer", "one of " + ", ".join(named), wanted)
    return named[name], name


def _measure(task: Task, judge: Any, have: Any, key: str, *, unequal: bool) -> None:
    """Add the certified interval to the metrics, as the headline.

    The live run takes the scorer's metrics, `inspect score` those of the task: it goes to both. Where draws are unequal
    the task's own metrics would be plain means over them, and wrong: they are left out.
    """
    own = [] if unequal else have if isinstance(have, list) else [have]
    metrics = [certified_metric(key), *own]
    registry_info(judge).metadata[SCORER_METRICS] = metrics
    if len(task.scorer or ()) == 1:
        task.metrics = metrics
    task_with(task, headline_metric=HeadlineMetric(metric=NAME))
