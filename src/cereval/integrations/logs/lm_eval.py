"""Read lm-evaluation-harness: `samples_TASK_DATE.jsonl`, written by `--log_samples`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cereval.errors import BadFile
from cereval.files import is_file
from cereval.integrations.logs.base import (
    Content,
    Log,
    Sample,
    Tool,
    as_score,
    choose,
    digest,
    loose_json,
    loose_lines,
    question_in,
)

PREFERRED = ("acc", "exact_match", "em", "f1")
NAME = re.compile(r"samples_(?P<task>.+?)_(?P<date>\d{4}-\d\d-\d\dT[\d\-.]+)\.jsonl")


def _claims(content: Content) -> bool:
    return content.is_file(".jsonl") and {"doc_id", "doc", "arguments"} <= set(content.first)


def _read(content: Content, wanted: str | None) -> Log:
    path, (name, _, kept) = content.path, (wanted or "").partition(",")
    rows = list(loose_lines(path))
    filters = list(dict.fromkeys(str(row.get("filter", "none")) for row in rows))
    # One row for each filter: all of them would count an answer several times.
    kept = choose(filters, kept or None, f"{path}, `filter`")
    rows = [row for row in rows if str(row.get("filter", "none")) == kept]
    metrics = tuple(dict.fromkeys(str(one) for row in rows for one in row.get("metrics") or ()))
    metric = choose(metrics, name or None, path, PREFERRED)
    results, task = _results(path)
    config = results.get("config")
    model = results.get("model_name") or (config.get("model") if isinstance(config, dict) else None)
    model = model or path.resolve().parent.name
    samples = [_sample(row, model, task, as_score(row.get(metric), path, metric)) for row in rows]
    others = sorted(set(filters) - {kept})
    notes = [f"the filter {kept!r} was read, not {', '.join(map(repr, others))}"] if others else []
    if _is_better_low(results, task, metric):
        notes.append(f"lower is better for {metric}: ranks and comparisons would take the worst for the best")
    return Log("lm-eval", metric, samples, tuple(notes), metrics)


def _sample(row: Mapping[str, Any], model: object, task: str, score: float | None) -> Sample:
    doc = row.get("doc")
    text, choices = (question_in(doc) if isinstance(doc, dict) else None) or (_prompt(row), ())
    # `doc_id` is a place among the documents and depends on how many were asked for.
    return Sample(str(model), task, text, score, choices, row.get("doc_hash") or digest(doc), doc or {})


def _prompt(row: Mapping[str, Any]) -> str:
    """Return the prompt as it was sent, where the document's fields have names of their own."""
    arguments = row.get("arguments")
    first: Any = next(iter(arguments.values()), {}) if isinstance(arguments, dict) else {}
    return str(first.get("arg_0", "") if isinstance(first, dict) else first)


def _results(path: Path) -> tuple[Mapping[str, Any], str]:
    """Read the results beside the samples, as far as there are any, and name the task."""
    found = NAME.fullmatch(path.name)
    if found is None:
        return {}, path.stem.removeprefix("samples_")
    beside = path.with_name(f"results_{found['date']}.json")
    try:
        results = loose_json(beside) if is_file(beside) else {}
    except BadFile:
        results = {}
    return results if isinstance(results, dict) else {}, found["task"]


def _is_better_low(results: Mapping[str, Any], task: str, metric: str) -> bool:
    higher = results.get("higher_is_better")
    of_task = higher.get(task) if isinstance(higher, dict) else None
    return isinstance(of_task, dict) and of_task.get(metric) is False


TOOL = Tool("lm-eval", _claims, _read)
