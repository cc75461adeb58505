"""Define the metric `certified`: the interval in the log's headline, and asked of how many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inspect_ai.scorer import Metric, SampleScore, metric

from cereval.integrations.inspect.scores import NotOneNumber, chosen, number_of
from cereval.integrations.question import Question, figures, retold

if TYPE_CHECKING:
    from cereval.integrations.inspect.source import CertifiedSource

NAME = "certified"
NOTE = "cereval"

LIVE: dict[str, CertifiedSource] = {}
"""The sources of runs in this process, by the key in their task's metadata, until the run ends."""


@metric(name=NAME)
def certified_metric(key: str) -> Metric:
    """Return the certified interval: the session's while the run lives, afterwards recomputed from the samples."""

    def compute(scores: list[SampleScore]) -> dict[str, float]:
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
    noted = [(one, (one.sample_metadata or {}).get(NOTE) or {}) for one in scores]
    stated = next((note for _, note in noted if "plan" in note), None)
    if stated is None:
        return None
    asked = Question.from_dict(stated)
    name, value = str(asked.plan.scorer["name"]), asked.plan.scorer.get("value")
    told = {}
    for one, note in noted:
        if note:
            part = chosen(one.score, name, value)
            told[int(note["draw"])] = int(note["item"]), None if part is None else number_of(part)
    retold(asked.session, told)
    return asked
