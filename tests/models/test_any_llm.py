"""`any/PROVIDER/NAME`: other providers through any-llm, a stand-in for it here, and the package where it is there."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from benchmarks.model_server import FaultyModel, Handler, serve_locally

from cereval.errors import CallError, InvalidInput, Misuse
from cereval.models import ModelOptions, open_model
from cereval.models.any_llm_model import translated
from cereval.models.base import EndpointError, Settings
from cereval.models.prices import FlatPrice
from cereval.models.retries import Broken, Retries

CHAT = [{"role": "user", "content": "1+1"}]


class AnyLLMError(Exception):
    def __init__(self, message: str = "no", **known: Any) -> None:
        super().__init__(message)
        self.message = message
        for name, value in known.items():
            setattr(self, name, value)


class UnsupportedParameterError(AnyLLMError): ...


class RateLimitError(AnyLLMError): ...


class MissingApiKeyError(AnyLLMError): ...


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """any-llm with two providers, of which one cannot be told how often to try."""
    seen = SimpleNamespace(asked=[], created=[], errors=[])

    class AnyLLM:
        @staticmethod
        def create(provider: str, **given: Any) -> Any:
            seen.created.append((provider, given))
            if provider == "keyless":
                raise MissingApiKeyError("set KEYLESS_API_KEY")
            if provider == "stubborn" and "max_retries" in given:
                raise UnsupportedParameterError

            async def acompletion(**request: Any) -> Any:
                seen.asked.append(request)
                if seen.errors:
                    raise seen.errors.pop(0)
                choice = {"message": {"content": "2"}, "finish_reason": "stop"}
                usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
                body = {"model": "served", "choices": [choice], "usage": usage}
                return SimpleNamespace(model_dump=lambda: body)

            return SimpleNamespace(acompletion=acompletion)

    module = ModuleType("any_llm")
    errors = (AnyLLMError, UnsupportedParameterError, RateLimitError, MissingApiKeyError)
    for one in (AnyLLM, *errors):
        setattr(module, one.__name__, one)
    monkeypatch.setitem(sys.modules, "any_llm", module)
    return seen


def options() -> ModelOptions:
    quick = Retries(first_s=0.001, longest_s=0.01)
    return ModelOptions(settings=Settings(max_tokens=5), price=FlatPrice(1.0, 2.0), retries=quick)


@pytest.mark.parametrize("provider", ["bedrock", "stubborn"])
def test_a_chat_goes_through_it_and_comes_back_as_any_other(provider: str, stand_in: SimpleNamespace) -> None:
    stand_in.errors = [RateLimitError(retry_after="0.001"), AnyLLMError(status_code=503)]
    reply = asyncio.run(open_model(f"any/{provider}/amazon.nova/x", options()).answer(CHAT))
    assert (reply.text, reply.served, reply.finish_reason, reply.attempts) == ("2", "served", "stop", 3)
    assert reply.cost_usd == pytest.approx(12 / 1e6)
    wanted = {"model": "amazon.nova/x", "messages": CHAT, "temperature": 0.0, "max_tokens": 5}
    assert stand_in.asked[-1] == wanted
    assert ("max_retries" in stand_in.created[-1][1]) == (provider == "bedrock")


def test_what_is_wrong_is_one_line(stand_in: SimpleNamespace) -> None:
    with pytest.raises(CallError, match="any/keyless cannot be asked: 'set KEYLESS_API_KEY'"):
        open_model("any/keyless/m", options())
    with pytest.raises(InvalidInput, match="any/PROVIDER/NAME"):
        open_model("any/bedrock", options())
    stand_in.errors = [AnyLLMError("no such model", status_code=404)]
    with pytest.raises(EndpointError, match="no such model"):
        asyncio.run(open_model("any/bedrock/m", options()).answer(CHAT))
    assert isinstance(translated(OSError("gone")), Broken)


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "any_llm", None)
    with pytest.raises(Misuse, match=r"pip install 'cereval\[any\]'"):
        open_model("any/bedrock/m", options())


def test_the_package_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("any_llm", reason="pip install 'cereval[any]'")
    handler = Handler(FaultyModel({"1+1": "2"}, 1.0))

    async def ask() -> Any:
        async with serve_locally(handler) as url:
            monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
            monkeypatch.setenv("OPENAI_BASE_URL", url)
            return await open_model("any/openai/m", options()).answer(CHAT)

    reply = asyncio.run(ask())
    assert (reply.text, reply.finish_reason) == ("2", "stop")
    assert reply.cost_usd
