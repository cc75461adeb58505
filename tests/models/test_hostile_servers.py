"""Servers that answer with anything but a plain text: each such answer is a failure with its reason."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from benchmarks.model_server import FaultyModel, Handler, _response, serve_locally

from cereval.datasets.base import Item
from cereval.datasets.prompts import Prompt
from cereval.errors import CallError
from cereval.models import openai_model
from cereval.models.base import EndpointError, Messages, Reply, Settings, last_text
from cereval.models.openai_model import OpenAIModel, open_openai, reply_from
from cereval.models.prices import FREE, FlatPrice
from cereval.models.python_model import open_python
from cereval.models.retries import FaultError, Retries
from cereval.records import Draw
from cereval.runner.executor import Callers
from cereval.scorers import build_scorer

QUICK = Retries(attempts=3, first_s=0.001, longest_s=0.01)
MIB = 2**20


def chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def body(message: Any = None, **changes: Any) -> dict[str, Any]:
    choice = {"message": message, "finish_reason": changes.pop("finish_reason", "stop")}
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    return {"model": "m", "choices": [choice | changes.pop("choice", {})], "usage": usage} | changes


def text(content: Any, **changes: Any) -> dict[str, Any]:
    return body({"role": "assistant", "content": content}, **changes)


class Playing(Handler):
    """Answers every question with the bytes that a function makes of it."""

    def __init__(self, play: Callable[[str], bytes]) -> None:
        super().__init__(FaultyModel({"q": "a"}))
        self.play = play

    async def _completion(self, request: dict[str, Any], messages: Messages) -> bytes:  # noqa: ARG002
        return self.play(last_text(messages))


def asked(
    play: Callable[[str], bytes], *questions: str, ready: Callable[[OpenAIModel], None] = lambda _: None
) -> list[Reply | CallError]:
    """The outcomes of questions asked one after another."""

    async def ask() -> list[Reply | CallError]:
        found: list[Reply | CallError] = []
        async with serve_locally(Playing(play)) as url:
            model = open_openai("m", base_url=url, retries=QUICK, price=FlatPrice(1e6, 1e6), timeout_s=120)
            ready(model)
            for question in questions:
                try:
                    found.append(await model.answer(chat(question)))
                except CallError as error:
                    found.append(error)
            await model.close()
        return found

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (body(None), "no message"),
        (body("4"), "no message"),
        (text(None), "the content is None"),
        (text(7), "the content is 7"),
        (text([]), "the content is []"),
        (text([{"type": "image_url", "image_url": {"url": "x"}}]), "the content is"),
        (text([{"type": "refusal", "refusal": "I will not"}]), "it refused: 'I will not'"),
        (text(None, finish_reason="length"), "raise --max-tokens"),
        (text("half an ans", finish_reason="content_filter"), "filter stopped it"),
        (body({"content": None, "refusal": "I will not\x1b[2J"}), "it refused: 'I will not\\x1b[2J'"),
        (body({"content": "", "refusal": "I will not"}), "it refused"),
        (body({"content": None, "tool_calls": [{"id": "1"}]}, finish_reason="tool_calls"), "called a tool"),
        (body({"content": "", "function_call": {"name": "f"}}), "called a tool"),
    ],
)
def test_no_text_is_a_failure_with_its_reason(answer: dict[str, Any], says: str) -> None:
    requests = []

    def play(question: str) -> bytes:
        requests.append(question)
        return _response(200, answer)

    (error,) = asked(play, "q")
    assert isinstance(error, CallError)
    assert not isinstance(error, EndpointError)
    assert says in str(error)
    assert "\n" not in str(error)
    assert len(requests) == 1, "what the model refuses once it refuses again, at the same price"
    assert error.finish_reason == answer["choices"][0]["finish_reason"]
    assert error.cost_usd == 15


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (text(""), ""),
        (text("4", finish_reason="length"), "4"),
        (body({"content": "4", "tool_calls": [{}]}), "4"),
        (text([{"type": "text", "text": "4"}, {"type": "output_text", "text": "2"}]), "42"),
        (text([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "4"}]), "4"),
        (text("4", model=7, choice={"logprobs": [1], "finish_reason": {"a": 1}}), "4"),
        (text("4", choice={"logprobs": {"content": [{"token": "4", "logprob": 10**400}]}}), "4"),
        (text("4", choice={"logprobs": {"content": "x"}}), "4"),
        (text("4", choice={"logprobs": {"content": [{"top_logprobs": 5}]}}), "4"),
    ],
)
def test_texts_in_every_form(answer: dict[str, Any], expected: str) -> None:
    reply = reply_from(answer, None)
    assert reply.text == expected
    assert all(map(math.isfinite, reply.first_token.values()))


@pytest.mark.parametrize("count", [1e30, -5, "10", 2**70, 10**400, math.inf, math.nan, None, [1], True])
def test_absurd_usage_leaves_the_cost_unknown(count: Any) -> None:
    answer = text("4", usage={"prompt_tokens": count, "completion_tokens": 5})
    reply = reply_from(answer, FlatPrice(1.0, 1.0))
    assert (reply.input_tokens, reply.output_tokens, reply.cost_usd) == (0, 5, None)
    assert reply_from(answer, FREE).cost_usd == 0.0


@pytest.mark.parametrize("usage", [None, [], "x", 7, {}])
def test_usage_that_is_none(usage: Any) -> None:
    reply = reply_from(text("4", usage=usage), FlatPrice(1.0, 1.0))
    assert (reply.input_tokens, reply.output_tokens, reply.cost_usd) == (0, 0, None)


def test_a_function_of_ones_own_may_count_absurdly_too() -> None:
    async def reply(_: Messages) -> Reply:
        return Reply("4\0", input_tokens=2**70, output_tokens=-1, cost_usd=math.inf)

    found = asyncio.run(open_python(reply).answer(chat("q")))
    assert (found.text, found.input_tokens, found.output_tokens, found.cost_usd) == ("4\ufffd", 0, 0, None)


def test_an_endless_answer_is_cut_off() -> None:
    sent = b'{"choices": [{"message": {"content": "' + b"x" * (20 * MIB) + b'"}}]}'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(sent)
    (error,) = asked(lambda _: head + sent, "q")
    assert isinstance(error, CallError)
    assert "more than 8 MiB" in str(error)


@pytest.mark.parametrize("status", [200, 500])
def test_a_packed_bomb_is_not_unpacked(status: int) -> None:
    bomb = gzip.compress(b"x" * (64 * MIB))
    head = b"HTTP/1.1 %d -\r\ncontent-type: application/json\r\ncontent-encoding: %s\r\ncontent-length: %d\r\n\r\n"
    (error,) = asked(lambda _: head % (status, b"gzip", len(bomb)) + bomb, "q")
    assert "more than 8 MiB" in str(error)
    (error,) = asked(lambda _: head % (status, b"br", len(bomb)) + bomb, "q")
    assert "packed" in str(error)


def test_a_packed_answer_is_unpacked() -> None:
    packed = gzip.compress(json.dumps(text("4")).encode())
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n"
    (reply,) = asked(lambda _: head % len(packed) + packed, "q")
    assert isinstance(reply, Reply)
    assert reply.text == "4"


@pytest.mark.parametrize(
    "sent", [b"[" * 200_000, b'{"choices": ' + b"9" * 5000 + b"}", b"\xff\xfe", b"null", b""]
)
def test_json_that_is_none_is_one_line(sent: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(sent)
    (error,) = asked(lambda _: head + sent, "q")
    assert isinstance(error, CallError)
    assert "\n" not in str(error)


REFUSALS = {
    "403": _response(403, {"error": {"message": "not this one"}}),
    "404": _response(404, {"error": {"message": "no such thing"}}),
    "page": b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>",
    "elsewhere": b"HTTP/1.1 307 -\r\nlocation: http://elsewhere.invalid/v1\r\ncontent-length: 0\r\n\r\n",
    "setting": _response(400, {"error": {"message": "no", "code": "unsupported_value"}}),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refusal_concerns_all_questions_until_one_was_answered(kind: str) -> None:
    def play(question: str) -> bytes:
        return _response(200, text("4")) if question == "good" else REFUSALS[kind]

    before, good, after, again = asked(play, "bad", "good", "bad", "good")
    assert isinstance(before, EndpointError)
    assert isinstance(good, Reply)
    assert isinstance(after, CallError)
    assert not isinstance(after, EndpointError)
    assert isinstance(again, Reply)
    (resumed,) = asked(play, "bad", ready=OpenAIModel.answered_before)
    assert isinstance(resumed, CallError)
    assert not isinstance(resumed, EndpointError)


def test_a_key_that_is_revoked_stops_the_run_in_the_end() -> None:
    def play(question: str) -> bytes:
        return _response(200, text("4")) if question == "good" else REFUSALS["403"]

    bad = ["bad"] * openai_model.PATIENCE
    found = asked(play, "good", *bad, "good", *bad, "bad")
    assert [isinstance(one, EndpointError) for one in found] == [False] * (len(found) - 1) + [True]


@pytest.mark.parametrize("status", [401, 402])
def test_a_wrong_key_and_an_empty_account_concern_all_questions(status: int) -> None:
    def play(question: str) -> bytes:
        return (
            _response(200, text("4"))
            if question == "good"
            else _response(status, {"error": {"message": "no"}})
        )

    _, error = asked(play, "good", "bad")
    assert isinstance(error, EndpointError)


def test_redirects_stay_on_the_host() -> None:
    asked_elsewhere = []

    def elsewhere(question: str) -> bytes:
        asked_elsewhere.append(question)
        return _response(200, text("stolen"))

    async def ask() -> None:
        async with serve_locally(Playing(elsewhere)) as other:
            address = other.replace("127.0.0.1", "localhost").encode()
            moved = b"HTTP/1.1 307 -\r\nlocation: %s/chat/completions\r\ncontent-length: 0\r\n\r\n"
            async with serve_locally(Playing(lambda _: moved % address)) as url:
                model = open_openai("m", base_url=url, retries=QUICK)
                with pytest.raises(CallError, match="redirects to http://localhost, which is not followed"):
                    await model.answer(chat("secret"))
                await model.close()
            async with serve_locally(Playing(lambda _: moved % other.encode())) as url:
                model = open_openai("m", base_url=url, retries=QUICK)
                assert (await model.answer(chat("same host"))).text == "stolen"
                await model.close()
            async with serve_locally(Playing(lambda _: moved % b"")) as url:
                model = open_openai("m", base_url=url, retries=QUICK)
                with pytest.raises(CallError):
                    await model.answer(chat("round and round"))
                await model.close()

    asyncio.run(ask())
    assert asked_elsewhere == ["same host"]


def test_a_round_of_redirects_ends() -> None:
    async def ask() -> None:
        here: list[bytes] = []
        moved = b"HTTP/1.1 308 -\r\nlocation: %s/chat/completions\r\ncontent-length: 0\r\n\r\n"
        async with serve_locally(Playing(lambda _: moved % here[0])) as url:
            here.append(url.encode())
            model = open_openai("m", base_url=url, retries=QUICK)
            with pytest.raises(CallError, match="redirects without end"):
                await model.answer(chat("q"))
            await model.close()

    asyncio.run(ask())


class Picky(Handler):
    """Refuses requests that have certain fields, as newer models do."""

    def __init__(self, refused: dict[str, dict[str, Any]]) -> None:
        super().__init__(FaultyModel({"q": "a"}, 1.0))
        self.refused, self.requests_seen = refused, list[dict[str, Any]]()

    async def _completion(self, request: dict[str, Any], messages: Messages) -> bytes | None:
        self.requests_seen.append(
            {name: value for name, value in request.items() if name not in ("model", "messages")}
        )
        for name, error in self.refused.items():
            if name in request:
                return _response(400, {"error": error})
        return await super()._completion(request, messages)


TEMPERATURE = {
    "message": "Unsupported value: 'temperature' does not support 0 with this model. Only 1 is supported.",
    "param": "temperature",
    "code": "unsupported_value",
}
LIMIT = {
    "message": "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
}
OTHER_LIMIT = {"message": "Unrecognized request argument supplied: max_completion_tokens", "code": None}


async def ask_picky(handler: Picky, settings: Settings, times: int = 3) -> OpenAIModel:
    async with serve_locally(handler) as url:
        model = open_openai("m", base_url=url, retries=QUICK, settings=settings)
        try:
            for _ in range(times):
                await model.answer(chat("q"))
        finally:
            await model.close()
    return model


def test_settings_that_a_server_refuses_are_left_out_and_named() -> None:
    handler = Picky({"temperature": TEMPERATURE, "max_tokens": LIMIT})
    model = asyncio.run(ask_picky(handler, Settings(max_tokens=9, extra={"top_p": 0.9})))
    asked = handler.requests_seen
    assert len(asked) == 5, "each is noticed once, and remembered"
    assert asked[2:] == [{"max_completion_tokens": 9, "top_p": 0.9}] * 3
    assert model.dropped == {"temperature"}


def test_the_other_name_of_a_limit_is_tried_once() -> None:
    handler = Picky({"max_completion_tokens": OTHER_LIMIT})
    model = asyncio.run(ask_picky(handler, Settings(temperature=None, extra={"max_completion_tokens": 9}), 2))
    assert handler.requests_seen[1:] == [{"max_tokens": 9}] * 2
    assert model.dropped == set()
    both = Picky({"max_tokens": LIMIT, "max_completion_tokens": OTHER_LIMIT})
    with pytest.raises(CallError, match="max_completion_tokens"):
        asyncio.run(ask_picky(both, Settings(max_tokens=9)))
    assert len(both.requests_seen) == 2


@pytest.mark.parametrize(
    "error",
    [
        {"message": "'temperature' is above the maximum of 1", "param": "temperature", "code": "too_large"},
        {"message": "Unknown parameter: 'top_p'.", "param": "top_p", "code": "unknown_parameter"},
    ],
)
def test_other_refusals_are_the_users_to_mend(error: dict[str, Any]) -> None:
    handler = Picky({"temperature": error})
    with pytest.raises(CallError):
        asyncio.run(ask_picky(handler, Settings(extra={"top_p": 0.9})))
    assert len(handler.requests_seen) == 1


@pytest.mark.parametrize(
    "sent",
    [
        b'{"choices": [{"message": {"content": "4", "content": "5"}}]}',
        b'{"choices": [{"message": {"content": "4"}}], "choices": []}',
    ],
)
def test_json_that_says_two_things_is_refused(sent: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(sent)
    (error,) = asked(lambda _: head + sent, "q")
    assert isinstance(error, CallError)
    assert "means two things: it has the key" in str(error)
    assert error.cost_usd is None, "it was paid for, and nobody knows how much"


def test_the_name_of_the_model_that_answered_is_kept() -> None:
    (reply,) = asked(lambda _: _response(200, text("4", model="another\ud800")), "q")
    assert isinstance(reply, Reply)
    assert reply.served == "another\ufffd"
    assert reply_from(text("4", model=None), None).served == ""


def callers(*models: OpenAIModel) -> Callers:
    item = Item(id="1", input="q", answers=("4",))
    return Callers([item], [Prompt()] * len(models), models, [build_scorer("exact")] * len(models))


def test_models_that_are_not_as_asked_are_named_once() -> None:
    async def ask() -> list[list[str]]:
        play = Playing(lambda _: _response(200, text("4", model="gpt-4o-2024-08-06")))
        async with serve_locally(play) as url:
            both = callers(open_openai("gpt-4o", base_url=url), open_openai("llama", base_url=url))
            told = []
            for number in (0, 1, 1):
                both.answered_before(number)
                await both.answer(Draw(0, 0, 1.0), number, 0)
                told.append(both.notices())
            await both.close()
            return told

    dated, other, again = asyncio.run(ask())
    assert (dated, again) == ([], [])
    assert len(other) == 1
    assert "llama was asked, and the server says that gpt-4o-2024-08-06 answered" in other[0]


def test_a_fault_that_is_no_text_is_not_worth_another_attempt() -> None:
    with pytest.raises(FaultError) as caught:
        reply_from(text(None), None)
    assert not caught.value.fault.retryable
