"""One draw, one call, one score: what a worker does with a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from cereval.datasets.base import Item
from cereval.datasets.prompts import Prompt
from cereval.errors import CallError
from cereval.models.base import EndpointError, Model, Reply
from cereval.records import Draw
from cereval.scorers.base import Scorer, ScoringFailure, score_answer
from cereval.store.base import Answer


@dataclass(frozen=True, slots=True)
class Caller:
    """Puts an item to the model and scores what comes back; what fails for good is a record too."""

    items: Sequence[Item]
    prompt: Prompt
    model: Model
    scorer: Scorer

    async def answer(self, draw: Draw) -> Answer:
        """Raises only when every other call would fail alike."""
        item = self.items[draw.item]
        try:
            reply = await self.model.answer(self.prompt.messages(item))
        except EndpointError:
            raise
        except CallError as error:
            return Answer(draw.index, failure=str(error), cost_usd=0.0)
        return await self._scored(draw, item, reply)

    async def _scored(self, draw: Draw, item: Item, reply: Reply) -> Answer:
        answer = partial(
            Answer,
            draw=draw.index,
            text=reply.text,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            latency_s=reply.latency_s,
            attempts=reply.attempts,
            finish_reason=reply.finish_reason,
        )
        score = await score_answer(self.scorer, item, reply.text)
        if isinstance(score, ScoringFailure):
            return answer(failure=score.reason, cost_usd=reply.cost_usd)
        return answer(score=score.value, detail=score.detail, cost_usd=_sum(reply.cost_usd, score.cost_usd))


def _sum(*costs: float | None) -> float | None:
    """The sum, unknown where a part is unknown."""
    return None if None in costs else sum(cost for cost in costs if cost is not None)
