"""Ask any OpenAI-compatible endpoint (`openai/NAME`), and find the reply in what it sends."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from cereval.errors import InvalidInput, shown
from cereval.models.base import Messages, Reply, Settings, parse_count
from cereval.models.prices import FREE, Price, Tokens, list_price, own_price
from cereval.models.retries import (
    HIDDEN,
    UNSUPPORTED,
    BadStatus,
    Fault,
    FaultError,
    Pace,
    Retries,
    ask_with_retries,
    fault_of,
)
from cereval.models.speed import Passing
from cereval.text import storable

if TYPE_CHECKING:
    from cereval.models.batches import Batches


OPENAI = "//api.openai.com/"
OTHER_NAME = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
LEARNED = (*OTHER_NAME, "temperature")
"""Fields that are renamed or left out where a server refuses them; other refusals are the user's to mend."""

_REFUSES = re.compile("unsupported|not support|unknown|unrecogni[sz]ed|not permitted|not allowed|deprecated")
PATIENCE = 32
"""Refusals in a row, since the last answer, that concern one question each; the next one concerns them all."""

_PACES: WeakValueDictionary[tuple[str, str, int], Pace] = WeakValueDictionary()
"""Those of the models that are open: two candidates that are one model with two prompts share its rate limits."""

TEXT_PARTS = ("text", "output_text")
LONGEST_NAME = 200
"""Characters of a model's name or a reason that are kept: both come from the server."""


@dataclass(slots=True)
class Contact:
    """Keep what is known of a model's server. `made`: a model was met there; where none was, the address is wrong.

    `answered`: it gave an answer, so that a refusal (403, 404, a page) may be about one question. `refused`: how many
    there were since: a key may be revoked in the middle of a run, which must not turn the whole pool into failures.
    `unwanted`: fields of the request that it refuses.
    """

    made: bool = False
    answered: bool = False
    refused: int = 0
    unwanted: set[str] = field(default_factory=set)
    responses: bool = False
    """Whether the model speaks the Responses API only."""
    needs_temperature: bool = False
    """Whether an answer at another temperature than the one asked for would be of no use."""
    pace: Pace = field(default_factory=Pace)

    def weigh(self, fault: Fault) -> Fault:
        """Weigh a fault: no second attempt where nobody ever was, not everybody's where others fared well."""
        self.made = self.made or not fault.absent
        if self.lacks_temperature:
            return replace(fault, retryable=False, everywhere=True)
        if not self.made:
            return replace(fault, retryable=False)
        if not fault.by_question or not self.answered:
            return fault
        self.refused += 1
        return replace(fault, everywhere=False) if self.refused <= PATIENCE else fault

    @property
    def lacks_temperature(self) -> bool:
        return self.needs_temperature and "temperature" in self.unwanted

    def note_answer(self) -> None:
        self.made = self.answered = True
        self.refused = 0

    def adapt(self, request: dict[str, Any]) -> dict[str, Any]:
        """Leave out of a request what the server refuses; the limit of tokens goes by its other name."""
        return {
            (OTHER_NAME.get(name, name) if name in self.unwanted else name): value
            for name, value in request.items()
            if name not in self.unwanted or name in OTHER_NAME
        }

    def learn(self, error: BadStatus, request: Mapping[str, Any]) -> bool:
        """Note a field that the server refuses; tell whether asking without it is worth another attempt."""
        message = error.message.casefold()
        if error.status not in (400, 422) or not (error.code in UNSUPPORTED or _REFUSES.search(message)):
            return False
        param = error.body.get("param") if isinstance(error.body, dict) else None
        named = param or next((name for name in LEARNED if re.search(rf"\b{name}\b", message)), None)
        if named not in request or named not in LEARNED or OTHER_NAME.get(named) in self.unwanted:
            return False
        self.unwanted.add(named)
        return True


