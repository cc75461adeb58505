"""Read Inspect's scores as numbers: what is not one number is refused, and never counted as 0."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from inspect_ai.scorer import Score

from cereval.errors import Misuse, shown
from cereval.integrations.logs.inspect_ai import number_in
from cereval.text import did_you_mean

NAME_A_PART = "name one with value= (on the command line -T cereval_value=)"


class NotOneNumber(Misuse):
    """Report a score that has several parts, or is no number: Inspect's own metrics count it as 0."""


def part_of(sample: Any, scorer: str, value: str | None) -> Score | None:
    """Return the score of a sample that counts; None where it failed or was not scored."""
    if sample.error is not None or not sample.scores or scorer not in sample.scores:
        return None
    return chosen(sample.scores[scorer], scorer, value)


def chosen(score: Score, scorer: str, value: str | None) -> Score | None:
    """Return a score of one number, or the named part of one that has several; None where none was given."""
    found: Any = score.value
    if isinstance(found, float) and math.isnan(found):
        return None
    if value is not None:
        if not isinstance(found, Mapping):
            raise NotOneNumber(f"{scorer} gives one score: leave value={value} out")
        if value not in found:
            raise NotOneNumber(
                f"{scorer} has no {shown(value)}: {did_you_mean(value, list(map(str, found)))}"
            )
        found = found[value]
        if found is None or (isinstance(found, float) and math.isnan(found)):
            return None
    elif isinstance(found, Mapping):
        raise several(scorer, map(str, found))
    if number_in(found) is None:
        raise NotOneNumber(f"{scorer} gives {shown(found, 40)}, which is no number: it has no mean")
    return score.model_copy(update={"value": found})


def several(scorer: str, parts: Iterable[str]) -> NotOneNumber:
    """Name the parts of a score that has several."""
    return NotOneNumber(f"{scorer} gives several scores ({', '.join(parts)}): {NAME_A_PART}")


def number_of(score: Score) -> float | None:
    """Return a score as a number, C and I as 1 and 0, as in Inspect's own metrics; None where a reducer gave none."""
    found = number_in(score.value)
    if found is None:
        raise NotOneNumber(f"the reducer of the epochs gives {shown(score.value, 40)}, which is no number")
    return None if math.isnan(found) else found
