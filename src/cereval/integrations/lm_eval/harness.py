"""`certifying`: within it, the harness's own evaluation certifies; its tables and files show the intervals."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lm_eval import evaluator

from cereval.errors import InvalidInput
from cereval.integrations.lm_eval.documents import Documents
from cereval.integrations.lm_eval.model import Certification, CertifiedLM
from cereval.integrations.question import figures
from cereval.questions.tasks.session import TasksResult
from cereval.text import printable

Heard = Callable[[list[Certification]], None]


@contextmanager
def certifying(heard: Heard | None = None, **asking: Any) -> Iterator[None]:
    """Have `lm_eval.simple_evaluate`, and the command line above it, certify as `CertifiedLM` does.

    heard: called with what was certified before the harness prints its tables. asking: the keywords of `CertifiedLM`.
    """
    plain = evaluator.evaluate

    def evaluate(lm: Any, task_dict: Any, **options: Any) -> Any:
        for name in ("limit", "samples"):
            if options.get(name) is not None:
                raise InvalidInput(
                    f"--{name}", "left out: it takes the first documents; use --budget", options[name]
                )
        wrapped = CertifiedLM(lm, task_dict, **asking)
        results = plain(wrapped, task_dict, **options)
        if results is not None:
            write_into(results, wrapped.certifications)
        (heard or told)(wrapped.certifications)
        return results

    evaluator.evaluate = evaluate
    try:
        yield
    finally:
        evaluator.evaluate = plain


def told(certifications: list[Certification]) -> None:
    """Say what was certified, one line each, on stderr."""
    for one in certifications:
        print(printable(f"{one.name}: {one.question.result.headline()}"), file=sys.stderr)


def write_into(results: Any, certifications: list[Certification]) -> None:
    """Add intervals to the harness's tables and certificates to its file of results."""
    results["cereval"] = {}
    for one in certifications:
        results["cereval"][one.name] = {
            "headline": one.question.result.headline(),
            "certificate": one.question.certificate(),
        }
        for task in one.tasks:
            results["n-samples"][task.name]["effective"] = len(task.asked)
        if len(one.tasks) > 1:
            _group(results, one)
        else:
            _row(results["results"][one.tasks[0].name], one.tasks[0], figures(one.question.result))


def _group(results: Any, one: Certification) -> None:
    """Replace the figures of a group, which the harness weighs by the documents that were asked, with the certified."""
    first, result = one.tasks[0], one.question.result
    for table in ("results", "groups"):
        if one.name in results.get(table, {}):
            row = results[table][one.name]
            for key in [key for key in row if "," in key]:
                del row[key]
            _row(row, first, figures(result))
    if isinstance(result, TasksResult):
        for task in one.tasks:
            mean = result.tasks[task.name]
            numbers = {
                "certified": mean.estimate,
                "certified_lower": mean.lower,
                "certified_upper": mean.upper,
            }
            _row(results["results"][task.name], task, numbers)


def _row(row: dict[str, Any], task: Documents, numbers: dict[str, float]) -> None:
    for name in ("certified", "certified_lower", "certified_upper"):
        row[f"{task.metric}_{name},{task.filter}"] = numbers[name]
