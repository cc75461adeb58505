"""Two models as one: both are asked at once, both answers come back, and half a comparison is none."""

from __future__ import annotations

import asyncio
import json

import pytest

from cereval.datasets.base import Item
from cereval.datasets.prompts import Prompt
from cereval.errors import CallError
from cereval.models.base import EndpointError, Messages, Reply
from cereval.models.pair import PairModel
from cereval.records import Draw
from cereval.runner.caller import Caller
from cereval.scorers.build import build_scorer
from cereval.scorers.pair import PairScorer


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
    assert json.loads(reply.text) == ["slow", '"quick"']
    assert (reply.input_tokens, reply.output_tokens, reply.cost_usd) == (6, 4, 1.0)
    assert json.loads(reply.text)


LATE = CallError("no answer")
CLOSED = EndpointError("wrong key")


@pytest.mark.parametrize(
    ("first", "second", "raised"),
    [(CLOSED, None, CLOSED), (None, CLOSED, CLOSED), (LATE, CLOSED, CLOSED), (LATE, LATE, LATE)],
)
def test_errors_that_end_the_call(
    first: Exception | None, second: Exception | None, raised: Exception
) -> None:
    with pytest.raises(type(raised), match=str(raised)):
        asyncio.run(PairModel(Fake("a", first), Fake("b", second)).answer([]))


@pytest.mark.parametrize(("first", "second"), [(LATE, None), (None, LATE)])
def test_half_a_comparison_is_a_failure_that_cost_money(
    first: Exception | None, second: Exception | None
) -> None:
    item = Item(id="1", input="2+2", answers=("4",))
    pair = PairModel(Fake("a", first), Fake("b", second))
    caller = Caller([item], Prompt(), pair, PairScorer(build_scorer("exact")))
    answer = asyncio.run(caller.answer(Draw(0, 0, 1.0)))
    assert (answer.score, answer.cost_usd, answer.input_tokens) == (None, 0.5, 3)
    assert answer.failure is not None
    assert "no answer" in answer.failure


def test_an_unknown_price_makes_the_sum_unknown_and_both_are_closed() -> None:
    pair = PairModel(Fake("a"), Fake("b"))
    asyncio.run(pair.close())
    assert all(model.closed for model in (pair.first, pair.second) if isinstance(model, Fake))
    assert pair.name == "a against b"
