"""A server on this machine whose answers are nearly what a model's should be."""

from __future__ import annotations

import gzip
import json
import random
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from tests.fuzz.files import written_json
from tests.fuzz.values import TEXTS, mutated

STATUSES = (200, 201, 204, 301, 307, 400, 401, 403, 404, 413, 418, 422, 429, 500, 503, 529, 599)
HEADERS = (
    ("Retry-After", "nan"),
    ("Retry-After", "-1"),
    ("Retry-After", "9" * 400),
    ("Retry-After", "Mon, 99 Nov 9999 00:00:00 GMT"),
    ("Location", "http://127.0.0.1:9/v1"),
    ("Location", "http://[::1"),
    ("Content-Encoding", "gzip"),
    ("Content-Encoding", "zstd"),
    ("Content-Type", "text/html; charset=nothing"),
    ("Content-Type", "application/json; charset=utf-16"),
)


def answering(rng: random.Random) -> int:
    """Start a server that spoils some of its answers, or all; return its port."""
    share, seed = rng.choice((1.0, 0.5, 0.1)), rng.random()

    class Answers(_Answers):
        rng, spoilt = random.Random(seed), share

    server = _Server(("127.0.0.1", 0), Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def impatient() -> None:
    """Have calls that fail be tried again at once: waiting takes time and shows nothing."""
    from cereval.models.retries import Retries

    Retries.__init__.__defaults__ = (2, 0.001, 0.01, 0.05)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of callers who hang up."""


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    rng: random.Random
    spoilt: float

    def do_POST(self) -> None:
        """Answer a request for a completion."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, content, headers = 200, json.dumps(_completion()).encode(), list[tuple[str, str]]()
        if self.rng.random() < self.spoilt:
            status, content, headers = _spoilt(self.rng)
        with suppress(OSError):
            self._send(status, content, headers)

    def _send(self, status: int, content: bytes, headers: list[tuple[str, str]]) -> None:
        self.send_response(status)
        for name, value in headers or [("Content-Type", "application/json")]:
            self.send_header(name, value)
        cut = self.rng.random() < 0.02
        self.send_header("Content-Length", str(len(content) + cut))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = cut

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _completion() -> dict[str, object]:
    message = {"role": "assistant", "content": "4", "refusal": None, "tool_calls": None}
    token = {"token": "4", "logprob": -0.1, "bytes": [52], "top_logprobs": [{"token": "A", "logprob": -0.5}]}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": {"content": [token]}}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    named = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
    return {**named, "choices": [choice], "usage": usage, "error": None}


def _spoilt(rng: random.Random) -> tuple[int, bytes, list[tuple[str, str]]]:
    kind = rng.random()
    if kind < 0.6:
        return 200, written_json(mutated(_completion(), rng), rng), []
    status = rng.choice(STATUSES)
    error = {"error": {"message": rng.choice(TEXTS), "code": "model_not_found", "type": "x", "param": None}}
    content = written_json(mutated(error, rng), rng)
    if kind < 0.7:
        status, content = (
            200,
            rng.choice((b"", b"null", b"[]", b"[" * 5000, b"\xff\xfe", b"<html>", b"data: {}\n\n")),
        )
    if status == 204:
        content = b""
    headers = rng.sample(HEADERS, rng.choice((0, 0, 1, 2)))
    if ("Content-Encoding", "gzip") in headers and rng.random() < 0.7:
        content = gzip.compress(content + b" " * rng.choice((0, 2**26)))
    return status, content, headers
