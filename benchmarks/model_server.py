"""A model that answers from a key, errs and fails on purpose, and a server for it or any other: for tests too.

    python -m benchmarks.model_server --answers key.json --accuracy 0.7 --fault-rate 0.3 --delay 0.1
    python -m benchmarks.model_server --model local/smollm2

It is OpenAI-compatible, with faults on the wire. It prints its address as the first line of stdout and serves on
loopback until it is terminated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from benchmarks.connections import Connections
from cereval.errors import CallError, InvalidInput
from cereval.models import open_model
from cereval.models.base import Messages, Model, Reply, last_text
from cereval.models.local import LocalClient
from cereval.models.retries import Fault, FaultError, Retries, ask_with_retries, fault_of
from cereval.models.scripted import ScriptedModel

FaultKind = Literal["429", "500", "timeout", "cut", "drop"]

FAULTS: Mapping[str, Fault] = {
    "429": Fault("scripted: too many requests (429)", retryable=True),
    "500": Fault("scripted: server error (500)", retryable=True),
    "timeout": Fault("scripted: no answer in time", retryable=True),
    "cut": Fault("scripted: an answer that is cut off", retryable=True),
    "drop": Fault("scripted: the connection broke", retryable=True),
}


QUICK_RETRIES = Retries(first_s=0.001, longest_s=0.01)


@dataclass(frozen=True, slots=True)
class Faults:
    """Describe injected faults: each attempt fails with chance `rate`, in one of `kinds`."""

    rate: float = 0.0
    kinds: tuple[FaultKind, ...] = ("429", "500", "timeout", "cut", "drop")

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise InvalidInput("fault_rate", "in [0, 1]", self.rate)
        unknown = [kind for kind in self.kinds if kind not in FAULTS]
        if unknown or not self.kinds:
            raise InvalidInput("kinds", f"some of {', '.join(FAULTS)}", unknown)


@dataclass(frozen=True, slots=True)
class Turn:
    """What happens in one attempt: a fault or a text, after a delay."""

    text: str
    delay_s: float = 0.0
    fault: FaultKind | None = None


@dataclass(frozen=True, slots=True)
class FaultyModel(ScriptedModel):
    """A scripted model whose attempts may fail, and whose delays tell.

    `chances`: those of single questions, in place of `accuracy`. `slow_when_wrong_s` is added to `delay_s` for wrong
    answers: a runner that consumes answers as they arrive, not in draw order, is biased by it.

    >>> model = FaultyModel({"1+1": "2", "2+2": "4"}, accuracy=1.0)
    >>> model.turn([{"role": "user", "content": "What is 2+2 ?"}]).text
    '4'
    >>> model.true_accuracy()
    1.0
    """

    chances: Mapping[str, float] | None = None
    faults: Faults = field(default_factory=Faults)
    delay_s: float = 0.0
    slow_when_wrong_s: float = 0.0
    retries: Retries = QUICK_RETRIES
    attempts: Counter[str] = field(default_factory=Counter, repr=False, compare=False)

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:
        if top_logprobs:
            return await ScriptedModel.answer(self, messages, top_logprobs=top_logprobs)
        fault = partial(fault_of, endpoint=self.name)
        return await ask_with_retries(lambda: self._attempt(messages), fault, self.retries)

    def turn(self, messages: Messages) -> Turn:
        """The next attempt at a prompt; attempts are counted, so that a retry may meet a different fate."""
        prompt = last_text(messages)
        self.attempts[prompt] += 1
        fault = self._fault(prompt, self.attempts[prompt])
        if fault is not None:
            return Turn("", self.delay_s, fault)
        del self.attempts[prompt]
        text, right = self.text_for(prompt)
        return Turn(text, self.delay_s + (0.0 if right else self.slow_when_wrong_s))

    def is_right(self, question: str) -> bool:
        chance = self.accuracy if self.chances is None else self.chances.get(question, 0.0)
        return self.draw("right", question) < chance

    def true_accuracy(self) -> float:
        """The share of the key that is answered rightly: what a full run would find."""
        return sum(map(self.is_right, self.key)) / len(self.key)

    async def _attempt(self, messages: Messages) -> Reply:
        turn = self.turn(messages)
        if turn.delay_s:
            await asyncio.sleep(turn.delay_s)
        if turn.fault is not None:
            raise FaultError(FAULTS[turn.fault])
        return Reply(turn.text, len(last_text(messages).split()), len(turn.text.split()))

    def _fault(self, prompt: str, attempt: int) -> FaultKind | None:
        if self.faults.rate == 0 or self.draw(f"fault {attempt}", prompt) >= self.faults.rate:
            return None
        return self.faults.kinds[int(self.draw(f"kind {attempt}", prompt) * len(self.faults.kinds))]


LONGEST_BODY = 64 * 2**20


class Handler:
    """Answer and count the requests of every connection; a `timeout` fault lasts `hang_s`."""

    def __init__(self, model: Model, *, key: str | None = None, hang_s: float = 3600.0) -> None:
        self.model, self.key, self.hang_s = model, key, hang_s
        self.requests = 0
        self.answered = 0
        self.busy = 0

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one keep-alive connection, until either side hangs up."""
        with suppress(EOFError, ConnectionError, asyncio.LimitOverrunError, ValueError):
            while await self._exchange(reader, writer):
                pass

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
        }
        body = await reader.readexactly(min(int(headers.get("content-length", 0)), LONGEST_BODY))
        self.requests += 1
        self.busy += 1
        try:
            answer = await self._response(head[0], headers, body)
        finally:
            self.busy -= 1
        if answer is None:
            return False
        writer.write(answer)
        await writer.drain()
        return True

    async def _response(self, line: str, headers: dict[str, str], body: bytes) -> bytes | None:
        method, path = line.split(" ")[:2]
        if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            # Some servers echo the key they refuse; so does this one, to prove that it is scrubbed.
            return _error(401, f"Incorrect API key provided: {headers.get('authorization', '')}")
        if (method, path) == ("GET", "/v1/models"):
            return _response(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})
        if (method, path) != ("POST", "/v1/chat/completions"):
            return _error(404, f"no {method} {path} here")
        try:
            request = json.loads(body)
            messages: Messages = request["messages"]
        except (ValueError, KeyError, TypeError):
            return _error(400, "the body must be a chat completion request")
        return await self._completion(request, messages)

    async def _completion(self, request: dict[str, Any], messages: Messages) -> bytes | None:
        try:
            turn = await self._turn(request, messages)
        except CallError as error:
            return _error(500, str(error))
        await asyncio.sleep(turn.delay_s)
        if turn.fault == "timeout":
            await asyncio.sleep(self.hang_s)
        if turn.fault in ("drop", "timeout"):
            return None
        if turn.fault in ("429", "500"):
            return _error(
                int(turn.fault), "injected", {"retry-after-ms": "10"} if turn.fault == "429" else {}
            )
        self.answered += turn.fault is None
        completion = _completion(str(request.get("model", "scripted")), turn.text, last_text(messages))
        return _response(200, completion, cut=turn.fault == "cut")

    async def _turn(self, request: dict[str, Any], messages: Messages) -> Turn:
        if isinstance(self.model, FaultyModel):
            return self.model.turn(messages)
        reply = await self.model.answer(messages, top_logprobs=int(request.get("top_logprobs") or 0))
        return Turn(reply.text)


