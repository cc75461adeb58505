"""Every provider's path against a stand-in that speaks its wire format, in shapes recorded from its documentation."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from genai_prices import Usage, calc_price

from cereval import models
from cereval.cli.main import main
from cereval.errors import CallError
from cereval.models import ModelOptions, open_model, openai_model
from cereval.models.base import EndpointError, Reply, Settings
from cereval.models.prices import FlatPrice
from cereval.models.retries import Retries

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1"}]
QUICK = Retries(attempts=3, first_s=0.001, longest_s=0.01)
KEY = "sk-test"


@dataclass
class Recorder:
    """Answers everything with one body; keeps what was asked."""

    body: Any
    status: int = 200
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    url: str = ""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        recorder: Recorder = self.server.recorder  # type: ignore[attr-defined]
        length = int(self.headers.get("content-length") or 0)
        sent = json.loads(self.rfile.read(length) or b"null")
        recorder.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, sent))
        content = json.dumps(recorder.body).encode()
        self.send_response(recorder.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.recorder = found = Recorder(None)  # type: ignore[attr-defined]
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    server.server_close()
    thread.join()


def ask(name: str, **options: Any) -> Reply:
    options = {"settings": Settings(max_tokens=50), "retries": QUICK, **options}

    async def answer() -> Reply:
        model = open_model(name, ModelOptions(**options))
        try:
            return await model.answer(CHAT)
        finally:
            await model.close()

    return asyncio.run(answer())


# -- providers that speak OpenAI's protocol, each in its own way ------------------------------------------------------


def completion(message: dict[str, Any], usage: dict[str, Any], **more: Any) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", **message},
        "finish_reason": "stop",
        "logprobs": None,
    }
    return {"id": "x", "object": "chat.completion", "created": 1, "choices": [choice], "usage": usage, **more}


def counts(asked: int, said: int, total: int | None = None, **more: Any) -> dict[str, Any]:
    total = asked + said if total is None else total
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": total, **more}


DIRECT: dict[str, tuple[str, dict[str, Any], dict[str, int]]] = {
    # provider: its model, what it answers, and the usage that it bills
    "anthropic": (
        "claude-sonnet-4-5",
        completion({"content": "2"}, counts(1200, 40), system_fingerprint=None),
        {"input_tokens": 1200, "output_tokens": 40},
    ),
    "deepseek": (
        "deepseek-chat",
        completion(
            {"content": "2", "reasoning_content": "One and one."},
            counts(
                1200,
                40,
                prompt_cache_hit_tokens=1024,
                prompt_cache_miss_tokens=176,
                completion_tokens_details={"reasoning_tokens": 30},
            ),
        ),
        {"input_tokens": 1200, "output_tokens": 40, "cache_read_tokens": 1024, "output_reasoning_tokens": 30},
    ),
    "gemini": (
        "gemini-2.5-pro",
        completion({"content": "2"}, counts(1200, 40, 1500)),  # 260 tokens of thoughts are in the total alone
        {"input_tokens": 1200, "output_tokens": 300},
    ),
    "groq": (
        "llama-3.1-8b-instant",
        completion(
            {"content": "2"},
            counts(1200, 40, queue_time=0.03, prompt_time=0.001, completion_time=0.01, total_time=0.011),
            x_groq={"id": "req_1"},
        ),
        {"input_tokens": 1200, "output_tokens": 40},
    ),
    "mistral": (
        "mistral-large-latest",
        completion(
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "One and one."}]},
                    {"type": "text", "text": "2"},
                ],
                "tool_calls": None,
                "prefix": False,
            },
            counts(1200, 40),
        ),
        {"input_tokens": 1200, "output_tokens": 40},
    ),
    "openrouter": (
        "openai/gpt-4o-mini",
        completion(
            {"content": "2", "refusal": None, "reasoning": None},
            counts(
                1200,
                40,
                cost=0.0003,
                is_byok=False,
                prompt_tokens_details={"cached_tokens": 1024, "audio_tokens": 0},
                completion_tokens_details={"reasoning_tokens": 0, "image_tokens": 0},
            ),
            provider="OpenAI",
        ),
        {"input_tokens": 1200, "output_tokens": 40, "cache_read_tokens": 1024},
    ),
    "together": (
        "meta-llama/Llama-3.3-70B-Instruct-Turbo",
        completion({"content": "2", "tool_calls": []}, counts(1200, 40, cached_tokens=0), prompt=[]),
        {"input_tokens": 1200, "output_tokens": 40},
    ),
    "xai": (
        "grok-4",
        completion(  # reasoning is beside what it says, and in the total
            {"content": "2", "refusal": None},
            counts(
                1200,
                40,
                1540,
                prompt_tokens_details={"text_tokens": 1200, "cached_tokens": 1024},
                completion_tokens_details={"reasoning_tokens": 300},
                num_sources_used=0,
            ),
        ),
        {
            "input_tokens": 1200,
            "output_tokens": 340,
            "cache_read_tokens": 1024,
            "output_reasoning_tokens": 300,
        },
    ),
}


def move(provider: str, url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have a provider be asked at another host; return the path that is its own."""
    known = openai_model.PROVIDERS[provider]
    path = "/" + known.base_url.split("/", 3)[3]
    here = {**openai_model.PROVIDERS, provider: openai_model.Provider(url + path, known.key_variable)}
    for module in (models, openai_model):
        monkeypatch.setattr(module, "PROVIDERS", here)
    monkeypatch.setenv(known.key_variable, KEY)
    return path


