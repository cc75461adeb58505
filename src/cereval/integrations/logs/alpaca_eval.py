"""Read AlpacaEval: `annotations.json`, one judgement for each instruction against a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cereval.integrations.logs.base import Content, Log, Sample, Tool, as_score, chosen, whole_text

DRAW, DRAW_TOO = 0, 1.5
"""Preferences that say that neither is better; 1 is the baseline, 2 the model."""


def _claims(content: Content) -> bool:
    if not content.is_file(".json") or not isinstance(content.value, list) or not content.value:
        return False
    first = content.value[0]
    return isinstance(first, dict) and {"instruction", "generator_2", "preference"} <= set(first)


def _read(content: Content, wanted: str | None) -> Log:
    metric = chosen(["preference"], wanted, str(content.path))
    rows = [row for row in content.value if isinstance(row, dict)]
    samples = [
        Sample(
            model=whole_text(row.get("generator_2")),
            task=whole_text(row.get("dataset") or "alpaca_eval"),
            text=whole_text(row.get("instruction")),
            score=as_score(_preferred(row), str(content.path), metric),
        )
        for row in rows
    ]
    return Log("AlpacaEval", metric, samples)


def _preferred(row: Mapping[str, Any]) -> object:
    """Tell how far the model was preferred, from 0 to 1; None where the judge failed."""
    preference = row.get("preference")
    if not isinstance(preference, int | float):
        return None
    return 0.5 if preference == DRAW else preference - 1


TOOL = Tool("AlpacaEval", _claims, _read)
