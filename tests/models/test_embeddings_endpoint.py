"""The embeddings endpoint against a loopback server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from cereval.errors import CallError, InvalidInput
from cereval.models.embeddings import EmbeddingsEndpoint, vectors_from
from cereval.models.retries import Retries


class Answers(BaseHTTPRequestHandler):
    """Embeds a text as (its length, 1), out of order, after `failures` answers of 503."""

    failures = 0
    requests: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).requests.append({"path": self.path, **body})
        if type(self).failures:
            type(self).failures -= 1
            return self._send(503, {"error": {"message": "busy"}})
        rows = [{"index": i, "embedding": [float(len(text)), 1.0]} for i, text in enumerate(body["input"])]
        return self._send(200, {"data": rows[::-1]})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[str]:
    Answers.failures, Answers.requests = 0, []
    made = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}/v1"
    made.shutdown()
    thread.join()
    made.server_close()


def test_texts_come_back_in_order_over_several_batches(server: str) -> None:
    texts = ["x" * n for n in range(7)]
    vectors = EmbeddingsEndpoint("small", server, batch=3).embed(texts)
    lengths = np.array([1.0, 1, 2, 3, 4, 5, 6])
    np.testing.assert_allclose(vectors[:, 0] / vectors[:, 1], lengths, rtol=1e-5)
    assert {request["path"] for request in Answers.requests} == {"/v1/embeddings"}
    assert len(Answers.requests) == 3


def test_a_busy_server_is_tried_again_and_a_broken_one_given_up(server: str) -> None:
    patient = EmbeddingsEndpoint("small", server, retries=Retries(attempts=3, first_s=0.0, longest_s=0.0))
    Answers.failures = 2
    assert patient.embed(["abc"]).shape == (1, 2)
    Answers.failures = 9
    with pytest.raises(CallError):
        patient.embed(["abc"])


def test_dimensions_are_asked_for(server: str) -> None:
    EmbeddingsEndpoint("small", server, dimensions=2).embed(["abc"])
    assert Answers.requests[0]["dimensions"] == 2


@pytest.mark.parametrize("body", [{}, {"data": []}, {"data": [{"index": 0, "embedding": ["x"]}]}, None])
def test_an_answer_that_is_no_embedding_is_a_call_error(body: object) -> None:
    with pytest.raises(CallError):
        vectors_from(body, 1)


def test_no_key_and_no_server_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(CallError, match="OPENAI_API_KEY"):
        EmbeddingsEndpoint("small").embed(["abc"])


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InvalidInput, match="batch"):
        EmbeddingsEndpoint("small", batch=0)
    with pytest.raises(InvalidInput, match="base_url"):
        EmbeddingsEndpoint("small", "ftp://somewhere")
