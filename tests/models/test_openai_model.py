"""The OpenAI model against a real server on loopback that misbehaves."""

from __future__ import annotations

import asyncio
import re
import socket
import traceback
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Any

import pytest
from benchmarks.model_server import FaultKind, Faults, FaultyModel, Handler, _response, serve_locally
from tests.waiting import turns

from cereval.errors import CallError, InvalidInput
from cereval.models import ModelOptions, open_model
from cereval.models.base import EndpointError, Messages, Settings
from cereval.models.openai_model import checked_url, open_openai
from cereval.models.prices import FlatPrice, ListPrice
from cereval.models.retries import Broken, Retries, fault_of

KEY = {f"{i}+{i}": str(2 * i) for i in range(100)}
QUICK = Retries(attempts=12, first_s=0.001, longest_s=0.01, patience_s=1.0)
SECRET = "sk-verysecret-0123456789abcdef"


def chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


async def answers(handler: Handler, questions: list[str], **options: object) -> list[str | CallError]:
    async with serve_locally(handler) as url:
        model = open_openai("m", base_url=url, retries=QUICK, **options)  # type: ignore[arg-type]
        found = await asyncio.gather(*(model.answer(chat(q)) for q in questions), return_exceptions=True)
        await model.close()
    return [reply if isinstance(reply, BaseException) else reply.text for reply in found]  # type: ignore[misc]


def test_answers_tokens_and_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    async def one() -> None:
        async with serve_locally(Handler(FaultyModel(KEY, 1.0), key=SECRET)) as url:
            model = open_openai("m", base_url=url, price=FlatPrice(1e6, 2e6), settings=Settings(max_tokens=5))
            reply = await model.answer(chat("3+3"))
            await model.close()
        assert (reply.text, reply.attempts, reply.cost_usd) == ("6", 1, 3.0)
        assert SECRET not in repr(model)
        assert reply.latency_s > 0

    asyncio.run(one())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["429", "500", "timeout", "cut", "drop"])
def test_every_kind_of_fault_is_survived(kind: FaultKind) -> None:
    handler = Handler(FaultyModel(KEY, 1.0, faults=Faults(0.3, (kind,))))
    found = asyncio.run(answers(handler, list(KEY)[:30], timeout_s=0.5 if kind == "timeout" else 60.0))
    assert found == list(KEY.values())[:30]
    assert kind == "timeout" or handler.answered == 30, "an answer was paid for twice"
    assert handler.requests > 30


@pytest.mark.parametrize("kind", ["500", "timeout", "cut", "drop"])
def test_an_answer_that_never_comes_is_one_clear_line(kind: FaultKind) -> None:
    handler = Handler(FaultyModel(KEY, 1.0, faults=Faults(1.0, (kind,))))
    (error,) = asyncio.run(answers(handler, ["1+1"], timeout_s=0.03))
    assert isinstance(error, CallError)
    assert not isinstance(error, EndpointError)
    assert "after 12 attempts" in str(error)
    assert "\n" not in str(error)


class Limited(Handler):
    """Answers so many calls a period, and tells the others to come back in the next."""

    def __init__(self, each_s: float, at_once: int, asks: str) -> None:
        super().__init__(FaultyModel(KEY, 1.0))
        self.each_s, self.at_once, self.asks = each_s, at_once, asks
        self.times: list[float] = []
        self.refused = 0

    async def _completion(self, request: dict[str, Any], messages: Messages) -> bytes | None:
        now = monotonic()
        if sum(now - at < self.each_s for at in self.times) >= self.at_once:
            self.refused += 1
            return _response(429, {"error": {"message": "slow down"}}, {"retry-after": self.asks})
        self.times.append(now)
        return await super()._completion(request, messages)


def test_a_limit_of_calls_fails_no_question() -> None:
    """Sixty questions at once where five may be asked in .05 s: all calls wait together."""
    handler = Limited(0.05, 5, "0.05")
    assert asyncio.run(answers(handler, list(KEY)[:60])) == list(KEY.values())[:60]
    assert handler.refused > 0