@dataclass(frozen=True, slots=True)
class OpenAIModel:
    """Ask one model behind one endpoint. The key lives in its client alone."""

    name: str
    endpoint: str
    settings: Settings
    price: Price | None
    retries: Retries
    timeout_s: float
    client: Any = field(repr=False, compare=False)
    provider: str = "openai"
    contact: Contact = field(default_factory=Contact, repr=False, compare=False)

    @property
    def dropped(self) -> set[str]:
        """Return the settings that the server refuses, so that the model was asked without them."""
        return self.contact.unwanted - set(OTHER_NAME)

    @property
    def waiting_s(self) -> float:
        """Return how long the server has been too busy to answer; 0 where it answers."""
        since = self.contact.pace.since
        return 0.0 if since is None else time.monotonic() - since

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:
        request = self.request(messages, top_logprobs)
        return await ask_with_retries(
            lambda: self._attempt(request), self.fault, self.retries, self.contact.pace
        )

    def request(self, messages: Messages, top_logprobs: int = 0) -> dict[str, Any]:
        """Return what is sent for a chat, before the server has refused any of it."""
        request = {"model": self.name, "messages": [dict(one) for one in messages]} | self.settings.request()
        return request | ({"logprobs": True, "top_logprobs": top_logprobs} if top_logprobs else {})

    def batches(self) -> Batches:
        """Return the batches of the account that the model is asked with; close their client."""
        from cereval.models.batches import AnthropicBatches, OpenAIBatches
        from cereval.models.client import BATCH_LIMIT, Client

        if self.provider == "anthropic":
            headers = {"x-api-key": self.client.key, "anthropic-version": "2023-06-01"}
            client = Client(self.endpoint, self.client.key, self.timeout_s, BATCH_LIMIT, headers)
            return AnthropicBatches(client)
        return OpenAIBatches(
            Client(self.endpoint, self.client.key, self.timeout_s, BATCH_LIMIT), self.provider
        )

    def read(self, body: Any) -> Reply:
        reply = reply_from(body, self.price)
        self.contact.note_answer()
        return reply

    def answered_before(self) -> None:
        """Note that an earlier run has answers of this model, so that one refused question does not stop this one."""
        self.contact.note_answer()

    async def close(self) -> None:
        await self.client.close()

    async def _attempt(self, request: dict[str, Any]) -> Reply:
        sent = self.contact.adapt(request)
        try:
            # The client's own timeout restarts with every byte received; a trickling server needs this one.
            async with Passing(self.endpoint, sent, self.timeout_s) as call:
                if self.contact.responses:
                    body = as_completion(
                        await self.client.post("/responses", as_response_request(sent), call)
                    )
                else:
                    body = await self.client.post("/chat/completions", sent, call)
                reply = self.read(body)
                call.tokens = reply.input_tokens + reply.output_tokens
                self.contact.pace.speed.note_tokens(call.tokens)
        except BadStatus as error:
            if not self.contact.responses and wants_responses(error):
                self.contact.responses = True
            elif not self.contact.learn(error, sent) or self.contact.lacks_temperature:
                raise
            return await self._attempt(request)
        return reply

    def fault(self, error: Exception) -> Fault:
        return self.contact.weigh(fault_of(error, self.endpoint, self.client.key))


def open_openai(
    name: str,
    *,
    base_url: str | None = None,
    settings: Settings | None = None,
    price: Price | None = None,
    retries: Retries | None = None,
    timeout_s: float = 120.0,
    provider: str = "openai",
    batch: bool = False,
) -> OpenAIModel:
    """Open a client; servers of one's own (a `base_url`) need no key. batch: the price is that of batches."""
    from cereval.models.client import open_client

    known = PROVIDERS.get(provider)
    url = known.base_url if known else base_url or os.environ.get("OPENAI_BASE_URL") or None
    variable = known.key_variable if known else "OPENAI_API_KEY"
    checked = None if url is None else checked_url(url)
    client = open_client(checked, timeout_s, variable, needs_key=known is not None)
    endpoint = client.base_url
    price = price or own_price(f"{provider}/{name}")
    if price is None:
        # A list price is the provider's: at another address the same name may cost anything.
        price = list_price(name, provider if known else "", url="" if known else endpoint, batch=batch)
    # OpenAI's newer models refuse the old name, most other servers know no other.
    contact = Contact(unwanted={"max_tokens"} if OPENAI in endpoint else set())
    contact.pace = _PACES.setdefault((endpoint, name, hash(client.key)), contact.pace)
    client.speed = contact.pace.speed
    return OpenAIModel(
        name,
        endpoint,
        settings or Settings(),
        price,
        retries or Retries(),
        timeout_s,
        client,
        provider,
        contact,
    )


def checked_url(url: str) -> str:
    """Check that an address is http(s), with a port that there can be, and without a password in it.

    >>> checked_url("http://localhost:8000/v1")
    'http://localhost:8000/v1'
    """
    try:
        parts = urlsplit(url)
        reachable = parts.port != 0
    except ValueError:
        reachable = False
    if not reachable:
        raise InvalidInput("base_url", "an address such as http://localhost:8000/v1", url)
    if parts.username or parts.password or parts.query:
        raise InvalidInput("base_url", "free of passwords and queries (keys go into OPENAI_API_KEY)", HIDDEN)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput("base_url", "an address such as http://localhost:8000/v1", url)
    return url


