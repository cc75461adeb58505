"""Open the SDK's client: answers are read up to a limit, redirects stay on the host, keys come from the environment.

This module imports the SDK, which is slow: import it where a client is opened.
"""

from __future__ import annotations

import os
from typing import Any

import openai

from cereval.errors import CallError, InvalidInput
from cereval.models.gate import on_the_wire
from cereval.models.retries import HIDDEN, Fault, FaultError

MIB = 2**20
ANSWER_LIMIT = 8 * MIB
"""Bytes of a model's answer, unpacked: a million tokens take about four."""

VECTORS_LIMIT = 256 * MIB
"""Bytes of one batch of embeddings."""

NO_KEY = "none"
"""The SDK wants a key even for servers that want none."""

LONGEST_CONNECT_S = 5.0
"""A server that is there takes a call at once, however long it then thinks."""

MOST_REDIRECTS = 5
PACKED = ("", "identity", "gzip", "deflate")
"""Ways of packing that are asked for: others unpack a few bytes to gigabytes before they can be counted."""


def open_client(
    base_url: str | None,
    timeout_s: float,
    key_variable: str,
    limit: int = ANSWER_LIMIT,
    *,
    needs_key: bool = False,
) -> Any:
    """Open a client of the SDK; servers of one's own (a `base_url`) need no key."""
    key = api_key(key_variable)
    if key is None and needs_key:
        raise CallError(f"{key_variable} is not set; export your key")
    if key is None and base_url is None:
        raise CallError(
            f"{key_variable} is not set; export your key, or give --base-url for a server of your own"
        )
    timeout = openai.Timeout(timeout_s, connect=min(timeout_s, LONGEST_CONNECT_S))
    return openai.AsyncOpenAI(
        api_key=key or NO_KEY,
        base_url=base_url,
        timeout=timeout,
        max_retries=0,
        http_client=BoundedClient(limit, timeout=timeout),
    )


def key_of(client: Any) -> str | None:
    """Read the key that a client sends; None for one that sends none."""
    key: str = client.api_key
    return None if key == NO_KEY else key


def api_key(variable: str) -> str | None:
    """Read the key in an environment variable, stripped; `None` when unset or blank."""
    key = os.environ.get(variable, "").strip()
    if not all("!" <= letter <= "~" for letter in key):
        raise InvalidInput(variable, "one line of printable ASCII without blanks", HIDDEN)
    return key or None


class BoundedClient(openai.DefaultAsyncHttpxClient):
    """Read every answer, also of an error, up to `limit` bytes; more, or a redirect elsewhere, is a `FaultError`.

    The SDK wraps what is raised here in an error of its own, whose cause `fault_of` looks at.
    """

    def __init__(self, limit: int = ANSWER_LIMIT, **options: Any) -> None:
        super().__init__(**options)
        self.headers["accept-encoding"] = "gzip, deflate"
        self.limit = limit

    async def send(self, request: Any, **options: Any) -> Any:
        """Send a request and read its answer; follow redirects on the same host only."""
        async with on_the_wire():
            return await self._answer(request, options)

    async def _answer(self, request: Any, options: dict[str, Any]) -> Any:
        options |= {"stream": True, "follow_redirects": False}
        for _ in range(MOST_REDIRECTS):
            response = await super().send(request, **options)
            try:
                if response.next_request is None:
                    return await self._read(response)
                request = _stays(request, response.next_request)
            finally:
                await response.aclose()
        raise FaultError(
            Fault(f"{request.url.host} redirects without end", by_question=True, everywhere=True)
        )

    async def _read(self, response: Any) -> Any:
        """Copy a response with its body in memory: what unpacks to more than the limit is cut off."""
        packing = response.headers.get("content-encoding", "").strip().lower()
        if packing not in PACKED:
            raise FaultError(Fault(f"{response.url.host} packed its answer in a way that nobody asked for"))
        body = bytearray()
        async for part in response.aiter_bytes():
            body += part
            if len(body) > self.limit:
                size = f"more than {self.limit // MIB} MiB"
                raise FaultError(Fault(f"{response.url.host} sent an answer of {size}; lower --max-tokens"))
        unpacked = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name.lower() not in ("content-encoding", "content-length", "transfer-encoding")
        ]
        return type(response)(
            response.status_code, headers=unpacked, content=bytes(body), request=response.request
        )


def _stays(request: Any, following: Any) -> Any:
    """Check that a redirect leads to the same host, and not from https to http: the prompts go along."""
    here, there = request.url, following.url
    if there.host != here.host or (here.scheme == "https" and there.scheme != "https"):
        place = f"{there.scheme}://{there.host}, which is not followed; check --base-url"
        raise FaultError(Fault(f"{here.host} redirects to {place}", everywhere=True, by_question=True))
    return following