@pytest.mark.parametrize("provider", DIRECT)
def test_a_provider_with_openais_protocol(
    provider: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(DIRECT) == set(openai_model.PROVIDERS)
    name, recorder.body, usage = DIRECT[provider]
    path = move(provider, recorder.url, monkeypatch)
    reply = ask(f"{provider}/{name}")
    ((asked, headers, body),) = recorder.asked
    assert (asked, headers["authorization"]) == (f"{path}/chat/completions", f"Bearer {KEY}")
    assert (body["model"], body["messages"], body["max_tokens"]) == (name, CHAT, 50)
    assert (reply.text, reply.finish_reason) == ("2", "stop")
    assert (reply.input_tokens, reply.output_tokens) == (usage["input_tokens"], usage["output_tokens"])
    billed = calc_price(Usage(**usage), name, provider_id=provider).total_price
    assert reply.cost_usd == pytest.approx(float(billed), rel=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        *(f"{provider}/{name}" for provider, (name, _, _) in DIRECT.items()),
        "anthropic/claude-haiku-4-5-20251001",
        "gemini/gemini-2.5-flash",
    ],
)
def test_the_price_of_a_run_is_the_figure_of_genai_prices(
    model: str,
    recorder: Recorder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    provider, _, name = model.partition("/")
    move(provider, recorder.url, monkeypatch)
    _, recorder.body, usage = DIRECT[provider]
    rows = [json.dumps({"question": f"{n} + 1?", "answer": str(n + 1)}) for n in range(30)]
    (tmp_path / "q.jsonl").write_text("\n".join(rows))
    assert main(["run", "q.jsonl", "--model", model, "--eps", "0.3", "--seed", "1", "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    billed = float(calc_price(Usage(**usage), name, provider_id=provider).total_price)
    assert run["calls"] == len(recorder.asked) > 0
    assert run["cost_usd"] == pytest.approx(run["calls"] * billed, rel=1e-9)
    assert run["priced_by"].startswith("genai-prices ")


def test_the_price_of_a_model_that_nobody_knows_is_unknown(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    move("groq", recorder.url, monkeypatch)
    recorder.body = DIRECT["groq"][1]
    rows = [json.dumps({"question": f"{n} + 1?", "answer": str(n + 1)}) for n in range(30)]
    (tmp_path / "q.jsonl").write_text("\n".join(rows))
    line = ["run", "q.jsonl", "--model", "groq/unheard-of", "--eps", "0.3"]
    assert main([*line, "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    assert (run["cost_usd"], run["priced_by"]) == (None, None)
    assert main(["report", run["run_id"], "-o", "report.html"]) == 0
    assert "unknown" in (tmp_path / "report.html").read_text()
    assert main([*line, "--max-usd", "1", "--fresh"]) == 1
    assert "price" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["/openai/v1", "/api/v1"])
def test_azure_and_bedrock_by_their_address(
    path: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """https://RESOURCE.openai.azure.com/openai/v1, and Bedrock's, which ends alike."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    recorder.body = completion({"content": "2"}, counts(9, 1), prompt_filter_results=[{"prompt_index": 0}])
    reply = ask("openai/my-deployment", base_url=recorder.url + path, price=FlatPrice(1.0, 1.0))
    ((asked, headers, body),) = recorder.asked
    assert (asked, headers["authorization"]) == (f"{path}/chat/completions", f"Bearer {KEY}")
    assert (body["model"], reply.text, reply.cost_usd) == ("my-deployment", "2", pytest.approx(1e-5))


@pytest.mark.parametrize(
    ("status", "body", "says", "everywhere"),
    [
        pytest.param(  # one question only
            400,
            {
                "error": {
                    "message": "The response was filtered due to the prompt triggering Azure OpenAI's policy.",
                    "code": "content_filter",
                    "param": "prompt",
                    "innererror": {"code": "ResponsibleAIPolicyViolation"},
                }
            },
            "filtered due to the prompt",
            False,
            id="azure",
        ),
        pytest.param(
            200,
            {"error": {"code": 502, "message": "Provider returned error", "metadata": {}}},
            "Provider returned error",
            False,
            id="openrouter",
        ),
        pytest.param(
            401,
            {"detail": "Unauthorized"},
            "refuses the API key",
            True,
            id="mistral",
        ),
        pytest.param(
            404,
            [{"error": {"code": 404, "message": "models/x is not found", "status": "NOT_FOUND"}}],
            "models/x is not found",
            True,
            id="gemini",
        ),
    ],
)
def test_what_providers_say_is_wrong(
    status: int, body: Any, says: str, everywhere: bool, recorder: Recorder
) -> None:
    recorder.status, recorder.body = status, body
    with pytest.raises(CallError, match=says) as caught:
        ask("openai/m", base_url=recorder.url + "/v1")
    assert isinstance(caught.value, EndpointError) == everywhere


# -- the others, through any-llm --------------------------------------------------------------------------------------


OTHERS: dict[str, tuple[str, dict[str, str], str, dict[str, Any]]] = {
    # provider: the package that it needs, its environment ({url}: the stand-in), where it is asked, what it answers
    "anthropic": (
        "anthropic",
        {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "{url}"},
        "/v1/messages",
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "2"}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 100, "output_tokens": 10},
        },
    ),
    "bedrock": (
        "boto3",
        {
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "{url}",
        },
        "/model/m/converse",
        {
            "output": {"message": {"role": "assistant", "content": [{"text": "2"}]}},
            "stopReason": "end_turn",
            "usage": {"inputTokens": 100, "outputTokens": 10, "totalTokens": 110},
            "metrics": {"latencyMs": 5},
        },
    ),
    "cohere": (
        "cohere",
        {"COHERE_API_KEY": KEY, "CO_API_KEY": KEY, "CO_API_URL": "{url}"},
        "/v2/chat",
        {
            "id": "x",
            "finish_reason": "COMPLETE",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "2"}]},
            "usage": {
                "billed_units": {"input_tokens": 100, "output_tokens": 10},
                "tokens": {"input_tokens": 100, "output_tokens": 10},
            },
        },
    ),
    "gemini": (
        "google.genai",
        {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": "{url}"},
        "/v1/models/m:generateContent",
        {
            "candidates": [
                {"content": {"role": "model", "parts": [{"text": "2"}]}, "finishReason": "STOP", "index": 0}
            ],
            "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110},
            "modelVersion": "m",
        },
    ),
    "mistral": (
        "mistralai",
        {"MISTRAL_API_KEY": KEY, "MISTRAL_API_BASE": "{url}"},
        "/v1/chat/completions",
        completion({"content": "2"}, counts(100, 10), model="m"),
    ),
    "ollama": (
        "ollama",
        {"OLLAMA_HOST": "{url}"},
        "/api/chat",
        {
            "model": "m",
            "created_at": "2026-11-19T00:00:00Z",
            "message": {"role": "assistant", "content": "2"},
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 100,
            "eval_count": 10,
        },
    ),
    "azureopenai": (
        "openai",
        {
            "AZURE_OPENAI_API_KEY": KEY,
            "AZURE_OPENAI_ENDPOINT": "{url}",
            "OPENAI_API_VERSION": "preview",
        },
        "/openai/v1/chat/completions",
        completion({"content": "2"}, counts(100, 10), model="m"),
    ),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("provider", OTHERS)
def test_a_provider_through_any_llm(
    provider: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("any_llm", reason="pip install 'cereval[any]'")
    package, variables, path, recorder.body = OTHERS[provider]
    pytest.importorskip(package, reason=f"pip install 'any-llm-sdk[{provider}]'")
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(url=recorder.url))
    reply = ask(f"any/{provider}/m", price=FlatPrice(1.0, 10.0))
    asked, _, body = recorder.asked[-1]
    assert asked.partition("?")[0] == path
    assert "Be brief." in json.dumps(body)
    assert (reply.text, reply.finish_reason) == ("2", "stop")
    assert (reply.input_tokens, reply.output_tokens) == (100, 10)
    assert reply.cost_usd == pytest.approx(200 / 1e6)
    recorder.status, recorder.body = 429, {"error": {"message": "slow down", "type": "rate_limit_error"}}
    recorder.asked.clear()
    with pytest.raises(EndpointError, match="429"):
        ask(f"any/{provider}/m", retries=Retries(first_s=0.01, longest_s=0.01, patience_s=0.05))
    assert len(recorder.asked) > 1
    gc.collect()  # SDKs that cannot be closed leave a connection behind
