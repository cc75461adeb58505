"""A scripted OpenAI-compatible server in a thread: counts what it is asked, and may send log-probabilities."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Told = Mapping[str, Any]
"""`text`, and where there are some `logprobs`: token -> log-probability; `served`: the name of who answers; `ended`:
why it stopped."""


class Server(ThreadingHTTPServer):
    """asked: how often each (model, last message) came. keys, bodies: what was sent along."""

    daemon_threads = True

    def __init__(self, answer: Callable[[str, str], Told]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.refuses: tuple[str, ...] = ()
        """Fields of a request that are not taken."""
        self.asked: Counter[tuple[str, str]] = Counter()
        self.keys: set[str] = set()
        self.bodies: list[Mapping[str, Any]] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: the second of two waits 40 ms for the first one's receipt
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        model, text = body["model"], body["messages"][-1]["content"]
        with self.server.lock:
            self.server.asked[model, text] += 1
            self.server.keys.add(self.headers.get("authorization", ""))
            self.server.bodies.append(body)
            told = self.server.answer(model, text)
        refused = [name for name in self.server.refuses if name in body]
        if refused:
            error = {"code": "unsupported_parameter", "param": refused[0], "message": f"no {refused[0]} here"}
            self._send(400, {"error": error})
            return
        tokens = [{"token": token, "logprob": value} for token, value in told.get("logprobs", {}).items()]
        sent = {"content": [{**tokens[0], "top_logprobs": tokens}]} if tokens else None
        message = {"role": "assistant", "content": told["text"]}
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": told.get("ended", "stop"),
            "logprobs": sent,
        }
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        self._send(200, {"model": told.get("served", model), "choices": [choice], "usage": usage})

    def _send(self, status: int, content: Any) -> None:
        answer = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def served(answer: Callable[[str, str], Told]) -> Iterator[Server]:
    """Serve while the context is open."""
    server = Server(answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
