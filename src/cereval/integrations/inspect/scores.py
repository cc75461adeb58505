"""Scores of Inspect as numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from inspect_ai.scorer import Score, value_to_float

_as_number = value_to_float()


def part_of(sample: Any, scorer: str, value: str | None) -> Score | None:
    """Return the score of a sample that counts; None where it failed or was not scored."""
    if sample.error is not None or not sample.scores or scorer not in sample.scores:
        return None
    return chosen(sample.scores[scorer], value)


def chosen(score: Score, value: str | None) -> Score | None:
    """Return a score, or the named part of one that has several; None where it is not there, or not a number."""
    found: Any = score.value
    if value is not None:
        found = found.get(value) if isinstance(found, Mapping) else None
    if found is None or (isinstance(found, float) and math.isnan(found)):
        return None
    return score.model_copy(update={"value": found})


def number_of(score: Score) -> float:
    """Return a score as a number: C and I are 1 and 0, as in Inspect's own metrics."""
    return float(_as_number(score.value))
