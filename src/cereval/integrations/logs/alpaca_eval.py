"""Read AlpacaEval: `annotations.json`, one judgement for each instruction against a baseline."""

from __future__ import annotations

from typing import Any

from cereval.integrations.logs.base import Content, Log, Sample, Tool, as_score, choose


def _claims(content: Content) -> bool:
    if not content.is_file(".json") or not isinstance(content.value, list) or not content.value:
        return False
    first = content.value[0]
    return isinstance(first, dict) and {"instruction", "generator_2", "preference"} <= set(first)


def _read(content: Content, wanted: str | None) -> Log:
    metric = choose(["preference"], wanted, content.path)
    samples = [
        Sample(
            model=row["generator_2"],
            task=row.get("dataset") or "alpaca_eval",
            text=row["instruction"],
            score=as_score(_preferred(row.get("preference")), content.path, metric),
        )
        for row in content.value
    ]
    baselines = sorted({str(row["generator_1"]) for row in content.value if row.get("generator_1")})
    return Log("AlpacaEval", f"{metric} over {', '.join(baselines)}" if baselines else metric, samples)


def _preferred(preference: Any) -> float | None:
    """Tell how far the model (2) was preferred to the baseline (1), from 0 to 1. A stated 0 is a draw."""
    if not isinstance(preference, int | float):
        return None
    return 0.5 if preference == 0 else preference - 1


TOOL = Tool("AlpacaEval", _claims, _read)