def reply_from(body: Any, price: Price | None) -> Reply:
    """Read the reply in a completion's JSON; one without a text is a fault, never an empty answer.

    >>> reply_from({"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}]}, None).text
    '4'
    """
    choice = _choice(body)
    usage = body["usage"] if isinstance(body.get("usage"), dict) else {}
    tokens, complete = tokens_in(usage)
    cost, reason = cost_of(price, tokens, complete), _name(choice.get("finish_reason")) or "unknown"
    message = choice.get("message")
    text = _text(message)
    if text is None or reason == "content_filter" or (not text and _is_refusal(message)):
        why = f"the model gave no text: {_why(message, reason)}"
        raise FaultError(Fault(why, finish_reason=reason, cost_usd=cost))
    return Reply(
        text=storable(text),
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cost_usd=cost,
        finish_reason=reason,
        first_token=_first_token(choice.get("logprobs")),
        served=_name(body.get("model")),
    )


def _choice(body: Any) -> Mapping[str, Any]:
    if isinstance(body, dict) and isinstance(body.get("choices"), list) and body["choices"]:
        choice = body["choices"][0]
        if isinstance(choice, dict):
            return choice
    if isinstance(body, str):
        page = "the server sent a page instead of an answer; check --base-url (it usually ends in /v1)"
        raise FaultError(Fault(page, retryable=True, everywhere=True, absent=True, by_question=True))
    said = body.get("error") if isinstance(body, dict) else None
    if isinstance(said, dict):
        # OpenRouter passes on what went wrong behind it as an answer.
        code = said.get("code")
        raise BadStatus(code if isinstance(code, int) and 400 <= code < 600 else 502, {}, said)
    raise FaultError(Fault("the server sent an answer without choices", retryable=True))