@pytest.mark.parametrize("asks", ["86400", "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_a_server_that_wants_to_be_left_alone_for_a_day_stops_the_run(asks: str) -> None:
    """Rather than failing sixty questions for good in a second."""
    handler = Limited(60, 5, asks)
    found = asyncio.run(answers(handler, list(KEY)[:60]))
    assert sum(isinstance(one, str) for one in found) == 5
    assert sum(isinstance(one, EndpointError) for one in found) == 55
    errors = {str(one).partition(" (after")[0] for one in found if isinstance(one, CallError)}
    assert all("it asks to wait" in error and "lower -j, or resume later" in error for error in errors)


def test_a_server_that_is_busy_for_too_long_stops_the_run() -> None:
    handler = Limited(60, 0, "0")
    (error,) = asyncio.run(answers(handler, ["1+1"]))
    assert isinstance(error, EndpointError)
    assert "it has answered no call for" in str(error)


def test_a_wrong_key_is_refused_once_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    handler = Handler(FaultyModel(KEY), key="another")
    (error,) = asyncio.run(answers(handler, ["1+1"]))
    assert isinstance(error, EndpointError)
    assert handler.requests == 1
    assert "OPENAI_API_KEY" in str(error)
    assert SECRET not in "".join(traceback.format_exception(error))


def test_a_wrong_address_says_so() -> None:
    """At once: the line names no second attempt. The port is taken by somebody who does not listen."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        model = open_openai("m", base_url=f"http://127.0.0.1:{silent.getsockname()[1]}/v1", retries=QUICK)
        with pytest.raises(EndpointError, match=r"cannot reach http://127.0.0.1:\d+/v1.*--base-url.*runs$"):
            asyncio.run(model.answer(chat("1+1")))


def test_a_server_that_goes_away_is_tried_again() -> None:
    async def ask() -> None:
        async with serve_locally(Handler(FaultyModel(KEY, 1.0))) as url:
            model = open_openai("m", base_url=url, retries=replace(QUICK, attempts=3))
            await model.answer(chat("1+1"))
        try:
            await model.answer(chat("2+2"))
        finally:
            await model.close()

    with pytest.raises(EndpointError, match=r"cannot reach .*after 3 attempts"):
        asyncio.run(ask())


def test_a_web_page_is_no_model() -> None:
    class Page(Handler):
        async def _completion(self, request: object, messages: object) -> bytes:  # noqa: ARG002
            return b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>"

    handler = Page(FaultyModel(KEY))
    (error,) = asyncio.run(answers(handler, ["1+1"]))
    assert isinstance(error, EndpointError)
    assert handler.requests == 1
    assert "usually ends in /v1" in str(error)


@pytest.mark.parametrize("cause", ["ConnectTimeout", "ReadTimeout"])
def test_no_connection_in_time_is_told_from_no_answer_in_time(cause: str) -> None:
    import httpx2

    error = Broken()
    error.__cause__ = getattr(httpx2, cause)("")
    fault = fault_of(error, "http://x")
    assert fault.absent == (cause == "ConnectTimeout")
    assert ("cannot reach" in fault.message) == fault.absent


def test_a_wrong_path_says_so() -> None:
    async def ask() -> None:
        async with serve_locally(Handler(FaultyModel(KEY))) as url:
            model = open_openai("m", base_url=url.removesuffix("/v1"), retries=QUICK)
            try:
                await model.answer(chat("1+1"))
            finally:
                await model.close()

    with pytest.raises(EndpointError, match="usually ends in /v1"):
        asyncio.run(ask())


def test_no_key_and_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(CallError, match="OPENAI_API_KEY is not set"):
        open_model("openai/gpt-4o")


def test_a_key_that_is_no_header_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "se cret\nkey")
    with pytest.raises(InvalidInput) as caught:
        open_model("openai/gpt-4o")
    assert "cret" not in str(caught.value)


def test_list_prices_hold_at_openai_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert open_model("openai/gpt-4o").price == ListPrice("openai", "gpt-4o")  # type: ignore[attr-defined]
    elsewhere = open_model("openai/gpt-4o", ModelOptions(base_url="http://localhost:1/v1"))
    assert elsewhere.price is None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://x/v1", "http://", "http://me:hunter2@x/v1", "http://[x/v1"]
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        checked_url(url)
    assert "hunter2" not in str(caught.value)


def test_hostile_answers_arrive_whole() -> None:
    hostile = {
        "html": "<script>alert(1)</script>",
        "ansi": "\x1b[2J",
        "nul": "a\0b",
        "half": "\ud800",
        "big": "x" * (5 * 10**6),
    }
    handler = Handler(FaultyModel(hostile, 1.0))
    found = asyncio.run(answers(handler, list(hostile)))
    assert found == [hostile["html"], hostile["ansi"], "a\ufffdb", "\ufffd", hostile["big"]]


def test_a_cancelled_call_is_not_tried_again() -> None:
    handler = Handler(FaultyModel(KEY, delay_s=5))

    async def cancel() -> None:
        async with serve_locally(handler) as url:
            model = open_openai("m", base_url=url, retries=QUICK)
            call = asyncio.create_task(model.answer(chat("1+1")))
            while not handler.requests:
                await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await turns(20)
            await model.close()

    asyncio.run(cancel())
    assert handler.requests == 1


@pytest.mark.parametrize(
    ("status", "code", "everywhere"),
    [
        (400, "unsupported_value", True),
        (400, "context_length_exceeded", False),
        (402, None, True),
        (403, None, True),
        (429, "insufficient_quota", True),
    ],
)
def test_refusals_of_one_question_or_of_all(status: int, code: str | None, everywhere: bool) -> None:
    class Refusing(Handler):
        async def _completion(self, request: object, messages: object) -> bytes:  # noqa: ARG002
            return _response(status, {"error": {"message": "No.\x1b[2J", "code": code}})

    handler = Refusing(FaultyModel(KEY))
    (error,) = asyncio.run(answers(handler, ["1+1"]))
    assert isinstance(error, CallError)
    assert isinstance(error, EndpointError) == everywhere
    assert handler.requests == 1
    assert "No." in str(error)
    assert "\x1b" not in str(error)


def test_the_address_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert open_openai("gpt-4o").price is None
    assert open_openai("gpt-4o").endpoint == "http://127.0.0.1:9/v1"


def test_requests_carry_the_key_and_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.delenv("OPENAI_PROJECT_ID", raising=False)
    seen: dict[str, str] = {}

    class Noting(Handler):
        async def _response(self, line: str, headers: dict[str, str], body: bytes) -> bytes | None:
            seen.update(headers)
            return await super()._response(line, headers, body)

    assert asyncio.run(answers(Noting(FaultyModel(KEY, 1.0)), ["1+1"])) == ["2"]
    assert (seen["authorization"], seen["openai-organization"]) == (f"Bearer {SECRET}", "org-1")
    assert "openai-project" not in seen
    assert seen["user-agent"].startswith("cereval/")


@pytest.mark.parametrize("port", ["99999", "0", "eight", "-1"])
def test_a_port_that_there_cannot_be_is_said_before_any_call(port: str) -> None:
    with pytest.raises(InvalidInput, match=f"base_url.*127.0.0.1:{port}"):
        checked_url(f"http://127.0.0.1:{port}/v1")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: FlatPrice(1e308, 0.0),
            "price_in must be USD per million tokens, >= 0 and at most 1e+100, got 1e+308",
        ),
        (
            lambda: FlatPrice(0.0, float("nan")),
            "price_out must be USD per million tokens, >= 0",
        ),
        (
            lambda: Settings(max_tokens=10**30),
            "max_tokens must be a whole number in 1..1,000,000,000, got 1000",
        ),
        (lambda: Settings(max_tokens=0), "max_tokens must be a whole number in 1..1,000,000,000, got 0"),
    ],
)
def test_prices_and_tokens_whose_product_is_no_number(make: Callable[[], object], says: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(says)):
        make()


def test_candidates_that_are_one_model_share_its_rate_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    async def paces(*asked: tuple[str, str]) -> list[Any]:
        opened = [open_openai(name, base_url=f"http://localhost:9/{path}") for name, path in asked]
        for model in opened:
            assert model.client.speed is model.contact.pace.speed
            await model.close()
        return [model.contact.pace for model in opened]

    first, same, other, elsewhere = asyncio.run(paces(("m", "a"), ("m", "a"), ("n", "a"), ("m", "b")))
    assert first is same
    assert len({id(one) for one in (first, other, elsewhere)}) == 3
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    (of_another_account,) = asyncio.run(paces(("m", "a")))
    assert of_another_account is not first
