"""`openai/NAME`: any OpenAI-compatible endpoint through the `openai` SDK."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from cereval.errors import CallError, InvalidInput
from cereval.models.base import Messages, Reply, Settings
from cereval.models.completions import reply_from
from cereval.models.faults import Fault, fault_of
from cereval.models.prices import Price, list_price
from cereval.models.retries import Retries, retrying
from cereval.models.secrets import HIDDEN, api_key

OPENAI = "//api.openai.com/"
NO_KEY = "none"
"""The SDK wants a key even for servers that want none."""

LONGEST_CONNECT_S = 5.0
"""A server that is there takes a call at once, however long it then thinks."""


PATIENCE = 32
"""Refusals in a row, since the last answer, that concern one question each; the next one concerns them all."""


@dataclass(slots=True)
class Contact:
    """What is known of the endpoint. `made`: a model was met there; where none was, the address is wrong.

    `answered`: it gave an answer, so that a refusal (403, 404, a page) may be about one question. `refused`: how many
    there were since: a key may be revoked in the middle of a run, which must not turn the whole pool into failures.
    """

    made: bool = False
    answered: bool = False
    refused: int = 0

    def weighed(self, fault: Fault) -> Fault:
        """The fault: not worth another attempt where nobody was ever there, not everybody's where others fared well."""
        self.made = self.made or not fault.absent
        if not self.made:
            return replace(fault, retryable=False)
        if not fault.by_question or not self.answered:
            return fault
        self.refused += 1
        return replace(fault, everywhere=False) if self.refused <= PATIENCE else fault

    def answers(self) -> None:
        """Note an answer, here or in an earlier run."""
        self.made = self.answered = True
        self.refused = 0


@dataclass(frozen=True, slots=True)
class OpenAIModel:
    """One model behind one endpoint. The key lives in the SDK's client alone."""

    name: str
    endpoint: str
    settings: Settings
    price: Price | None
    retries: Retries
    timeout_s: float
    client: Any = field(repr=False, compare=False)
    contact: Contact = field(default_factory=Contact, repr=False, compare=False)

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:
        started = time.monotonic()
        request = self._request(messages, top_logprobs)
        tried = await retrying(lambda: self._attempt(request), self._fault, self.retries)
        return replace(tried.value, latency_s=time.monotonic() - started, attempts=tried.attempts)

    def answered_before(self) -> None:
        """Note that an earlier run has answers of this model, so that one refused question does not stop this one."""
        self.contact.answers()

    async def close(self) -> None:
        await self.client.close()

    async def _attempt(self, request: dict[str, Any]) -> Reply:
        # The SDK's own timeout restarts with every byte received; a trickling server needs this one.
        async with asyncio.timeout(self.timeout_s):
            body = await self.client.post("/chat/completions", body=request, cast_to=object)
        reply = reply_from(body, self.price)
        self.contact.answers()
        return reply

    def _request(self, messages: Messages, top_logprobs: int) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self.name, "messages": [dict(message) for message in messages]}
        if top_logprobs:
            request |= {"logprobs": True, "top_logprobs": top_logprobs}
        request |= self.settings.request()
        if "max_tokens" in request and OPENAI in self.endpoint:
            # OpenAI's newer models refuse the old name, most other servers know no other.
            request["max_completion_tokens"] = request.pop("max_tokens")
        return request

    def _fault(self, error: Exception) -> Fault:
        key = self.client.api_key
        return self.contact.weighed(fault_of(error, self.endpoint, None if key == NO_KEY else key))


def open_openai(
    name: str,
    *,
    base_url: str | None = None,
    settings: Settings | None = None,
    price: Price | None = None,
    retries: Retries | None = None,
    timeout_s: float = 120.0,
    key_variable: str = "OPENAI_API_KEY",
) -> OpenAIModel:
    """Opens a client; servers of one's own (a `base_url`) need no key."""
    client = _client(base_url or os.environ.get("OPENAI_BASE_URL") or None, timeout_s, key_variable)
    endpoint = str(client.base_url).rstrip("/")
    if price is None and OPENAI in endpoint:
        # A list price is OpenAI's: at another address the same name may cost anything.
        price = list_price(name)
    return OpenAIModel(name, endpoint, settings or Settings(), price, retries or Retries(), timeout_s, client)


def _client(base_url: str | None, timeout_s: float, key_variable: str) -> Any:
    import openai

    key = api_key(key_variable)
    if key is None and base_url is None:
        raise CallError(
            f"{key_variable} is not set; export your key, or give --base-url for a server of your own"
        )
    from cereval.models.wire import BoundedClient

    timeout = openai.Timeout(timeout_s, connect=min(timeout_s, LONGEST_CONNECT_S))
    return openai.AsyncOpenAI(
        api_key=key or NO_KEY,
        base_url=None if base_url is None else checked_url(base_url),
        timeout=timeout,
        max_retries=0,
        http_client=BoundedClient(timeout=timeout),
    )


def checked_url(url: str) -> str:
    """An http(s) address without a password in it.

    >>> checked_url("http://localhost:8000/v1")
    'http://localhost:8000/v1'
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise InvalidInput("base_url", "an address such as http://localhost:8000/v1", url) from None
    if parts.username or parts.password or parts.query:
        raise InvalidInput("base_url", "free of passwords and queries (keys go into OPENAI_API_KEY)", HIDDEN)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput("base_url", "an address such as http://localhost:8000/v1", url)
    return url