@asynccontextmanager
async def serve_locally(handler: Handler, port: int = 0) -> AsyncIterator[str]:
    """Serve on loopback while the context is open; yield the base URL."""
    connections = Connections(handler.connection)
    port = await connections.listen("127.0.0.1", port, limit=2**20)
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        await connections.close()


def _completion(model: str, text: str, prompt: str) -> dict[str, Any]:
    tokens_in, tokens_out = len(prompt.split()), len(text.split())
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        },
    }


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> bytes:
    return _response(status, {"error": {"message": message, "type": "injected", "code": None}}, headers)


def _response(
    status: int, value: object, headers: dict[str, str] | None = None, *, cut: bool = False
) -> bytes:
    body = json.dumps(value).encode()
    body = body[: len(body) // 2] if cut else body
    lines = {"content-type": "application/json", "content-length": str(len(body))} | (headers or {})
    head = f"HTTP/1.1 {status} -\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return head.encode("latin-1", "replace") + b"\r\n" + body


async def _serve(handler: Handler, port: int) -> None:
    async with serve_locally(handler, port) as url:
        print(url, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.model_server", description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--answers", help="JSON file: question -> right answer")
    source.add_argument("--model", help="a real model to serve, such as local/smollm2")
    parser.add_argument("--accuracy", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault-rate", type=float, default=0.0)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before every answer")
    parser.add_argument(
        "--slow-when-wrong", type=float, default=0.0, help="more seconds before wrong answers"
    )
    parser.add_argument("--hang", type=float, default=3600.0, help="seconds that a `timeout` fault lasts")
    parser.add_argument("--key", help="refuse requests with another API key")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    if options.model:
        model = open_model(options.model)
        client = getattr(model, "client", None)
        if isinstance(client, LocalClient):
            # llama.cpp brings a server of its own, which honours every field of a request.
            print(f"{client.server.listening_address}/v1", flush=True)
            threading.Event().wait()
    else:
        model = FaultyModel(
            json.loads(Path(options.answers).read_text(encoding="utf-8")),
            options.accuracy,
            seed=options.seed,
            faults=Faults(options.fault_rate),
            delay_s=options.delay,
            slow_when_wrong_s=options.slow_when_wrong,
        )
    asyncio.run(_serve(Handler(model, key=options.key, hang_s=options.hang), options.port))


if __name__ == "__main__":
    main()
