"""Read Every Eval Ever: `*_samples.jsonl`, the samples beside a record, whichever tool they came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cereval.integrations.logs.base import Content, Log, Sample, Tool, as_score, choose, loose_lines

METRICS = ("score", "is_correct")


def _claims(content: Content) -> bool:
    return content.is_file(".jsonl") and {"evaluation_id", "sample_id", "input", "evaluation"} <= set(
        content.first
    )


def _read(content: Content, wanted: str | None) -> Log:
    metric = choose(METRICS, wanted, content.path)
    samples = [_sample(row, metric, content.path) for row in loose_lines(content.path)]
    return Log("Every Eval Ever", metric, samples, metrics=METRICS)


def _sample(row: Mapping[str, Any], metric: str, path: object) -> Sample:
    asked, failed = row["input"], row.get("error") is not None
    score = None if failed else as_score(row["evaluation"][metric], path, metric)
    choices, mark = asked.get("choices") or (), row["sample_id"]
    return Sample(
        row["model_id"], row["evaluation_name"], asked["raw"], score, choices, mark, row.get("metadata") or {}
    )


TOOL = Tool("Every Eval Ever", _claims, _read)
