"""Two models as one: every question goes to both, and both answers come back together."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace

from cereval.errors import CallError
from cereval.models.base import EndpointError, Messages, Model, Reply, another_model
from cereval.models.prices import Price


@dataclass(frozen=True, slots=True)
class PairModel:
    """Asks both at the same time. The reply's text is a JSON list of the two texts; costs and tokens add up.

    Half a comparison is none: where one call fails for good, the reply says so in place of the texts, which the scorer
    of pairs makes a failure, and still has what the other call cost. Where all calls would fail, so does this one.
    """

    first: Model
    second: Model

    @property
    def name(self) -> str:
        return f"{self.first.name} against {self.second.name}"

    @property
    def price(self) -> Price | None:
        """None where one of the two prices is not known."""
        prices = [getattr(model, "price", Price(0, 0)) for model in (self.first, self.second)]
        return None if None in prices else prices[0]

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:
        async with asyncio.TaskGroup() as both:
            calls = [
                both.create_task(_outcome(model, messages, top_logprobs))
                for model in (self.first, self.second)
            ]
        first, second = (call.result() for call in calls)
        if isinstance(first, Reply) and isinstance(second, Reply):
            return replace(joined(first, second), served=self._unlike(first, second))
        return _half(first, second)

    def answered_before(self) -> None:
        """Note that an earlier run has answers of both."""
        for model in (self.first, self.second):
            getattr(model, "answered_before", lambda: None)()

    async def close(self) -> None:
        await self.first.close()
        await self.second.close()

    def _unlike(self, first: Reply, second: Reply) -> str:
        """Name the models that answered in place of those asked for: of two as expected there is nothing to say."""
        served = ((self.first.name, first.served), (self.second.name, second.served))
        return ", ".join(name for asked, name in served if another_model(asked, name))


async def _outcome(model: Model, messages: Messages, top_logprobs: int) -> Reply | Exception:
    """What went wrong is a value, so that the other call is not cut off and its error not wrapped."""
    try:
        return await model.answer(messages, top_logprobs=top_logprobs)
    except Exception as error:
        return error


def _half(first: Reply | Exception, second: Reply | Exception) -> Reply:
    error, other = (first, second) if isinstance(first, Exception) else (second, first)
    assert isinstance(error, Exception)
    if isinstance(other, Exception) or isinstance(error, EndpointError) or not isinstance(error, CallError):
        raise other if isinstance(other, EndpointError) else error
    # A reply that holds no answer has its price too.
    costs = other.cost_usd, error.cost_usd
    return replace(
        other,
        text=json.dumps({"failure": str(error)}, ensure_ascii=False),
        cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
        finish_reason=error.finish_reason or other.finish_reason,
    )


def joined(first: Reply, second: Reply) -> Reply:
    """Both replies as one.

    >>> joined(Reply("4", output_tokens=1), Reply("5", output_tokens=2)).output_tokens
    3
    """
    costs = first.cost_usd, second.cost_usd
    return Reply(
        text=json.dumps([first.text, second.text], ensure_ascii=False),
        input_tokens=first.input_tokens + second.input_tokens,
        output_tokens=first.output_tokens + second.output_tokens,
        cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
        latency_s=max(first.latency_s, second.latency_s),
        attempts=first.attempts + second.attempts - 1,
        finish_reason=f"{first.finish_reason}, {second.finish_reason}",
    )
