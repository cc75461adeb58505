"""Scores two answers to one question, and gives y = (1 + first - second)/2: 1/2 where they are equally good."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

from cereval.errors import CallError
from cereval.scorers.base import Question, Score, Scorer


@dataclass(frozen=True, slots=True)
class PairScorer:
    """Both answers, a JSON list of two texts, are scored by the same scorer; `detail` holds the two scores.

    Where one of the two models failed (`models.pair`), so does the score.

    >>> import asyncio
    >>> from cereval.scorers.build import build_scorer
    >>> from types import SimpleNamespace
    >>> question = SimpleNamespace(id="1", text="2+2", answers=("4",), choices=())
    >>> asyncio.run(PairScorer(build_scorer("exact")).score(question, '["4", "5"]'))
    Score(value=1.0, detail='1 against 0', cost_usd=0.0)
    """

    name: ClassVar[str] = "pair"
    each: Scorer

    async def score(self, question: Question, answer: str) -> Score:
        texts = json.loads(answer)
        if isinstance(texts, dict):
            raise CallError(texts["failure"])
        first, second = [await self.each.score(question, str(text)) for text in texts]
        costs = first.cost_usd, second.cost_usd
        return Score(
            (1 + first.value - second.value) / 2,
            detail=f"{first.value:g} against {second.value:g}",
            cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
        )
