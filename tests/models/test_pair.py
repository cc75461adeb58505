"""Two models as one: both are asked at once, both answers come back, and half a comparison is none."""

from __future__ import annotations

import asyncio
import json

import pytest

from cereval.errors import CallError
from cereval.models.base import EndpointError, Messages, Reply
from cereval.models.pair import PairModel, texts_of


class Fake:
    """Answers with its name after a while, or fails."""

    def __init__(self, name: str, error: Exception | None = None, wait_s: float = 0.0) -> None:
        self.name, self.error, self.wait_s = name, error, wait_s
        self.closed = False

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:  # noqa: ARG002
        await asyncio.sleep(self.wait_s)
        if self.error is not None:
            raise self.error
        return Reply(self.name, input_tokens=3, output_tokens=2, cost_usd=0.5)

    async def close(self) -> None:
        self.closed = True


def test_both_answers_in_order_whoever_is_faster() -> None:
    reply = asyncio.run(PairModel(Fake("slow", wait_s=0.02), Fake('"quick"')).answer([]))
    assert texts_of(reply.text) == ("slow", '"quick"')
    assert (reply.input_tokens, reply.output_tokens, reply.cost_usd) == (6, 4, 1.0)
    assert json.loads(reply.text)


@pytest.mark.parametrize("error", [CallError("no answer"), EndpointError("wrong key")])
def test_the_error_of_one_is_the_error_of_the_call(error: CallError) -> None:
    for pair in (PairModel(Fake("a", error), Fake("b")), PairModel(Fake("a"), Fake("b", error))):
        with pytest.raises(type(error), match=str(error)):
            asyncio.run(pair.answer([]))


def test_an_unknown_price_makes_the_sum_unknown_and_both_are_closed() -> None:
    pair = PairModel(Fake("a"), Fake("b"))
    asyncio.run(pair.close())
    assert all(model.closed for model in (pair.first, pair.second) if isinstance(model, Fake))
    assert pair.name == "a against b"