def _text(message: Any) -> str | None:
    """Read the text of a message, or of its parts that are texts; None without one."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [
        part["text"] for part in parts if part.get("type") in TEXT_PARTS and isinstance(part.get("text"), str)
    ]
    return "".join(texts) if texts else None


def _is_refusal(message: Any) -> bool:
    return bool(message.get("refusal") or message.get("tool_calls") or message.get("function_call"))


def _why(message: Any, reason: str) -> str:
    if reason == "content_filter":
        return "the server's filter stopped it (content_filter)"
    if not isinstance(message, dict):
        return f"the server sent no message (finish_reason {reason})"
    parts = message["content"] if isinstance(message.get("content"), list) else []
    refusals = [message.get("refusal"), *(part.get("refusal") for part in parts if isinstance(part, dict))]
    for refusal in filter(None, refusals):
        return f"it refused: {shown(refusal, 200)}"
    if message.get("tool_calls") or message.get("function_call"):
        return "it called a tool, and none was offered"
    if reason == "length":
        return "its tokens were spent before it wrote any; raise --max-tokens"
    return f"the content is {shown(message.get('content'))} (finish_reason {reason})"


def tokens_in(usage: Mapping[str, Any]) -> tuple[Tokens, bool]:
    """Read the tokens that are billed, and whether the server counts both ways.

    Some servers leave reasoning out of `completion_tokens`, and count it in the total alone.

    >>> tokens_in({"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 30})[0].output
    21
    """
    asked, said, total = (
        parse_count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    )
    complete = asked is not None and said is not None
    asked, said = asked or 0, said or 0
    if complete and total is not None:
        said = max(said, total - asked)
    cached = _detail(usage, "prompt_tokens_details", "cached_tokens")
    # DeepSeek's own name for them.
    cached = min(cached or parse_count(usage.get("prompt_cache_hit_tokens")) or 0, asked)
    written = min(_detail(usage, "prompt_tokens_details", "cache_write_tokens"), asked - cached)
    reasoning = min(_detail(usage, "completion_tokens_details", "reasoning_tokens"), said)
    return Tokens(asked, said, cached, written, reasoning), complete


def _detail(usage: Mapping[str, Any], group: str, name: str) -> int:
    details = usage.get(group)
    return (parse_count(details.get(name)) or 0) if isinstance(details, dict) else 0


def cost_of(price: Price | None, tokens: Tokens, complete: bool) -> float | None:
    """Compute the cost; unknown where the price or a count is, except that what is free is free."""
    if price == FREE:
        return 0.0
    return price.cost(tokens) if price is not None and complete else None


def _name(value: Any) -> str:
    return storable(value)[:LONGEST_NAME] if isinstance(value, str) else ""


def _first_token(logprobs: Any) -> dict[str, float]:
    """Read the likeliest first tokens; what is not in that shape is left out, for only judges need them."""
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    first = tokens[0] if isinstance(tokens, list) and tokens else None
    likeliest = (first.get("top_logprobs") or [first]) if isinstance(first, dict) else []
    return {
        storable(entry["token"]): float(entry["logprob"])
        for entry in (likeliest if isinstance(likeliest, list) else [])
        if isinstance(entry, dict)
        and isinstance(entry.get("token"), str)
        and isinstance(entry.get("logprob"), int | float)
        and abs(entry["logprob"]) < 1e300
    }


@dataclass(frozen=True, slots=True)
class Provider:
    """Say where a provider answers, and the environment variable with the key for it."""

    base_url: str
    key_variable: str


PROVIDERS: Mapping[str, Provider] = {
    "anthropic": Provider("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
    "deepseek": Provider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "gemini": Provider("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "groq": Provider("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": Provider("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "together": Provider("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "xai": Provider("https://api.x.ai/v1", "XAI_API_KEY"),
}


def provider_of(model: object) -> Provider | None:
    """Return the provider that a model's name begins with.

    >>> provider_of("groq/llama-3.1-8b-instant").key_variable, provider_of("openai/gpt-4o")
    ('GROQ_API_KEY', None)
    """
    name, slash, _ = str(model).partition("/")
    return PROVIDERS.get(name) if slash else None


def server_of(model: str, address: str | None = None) -> str | None:
    """Return the address that a model is asked at; None for those that are not asked over the network.

    >>> server_of("openai/m", "http://h/v1"), server_of("xai/m"), server_of("scripted/0.5")
    ('http://h/v1', 'https://api.x.ai/v1', None)
    """
    provider = provider_of(model)
    if provider is not None:
        return provider.base_url
    return (address or "https://api.openai.com/v1") if model.startswith("openai/") else None


ONLY_RESPONSES = re.compile(r"v1/responses|not a chat model")
REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}
"""Why an answer is not complete, as chat completions say it."""


def wants_responses(error: BadStatus) -> bool:
    """Tell whether a server refused a chat completion because the model takes none.

    >>> wants_responses(BadStatus(404, {}, "This model is only supported in v1/responses."))
    True
    """
    return error.status in (400, 404) and ONLY_RESPONSES.search(error.message) is not None


def as_response_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chat completion request as one of the Responses API; nothing is kept at the provider.

    >>> found = as_response_request({"model": "m", "messages": [], "max_tokens": 5, "reasoning_effort": "low"})
    >>> found["max_output_tokens"], found["reasoning"], found["store"]
    (5, {'effort': 'low'}, False)
    """
    rest = dict(request)
    found: dict[str, Any] = {"input": rest.pop("messages"), "store": False}
    for name in ("max_tokens", "max_completion_tokens"):
        if name in rest:
            found["max_output_tokens"] = rest.pop(name)
    if "reasoning_effort" in rest:
        found["reasoning"] = {"effort": rest.pop("reasoning_effort")}
    form = rest.pop("response_format", None)
    if isinstance(form, Mapping):
        found["text"] = {"format": {"type": form.get("type"), **(form.get("json_schema") or {})}}
    if rest.pop("logprobs", False):
        found["include"] = ["message.output_text.logprobs"]
    return {**rest, **found}


def as_completion(body: Any) -> Any:
    """Return a response as a chat completion; what is none stays as it is."""
    if not isinstance(body, dict) or not isinstance(body.get("output"), list):
        return body
    messages = [one for one in body["output"] if isinstance(one, dict) and one.get("type") == "message"]
    lists = [one["content"] for one in messages if isinstance(one.get("content"), list)]
    parts = [part for parts in lists for part in parts if isinstance(part, dict)]
    details = body.get("incomplete_details")
    reason = str(details.get("reason")) if isinstance(details, dict) else ""
    likeliest = next((part["logprobs"] for part in parts if part.get("logprobs")), None)
    usage = body["usage"] if isinstance(body.get("usage"), dict) else {}
    return {
        "model": body.get("model"),
        "choices": [
            {
                "message": {"content": parts or None},
                "finish_reason": REASONS.get(reason, reason) or "stop",
                "logprobs": {"content": likeliest},
            }
        ],
        "usage": {
            "prompt_tokens": usage.get("input_tokens"),
            "completion_tokens": usage.get("output_tokens"),
            "prompt_tokens_details": usage.get("input_tokens_details"),
            "completion_tokens_details": usage.get("output_tokens_details"),
        },
    }
