"""Comparisons that the first version began: both models at once, both answers as one, half a comparison is none."""

from __future__ import annotations

import asyncio
import json

import pytest

from cereval.datasets.base import Item
from cereval.datasets.prompts import Prompt
from cereval.errors import CallError
from cereval.models.base import EndpointError, Messages, Reply
from cereval.records import Draw
from cereval.runner.executor import Callers, PackedCallers
from cereval.scorers.build import build_scorer
from cereval.store.base import Answer


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


def both(*models: Fake) -> PackedCallers:
    item = Item(id="1", input="2+2", answers=('"quick"',))
    return PackedCallers(Callers([item], Prompt(), models, build_scorer("exact")))


def answered(*models: Fake) -> Answer:
    return asyncio.run(both(*models).answer(Draw(7, 0, 1.0), 0, 7))


def test_both_answers_in_order_whoever_is_faster() -> None:
    answer = answered(Fake("slow", wait_s=0.02), Fake('"quick"'))
    assert json.loads(answer.text) == ["slow", '"quick"']
    assert (answer.input_tokens, answer.output_tokens, answer.cost_usd) == (6, 4, 1.0)
    assert (answer.draw, answer.score, answer.detail) == (7, 0.0, "0 against 1")


LATE = CallError("no answer")
CLOSED = EndpointError("wrong key")


@pytest.mark.parametrize(
    ("first", "second"), [(CLOSED, None), (None, CLOSED), (LATE, CLOSED)], ids=["first", "second", "both"]
)
def test_what_every_call_would_meet_ends_the_run(first: Exception | None, second: Exception | None) -> None:
    with pytest.raises(EndpointError, match="wrong key"):
        answered(Fake("a", first), Fake("b", second))


@pytest.mark.parametrize(("first", "second", "cost"), [(LATE, None, 0.5), (None, LATE, 0.5), (LATE, LATE, 0)])
def test_half_a_comparison_is_a_failure_that_cost_money(
    first: Exception | None, second: Exception | None, cost: float
) -> None:
    answer = answered(Fake("a", first), Fake("b", second))
    assert (answer.score, answer.cost_usd, answer.input_tokens) == (None, cost, 6 * cost)
    assert answer.failure is not None
    assert "no answer" in answer.failure


def test_both_are_closed() -> None:
    models = Fake("a"), Fake("b")
    asyncio.run(both(*models).close())
    assert all(model.closed for model in models)
