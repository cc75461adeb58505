"""A model that only speaks the Responses API is asked through it, once its server has said so."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from benchmarks.model_server import FaultyModel, Handler, _error, _response, serve_locally

from cereval.errors import CallError
from cereval.models.base import Settings
from cereval.models.openai_model import open_openai
from cereval.models.prices import FlatPrice


class ResponsesOnly(Handler):
    """Refuses chat completions in OpenAI's words. given: what a response holds beside the usual."""

    def __init__(self, parts: list[dict[str, Any]], **given: Any) -> None:
        super().__init__(FaultyModel({"1+1": "2"}, 1.0))
        self.parts, self.given = parts, given
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def _response(self, line: str, headers: dict[str, str], body: bytes) -> bytes | None:  # noqa: ARG002
        path = line.split(" ")[1]
        self.asked.append((path, json.loads(body)))
        if path == "/v1/chat/completions":
            return _error(404, "This model is only supported in v1/responses and not in v1/chat/completions.")
        message = {"type": "message", "role": "assistant", "content": self.parts}
        usage = {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 40},
            "output_tokens": 30,
            "output_tokens_details": {"reasoning_tokens": 20},
            "total_tokens": 130,
        }
        said = {
            "id": "r",
            "object": "response",
            "status": "completed",
            "model": "m-2026-01-01",
            "usage": usage,
        }
        return _response(200, {**said, "output": [{"type": "reasoning"}, message], **self.given})


def ask(handler: ResponsesOnly, times: int = 1, **asked: Any) -> Any:
    async def answers() -> Any:
        async with serve_locally(handler) as url:
            settings = Settings(max_tokens=50, extra={"reasoning_effort": "low"})
            model = open_openai("m", base_url=url, settings=settings, price=FlatPrice(1.0, 10.0))
            turns = [{"role": "system", "content": "S"}, {"role": "user", "content": "1+1"}]
            try:
                return [await model.answer(turns, **asked) for _ in range(times)]
            finally:
                await model.close()

    return asyncio.run(answers())


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": words, "annotations": [], **more}


def test_it_is_asked_there_from_then_on() -> None:
    handler = ResponsesOnly([text("2")])
    first, second = ask(handler, 2)
    assert [path for path, _ in handler.asked] == ["/v1/chat/completions", "/v1/responses", "/v1/responses"]
    sent = handler.asked[-1][1]
    assert sent["input"] == [{"role": "system", "content": "S"}, {"role": "user", "content": "1+1"}]
    assert (sent["max_output_tokens"], sent["reasoning"], sent["store"]) == (50, {"effort": "low"}, False)
    assert not {"messages", "max_tokens", "reasoning_effort"} & set(sent)
    assert (first.text, first.finish_reason, first.served) == ("2", "stop", "m-2026-01-01")
    assert (first.input_tokens, first.output_tokens) == (100, 30)
    assert second.cost_usd == pytest.approx((100 + 300) / 1e6)


def test_why_an_answer_ended_and_its_likeliest_tokens() -> None:
    logprobs = [{"token": "2", "logprob": -0.1, "top_logprobs": [{"token": "2", "logprob": -0.1}]}]
    handler = ResponsesOnly(
        [text("2", logprobs=logprobs)],
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
    )
    (reply,) = ask(handler, top_logprobs=5)
    assert (reply.finish_reason, dict(reply.first_token)) == ("length", {"2": -0.1})
    assert handler.asked[-1][1]["include"] == ["message.output_text.logprobs"]


@pytest.mark.parametrize(
    ("parts", "given", "says"),
    [
        ([{"type": "refusal", "refusal": "I cannot."}], {}, "it refused: 'I cannot.'"),
        ([], {"incomplete_details": {"reason": "max_output_tokens"}}, "raise --max-tokens"),
        (
            [text("no")],
            {"incomplete_details": {"reason": "content_filter"}},
            "the server's filter stopped it",
        ),
    ],
)
def test_no_text_is_a_failure_that_was_paid_for(parts: Any, given: dict[str, Any], says: str) -> None:
    with pytest.raises(CallError) as caught:
        ask(ResponsesOnly(parts, **given))
    assert says in str(caught.value)
    assert caught.value.cost_usd == pytest.approx(400 / 1e6)
