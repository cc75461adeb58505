"""Read Inspect's scores as numbers, and define the metric that shows what is certified of them.

What is not one number is refused: Inspect's own metrics would count it as 0.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from inspect_ai.scorer import Metric, SampleScore, Score, metric

from cereval.errors import Misuse, shown
from cereval.integrations.logs.inspect_ai import number_in
from cereval.text import did_you_mean

if TYPE_CHECKING:
    from cereval.integrations.inspect.source import CertifiedSource
    from cereval.integrations.question import Question

NAME, MEAN = "certified", "mean"
NOTE = "cereval"
"""The name of our note in the metadata of tasks and samples."""

LIVE: dict[str, CertifiedSource] = {}
"""The sources of runs in this process, by the key in their task's metadata, until the run ends."""


class NotOneNumber(Misuse):
    """Report a score that has several parts, or is no number."""


def several(scorer: str, parts: Iterable[str]) -> NotOneNumber:
    return NotOneNumber(
        f"{scorer} gives several scores ({', '.join(parts)}): name one with value= (-T cereval_value=)"
    )


def no_mean(scorer: str, metric: Any) -> NotOneNumber:
    from cereval.integrations.inspect.host import registry_unqualified_name

    return NotOneNumber(
        f"{scorer}'s metric {registry_unqualified_name(metric)} is not the mean of its scores, and only a mean can be "
        f"certified: metric={MEAN} (-T cereval_metric={MEAN}) certifies the mean score instead, value= that of one part"
    )


def gives_mean(metric: Any, scores: list[SampleScore], mean: float, *, apart: float = 1e-9) -> bool:
    """Tell whether a metric, or one of several numbers that it gives, is the mean of scores."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = metric(scores)
    given = found.values() if isinstance(found, Mapping) else [found]
    return any(isinstance(one, int | float) and math.isclose(one, mean, abs_tol=apart) for one in given)


def part_of(sample: Any, scorer: str, value: str | None) -> Score | None:
    if sample.error is not None or not sample.scores or scorer not in sample.scores:
        return None
    return chosen(sample.scores[scorer], scorer, value)


def chosen(score: Score, scorer: str, value: str | None) -> Score | None:
    """Return a score of one number, or the named part of one that has several; None where none was given."""
    found: Any = score.value
    if value is not None and not _is_nan(found):
        if not isinstance(found, Mapping):
            raise NotOneNumber(f"{scorer} gives one score: leave value={value} out")
        if value not in found:
            raise NotOneNumber(f"{scorer} has no {shown(value)}: {did_you_mean(value, map(str, found))}")
        found = found[value]
    if found is None or _is_nan(found):
        return None
    if isinstance(found, Mapping):
        raise several(scorer, map(str, found))
    if number_in(found) is None:
        raise NotOneNumber(f"{scorer} gives {shown(found, 40)}, which is no number: it has no mean")
    return score.model_copy(update={"value": found})


def number_of(score: Score) -> float | None:
    """Return a score as a number, C and I as 1 and 0, as in Inspect's own metrics; None where a reducer gave none."""
    found = number_in(score.value)
    if found is None:
        raise NotOneNumber(f"the epochs' reducer gives {shown(score.value, 40)}, which is no number")
    return None if math.isnan(found) else found


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


@metric(name=NAME)
def certified_metric(key: str) -> Metric:
    """Return the certified interval: the session's while the run lives, afterwards recomputed from the samples."""

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        from cereval.integrations.question import figures

        live = LIVE.get(key)
        if live is not None and live.question is not None:
            return {} if live.refusal else figures(live.question.result)
        try:
            found = recomputed(scores)
        except NotOneNumber:
            return {}  # another scorer, whose scores have no mean
        return {} if found is None else figures(found.result)

    return compute


def recomputed(scores: list[SampleScore]) -> Question | None:
    """Tell a fresh session the scores of a log in draw order; None where no sample carries the question."""
    from cereval.integrations.question import Question, retold

    noted = [(one, (one.sample_metadata or {}).get(NOTE) or {}) for one in scores]
    stated = next((note for _, note in noted if "plan" in note), None)
    if stated is None:
        return None
    asked = Question.from_dict(stated)
    scorer = asked.plan.scorer["spec"]
    name, value = str(scorer["name"]), scorer.get("value")
    told = {}
    for one, note in noted:
        if note:
            part = chosen(one.score, name, value)
            told[int(note["draw"])] = int(note["item"]), None if part is None else number_of(part)
    retold(asked.session, told)
    return asked
