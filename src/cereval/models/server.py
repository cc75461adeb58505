"""Serve any model on loopback as a small OpenAI-compatible server, with faults on the wire.

    python -m cereval.models.server --answers key.json --accuracy 0.7 --fault-rate 0.3 --delay 0.1
    python -m cereval.models.server --model local/smollm2

It prints its address as the first line of stdout and serves until it is terminated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from cereval.errors import CallError
from cereval.models import open_model
from cereval.models.base import Messages, Model, last_text
from cereval.models.local import LocalClient
from cereval.models.scripted import Faults, ScriptedModel, Turn

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class Connections:
    """Serve whoever connects, until he hangs up or `close` is called.

    The tasks are ours and not asyncio's, which logs a traceback for each of its own that is cancelled (Python 3.11).
    A connection is closed when its task is done, not by the task: it may be cancelled before it begins, or while it
    tidies up.
    """

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int = 0, *, limit: int = 2**16) -> int:
        """Begin to serve; return the port, a free one for 0. limit: the longest line, in bytes."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=limit)
        chosen: int = self._server.sockets[0].getsockname()[1]
        return chosen

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        while self._open:
            for task, writer in self._open.items():
                task.cancel()
                writer.transport.abort()
            await asyncio.wait(self._open)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None or not self._server.is_serving():
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._open[task] = writer
        task.add_done_callback(lambda done: self._open.pop(done).close())


LONGEST_BODY = 64 * 2**20


class Player(Protocol):
    """Decide what happens to one request; a `ScriptedModel` is one."""

    def turn(self, messages: Messages) -> Turn: ...


class Handler:
    """Answer and count the requests of every connection; a `timeout` fault lasts `hang_s`."""

    def __init__(self, model: Model | Player, *, key: str | None = None, hang_s: float = 3600.0) -> None:
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
        if hasattr(self.model, "turn"):
            turn: Turn = self.model.turn(messages)
            return turn
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
    parser = argparse.ArgumentParser(prog="python -m cereval.models.server", description=__doc__)
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
            print(client.url, flush=True)
            threading.Event().wait()
    else:
        model = ScriptedModel(
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
