"""Read lm-evaluation-harness: `samples_TASK_DATE.jsonl`, written by `--log_samples`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cereval.errors import BadFile
from cereval.files import JSON_LIMIT, is_file
from cereval.integrations.logs.base import (
    Content,
    Log,
    Sample,
    Tool,
    as_score,
    chosen,
    digest,
    question_in,
    whole_text,
)
from cereval.integrations.logs.reading import loose_json, loose_lines

PREFERRED = ("acc", "exact_match", "em", "f1")
NAME = re.compile(r"samples_(?P<task>.+?)_(?P<date>\d{4}-\d\d-\d\dT[\d\-.]+)\.jsonl")


def _claims(content: Content) -> bool:
    return content.is_file(".jsonl") and {"doc_id", "doc", "arguments"} <= set(content.first)


def _read(content: Content, wanted: str | None) -> Log:
    rows, place = list(loose_lines(content.path)), str(content.path)
    name, _, kept = (wanted or "").partition(",")
    filters = [str(row.get("filter", "none")) for row in rows]
    # One row for each filter: all of them would count an answer several times.
    kept = chosen(filters, kept or None, f"{place}, `filter`")
    rows = [row for row, one in zip(rows, filters, strict=True) if one == kept]
    metric = chosen((str(one) for row in rows for one in _metrics(row)), name or None, place, PREFERRED)
    model, task = _about(content.path)
    samples = [_sample(row, model, task, as_score(row.get(metric), place, metric)) for row in rows]
    others = sorted(set(filters) - {kept})
    notes = (f"the filter {kept!r} was read, not {', '.join(map(repr, others))}",) if others else ()
    return Log("lm-eval", metric, samples, notes)


def _metrics(row: Mapping[str, Any]) -> Sequence[Any]:
    metrics = row.get("metrics")
    return metrics if isinstance(metrics, list) else ()


def _sample(row: Mapping[str, Any], model: str, task: str, score: float | None) -> Sample:
    doc = row.get("doc")
    found = question_in(doc) if isinstance(doc, dict) else None
    text, choices = found or (_prompt(row), ())
    # `doc_id` is a place among the documents and depends on how many were asked for.
    mark = row.get("doc_hash") or digest(doc)
    return Sample(model, task, whole_text(text), score, tuple(map(whole_text, choices)), whole_text(mark))


def _prompt(row: Mapping[str, Any]) -> str:
    """Return the prompt as it was sent, where the document's fields have names of their own."""
    arguments = row.get("arguments")
    first: Any = next(iter(arguments.values()), {}) if isinstance(arguments, dict) else {}
    return str(first.get("arg_0", "")) if isinstance(first, dict) else str(first)


def _about(path: Path) -> tuple[str, str]:
    """Name the model and the task: the first as the results beside the samples name it, else as the folder does."""
    found = NAME.fullmatch(path.name)
    if found is None:
        return path.resolve().parent.name, path.stem.removeprefix("samples_")
    beside = path.with_name(f"results_{found['date']}.json")
    try:
        results = loose_json(beside) if is_file(beside) and beside.stat().st_size <= JSON_LIMIT else {}
    except (BadFile, OSError):
        results = {}
    config = results.get("config") if isinstance(results, dict) else None
    name = results.get("model_name") or (config or {}).get("model") if isinstance(results, dict) else None
    return whole_text(name or path.resolve().parent.name), found["task"]


TOOL = Tool("lm-eval", _claims, _read)
