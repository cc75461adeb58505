"""Post JSON to a server: answers are read up to a limit, redirects stay on the host, keys come from the environment.

Of the many things that OpenAI's own SDK can do a run needs one, to post JSON; importing the SDK would take half a
second of a core in every worker. `httpx2` takes a sixth of that: import this module where a client is opened.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import nullcontext
from typing import Any

import httpx2

from cereval.errors import CallError, InvalidInput
from cereval.files import MIB, unique_keys
from cereval.models.retries import HIDDEN, BadStatus, Broken, Fault, FaultError
from cereval.models.speed import Passing, Speed
from cereval.version import __version__

ANSWER_LIMIT = 8 * MIB
"""Bytes of a model's answer, unpacked: a million tokens take about four."""

BATCH_LIMIT = 256 * MIB
"""Bytes of the answers of a provider's batch."""

OPENAI_URL = "https://api.openai.com/v1"

NO_KEY = "none"
"""Sent where there is no key: some servers that want none in particular want one all the same."""

LONGEST_CONNECT_S = 5.0
"""A server that is there takes a call at once, however long it then thinks."""

SOCKETS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
MOST_REDIRECTS = 5
PACKED = ("", "identity", "gzip", "deflate")
"""Ways of packing that are asked for: others unpack a few bytes to gigabytes before they can be counted."""

ACCOUNT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
"""Headers that say whose account pays, and the variables that they come from."""


def open_client(
    base_url: str | None, timeout_s: float, key_variable: str, *, needs_key: bool = False
) -> Client:
    """Open a client; servers of one's own (a `base_url`) need no key."""
    key = api_key(key_variable)
    if key is None and needs_key:
        raise CallError(f"{key_variable} is not set; export your key")
    if key is None and base_url is None:
        raise CallError(
            f"{key_variable} is not set; export your key, or give --base-url for a server of your own"
        )
    return Client(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL, key, timeout_s)


def api_key(variable: str) -> str | None:
    """Read the key in an environment variable, stripped; `None` when unset or blank."""
    key = os.environ.get(variable, "").strip()
    if not all("!" <= letter <= "~" for letter in key):
        raise InvalidInput(variable, "one line of printable ASCII without blanks", HIDDEN)
    return key or None


class Client:
    """Exchange JSON with one endpoint. Every answer, also of an error, is read up to `limit` bytes; more, or a redirect
    elsewhere, is a `FaultError`."""

    def __init__(
        self,
        base_url: str,
        key: str | None,
        timeout_s: float,
        limit: int = ANSWER_LIMIT,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.base_url, self.key, self.limit = base_url.rstrip("/"), key, limit
        self.speed: Speed | None = None
        """Kept to what the headers of answers say of rate limits."""
        self._http = httpx2.AsyncClient(
            headers={**_headers(key), **(headers or {})},
            timeout=httpx2.Timeout(timeout_s, connect=min(timeout_s, LONGEST_CONNECT_S)),
            limits=SOCKETS,
        )

    async def post(self, path: str, body: dict[str, Any], call: Passing | None = None) -> Any:
        """Return the JSON that is answered, or the text of what is none; raise `BadStatus` for what is refused and
        `Broken` for what does not arrive."""
        return _read(*await self._exchange("POST", path, call, json=body))

    async def get(self, path: str) -> Any:
        return _read(*await self._exchange("GET", path))

    async def upload(self, path: str, name: str, content: bytes, fields: Mapping[str, str]) -> Any:
        """Send a file of requests for a batch, and the fields of a form; return the JSON that is answered."""
        files = {"file": (name, content, "application/jsonl")}
        return _read(*await self._exchange("POST", path, data=dict(fields), files=files))

    async def lines(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Return the JSON objects of a file that has one on each line."""
        _, content = await self._exchange("GET", path)
        for line in content.splitlines():
            found = json.loads(line, object_pairs_hook=unique_keys) if line.strip() else None
            if isinstance(found, dict):
                yield found

    async def _exchange(
        self, method: str, path: str, call: Passing | None = None, **body: Any
    ) -> tuple[httpx2.Response, bytes]:
        try:
            request = self._http.build_request(method, self.base_url + path, **body)
            async with nullcontext() if call is None else call.on_the_wire():
                response, content = await self._answer(request, call)
                if self.speed is not None:
                    self.speed.note_limits(response.headers)
        except Exception as error:
            raise Broken from error
        if not response.is_success:
            raise BadStatus(response.status_code, response.headers, _read_as_json(content.strip()))
        return response, content

    async def close(self) -> None:
        await self._http.aclose()

    async def _answer(self, request: httpx2.Request, call: Passing | None) -> tuple[httpx2.Response, bytes]:
        """Send a request and read its answer; follow redirects on the same host only."""
        for _ in range(MOST_REDIRECTS):
            response = await self._http.send(request, stream=True, follow_redirects=False)
            try:
                if response.next_request is None:
                    return response, await self._content(response, call)
                request = _check_redirect(request, response.next_request)
            finally:
                await response.aclose()
        raise FaultError(
            Fault(f"{request.url.host} redirects without end", by_question=True, everywhere=True)
        )

    async def _content(self, response: httpx2.Response, call: Passing | None) -> bytes:
        """Read a body, unpacked: what unpacks to more than the limit is cut off."""
        packing = response.headers.get("content-encoding", "").strip().lower()
        if packing not in PACKED:
            raise FaultError(Fault(f"{response.url.host} packed its answer in a way that nobody asked for"))
        body = bytearray()
        async for part in response.aiter_bytes():
            body += part
            if len(body) > self.limit:
                size = f"more than {self.limit // MIB} MiB"
                raise FaultError(Fault(f"{response.url.host} sent an answer of {size}; lower --max-tokens"))
            whole = str(response.num_bytes_downloaded) == response.headers.get("content-length")
            if call is not None and whole:
                await call.note_answer()
        return bytes(body)


def _headers(key: str | None) -> dict[str, str]:
    account = {header: os.environ.get(variable, "").strip() for header, variable in ACCOUNT.items()}
    return {
        "accept": "application/json",
        "accept-encoding": "gzip, deflate",
        "authorization": f"Bearer {key or NO_KEY}",
        "user-agent": f"cereval/{__version__}",
        **{header: value for header, value in account.items() if value},
    }


def _read(response: httpx2.Response, content: bytes) -> Any:
    if _kind(response).endswith("json"):
        return json.loads(content, object_pairs_hook=unique_keys)
    return content.decode(errors="replace")


def _kind(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _read_as_json(content: bytes) -> Any:
    """Return what a server says of a refusal: its JSON, without the wrapping under `error`, or its text."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        return content.decode(errors="replace")
    return said.get("error", said) if isinstance(said, dict) else said


def _check_redirect(request: httpx2.Request, following: httpx2.Request) -> httpx2.Request:
    """Check that a redirect leads to the same host, and not from https to http: the prompts go along."""
    here, there = request.url, following.url
    if there.host != here.host or (here.scheme == "https" and there.scheme != "https"):
        place = f"{there.scheme}://{there.host}, which is not followed; check --base-url"
        raise FaultError(Fault(f"{here.host} redirects to {place}", everywhere=True, by_question=True))
    return following
