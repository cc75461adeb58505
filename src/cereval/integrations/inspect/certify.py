"""`certify(task, ...)`: the same task, whose samples are drawn by a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any
from uuid import uuid4

from inspect_ai import Task, task_with
from inspect_ai.dataset import MemoryDataset
from inspect_ai.scorer import SampleScore, Score

from cereval.errors import InvalidInput, Misuse
from cereval.integrations.inspect.host import (
    SCORER_METRICS,
    HeadlineMetric,
    registry_info,
    registry_unqualified_name,
    scorer_metrics,
    unique_scorer_name,
)
from cereval.integrations.inspect.logs import read_history
from cereval.integrations.inspect.scores import (
    LIVE,
    MEAN,
    NAME,
    certified_metric,
    gives_mean,
    no_mean,
    several,
)
from cereval.integrations.inspect.source import CertifiedSource, SamplePool
from cereval.integrations.logs.inspect_ai import number_in
from cereval.integrations.question import Wish

SPREADS = {"stderr", "std", "var", "bootstrap_stderr", "bootstrap_std"}
"""Metrics that say how sure another one is."""

MADE_UP: Sequence[Sequence[Sequence[Any]]] = (
    ((1, 0, 1, 1, 0, 1, 0, 0), (1.0, 0.2, 0.75, 0.4, 0.0, 0.9, 0.35, 0.5)),
    (("C", "I", "C", "P", "I", "C", "N", "C"), ("I", "I", "C", "N", "I", "P", "I", "C")),
)
"""Scores on which a metric is tried, numbers or grades: a mean gives their mean, of both lists of a kind."""


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
    target: str | None = None,
) -> Task:
    """Change a task in place, as `task_with` does, so that its samples are drawn and its score certified.

    Solver, scorer, sandbox, limits and metrics stay the task's own. eps, at_least, confidence: as for `cereval run`.
    seed: None draws one. history: a folder of Inspect logs, or several: what other models scored on the same samples
    helps to choose. by: a field of the samples' metadata that names their tasks; then eps is that of the macro mean,
    each that of every task, at_least a threshold for all, which_fail asks for those below it. scorer: which of several.
    value: which part of a score that has several. metric: which of the scorer's metrics, if it is a mean of its scores;
    `mean` certifies the mean score whatever the metrics are. target: expected, for models that answer anew every time:
    samples are run again, each draw in as many epochs as the run has (the default with several epochs, or at a
    temperature above 0); or benchmark: what is certified holds of these very answers.

    One Task object evaluates one model: call this once for each.
    """
    if task.sample_source is not None:
        raise Misuse("this task draws its own samples (a SampleSource, or certified already)")
    wish = Wish(eps, at_least, confidence, seed, None, by is not None, each, which_fail)
    judge, name = _choose_scorer(task, scorer)
    metrics = scorer_metrics(judge) if task.metrics is None else task.metrics
    pool = SamplePool.of(task.dataset, by)
    shown = check_measure(name, metrics, value, metric, [one.metadata for one in pool.samples[:20]])
    past = None if history is None else read_history(history, pool.contents, name, value)
    if target not in (None, "benchmark", "expected"):
        raise InvalidInput("target", "benchmark or expected", target)
    source = CertifiedSource(task, pool, wish, name, value, past, shown, target)
    key = uuid4().hex[:12]
    LIVE[key] = source
    _show_interval(task, judge, metrics, key, is_unequal=by is not None or bool(past and past.logs))
    noted = {**(task.metadata or {}), **source.noted(key)}
    described = task.dataset
    task_with(task, dataset=source, name=task.name, metadata=noted)
    task.dataset = MemoryDataset([], name=described.name, location=described.location)
    return task


def _choose_scorer(task: Task, wanted: str | None) -> tuple[Any, str]:
    if not task.scorer:
        raise Misuse(f"task {task.name} has no scorer: there is no mean to certify")
    named: dict[str, Any] = {}
    for one in task.scorer:
        named[unique_scorer_name(one, list(named))] = one
    name = next(iter(named)) if wanted is None else wanted
    if name not in named:
        raise InvalidInput("scorer", "one of " + ", ".join(named), wanted)
    return named[name], name


def _show_interval(task: Task, judge: Any, metrics: Any, key: str, *, is_unequal: bool) -> None:
    """Add the certified interval to the metrics, as the headline.

    The live run takes the scorer's metrics, `inspect score` those of the task: it goes to both. Where draws are unequal
    the task's own metrics would be plain means over them, and wrong: they are left out.
    """
    own = [] if is_unequal else metrics if isinstance(metrics, list) else [metrics]
    shown = [certified_metric(key), *own]
    registry_info(judge).metadata[SCORER_METRICS] = shown
    if len(task.scorer or ()) == 1:
        task.metrics = shown
    task_with(task, headline_metric=HeadlineMetric(metric=NAME))


# -- is it the mean of one number? ---------------------------------------------------------------------------------


def check_measure(
    scorer: str, metrics: Any, value: str | None, metric: str | None, about: Sequence[Any]
) -> Any | None:
    """Refuse to certify what is not the figure that the task itself reports; return the metric that reports it.

    about: the metadata of some samples. None: no metric reports it.
    """
    parts = dict(_declared_parts(metrics))
    if parts and value is None:
        raise several(scorer, parts)
    of_part = [one for name, own in parts.items() if fnmatchcase(value or "", name) for one in own]
    if parts and not of_part:
        raise InvalidInput("value", f"a score of {scorer}: {', '.join(parts)}", value)
    if value is not None and not parts:
        return None  # its metrics, whatever they are, are about all parts together
    own = {registry_unqualified_name(one): one for one in (of_part if parts else metrics)}
    named = [name for name in own if name not in SPREADS]
    if metric is not None and metric not in (MEAN, *named):
        raise InvalidInput("metric", "one of " + ", ".join(dict.fromkeys([*named, MEAN])), metric)
    wanted = metric or next(iter(named), None)
    if wanted in own and not is_mean(own[wanted], about):
        raise no_mean(scorer, own[wanted])
    return own.get(wanted) if wanted is not None else None


def _declared_parts(metrics: Any) -> Iterator[tuple[str, list[Any]]]:
    """List the parts for which a scorer declares metrics: its scores have parts, and are no number."""
    for one in [metrics] if isinstance(metrics, Mapping) else metrics:
        if isinstance(one, Mapping):
            yield from ((str(name), list(own)) for name, own in one.items())


def is_mean(metric: Any, about: Sequence[Any]) -> bool:
    """Tell whether a metric, or one of several numbers that it gives, is the mean of the scores; it costs nothing."""
    return any(all(_gives_mean(metric, scores, about) for scores in kind) for kind in MADE_UP)


def _gives_mean(metric: Any, scores: Sequence[Any], about: Sequence[Any]) -> bool:
    made_up = [
        SampleScore(
            score=Score(value=score),
            sample_id=str(number),
            sample_metadata=about[number % len(about)] if about else None,
        )
        for number, score in enumerate(scores)
    ]
    mean = sum(number_in(score) or 0.0 for score in scores) / len(scores)
    try:
        return gives_mean(metric, made_up, mean)
    except Exception:
        return False  # it needs what only a real run has
