"""State the contract of a model.

Obligations of every model:
- `answer` is async, safe to call many times at once, and returns a `Reply` or, after its retries, raises
  `CallError`: an `EndpointError` when every further call would fail alike, so that a run stops at once.
- Cancelling `answer` cancels the call. Nothing is retried after a cancellation.
- A `Reply` holds valid Unicode whatever the model sent. Cost is in USD, `None` when the price is not known.
- No secret is in `name`, `repr` or any error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cereval.errors import CallError, InvalidInput
from cereval.files import cleaned

Messages = Sequence[Mapping[str, str]]
"""A chat: `{"role": "system" | "user" | "assistant", "content": text}`, oldest first."""


MOST_TOKENS = 10**9
"""Tokens of one call that are believed: databases count to 2^63, and no model reads that much."""

OUR_FIELDS = ("model", "messages", "n", "stream", "logprobs", "top_logprobs")
"""Fields of a request that say what is asked and how the answer is read."""

_RELEASE = re.compile(
    r"([-@:._](20\d\d[-.]?\d\d[-.]?\d\d|\d\d-\d\d|\d\d-20\d\d|\d{3,4}|latest|preview|free))*"
)
"""What may follow a model's name in that of one of its releases."""


class EndpointError(CallError):
    """Report that every call would fail alike: wrong address, wrong key, unknown model, no money left."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Hold one answer and what it took. `first_token`: log-probabilities of the likeliest first tokens.

    `served`: the name of the model that answered, as the server gives it; empty where it gives none.
    """

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    latency_s: float = 0.0
    attempts: int = 1
    finish_reason: str = "stop"
    first_token: Mapping[str, float] = field(default_factory=dict)
    served: str = ""


class Model(Protocol):
    """Answer a chat; see the obligations above."""

    @property
    def name(self) -> str: ...

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Settings:
    """Say how a model generates; `None` leaves a setting to the server.

    `extra` holds any other field of a chat completion request, such as `top_p`, `seed`, `reasoning_effort` or
    `response_format`, with its JSON value. The request names every setting as the server does.

    >>> Settings(max_tokens=5, extra={"stop": ["###"]}).request()
    {'temperature': 0.0, 'max_tokens': 5, 'stop': ['###']}
    >>> Settings(temperature=None).request()
    {}
    """

    temperature: float | None = 0.0
    max_tokens: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise InvalidInput("temperature", "in [0, 2]", self.temperature)
        if self.max_tokens is not None and not 1 <= self.max_tokens <= MOST_TOKENS:
            raise InvalidInput("max_tokens", f"a whole number in 1..{MOST_TOKENS:,}", self.max_tokens)
        for name, value in self.extra.items():
            if name in OUR_FIELDS:
                raise InvalidInput("--set", f"a field other than {', '.join(OUR_FIELDS)}", name)
            cleaned(value, f"--set {name}")

    def request(self) -> dict[str, Any]:
        named = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        return {name: value for name, value in named.items() if value is not None} | dict(self.extra)


def parse_count(value: Any) -> int | None:
    """Read a number of tokens; None where it is none that a model could have read or written.

    >>> parse_count(12), parse_count(12.0), parse_count(-1), parse_count(1e30), parse_count("12"), parse_count(True)
    (12, 12, None, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_TOKENS:
        return None
    return int(value)


def another_model(asked: str, served: str) -> bool:
    """Tell whether a server answered as a model other than the one asked for.

    Dates, folders and `latest` may differ, sizes and numbers of versions may not.

    >>> another_model("gpt-4o", "gpt-4o-2024-08-06"), another_model("llama", "meta/Llama"), another_model("a", "")
    (False, False, False)
    >>> another_model("gpt-4o", "gpt-4o-mini"), another_model("llama-3", "llama-3.1-8b")
    (True, True)
    """
    short, long = sorted((name.casefold().rpartition("/")[2] for name in (asked, served)), key=len)
    return bool(served) and not (long.startswith(short) and _RELEASE.fullmatch(long[len(short) :]))


def last_text(messages: Messages) -> str:
    return messages[-1]["content"] if messages else ""
