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

Messages = Sequence[Mapping[str, str]]
"""A chat: `{"role": "system" | "user" | "assistant", "content": text}`, oldest first."""


MOST_TOKENS = 10**9
"""Tokens of one call that are believed: databases count to 2^63, and no model reads that much."""

_UNSTORABLE = re.compile("[\\ud800-\\udfff\\0]")


class EndpointError(CallError):
    """Report that every call would fail alike: wrong address, wrong key, unknown model, no money left."""

    everywhere = True
    """Read by scorers, which know models by shape alone: a judge that fails so must stop the run too."""


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
    """Say how a model generates; `None` leaves a setting to the server. `extra` goes into the request as it is.

    >>> Settings(max_tokens=5, stop=("###",)).request()
    {'temperature': 0.0, 'max_tokens': 5, 'stop': ['###']}
    """

    temperature: float | None = 0.0
    max_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise InvalidInput("temperature", "in [0, 2]", self.temperature)
        if self.max_tokens is not None and not 1 <= self.max_tokens <= MOST_TOKENS:
            raise InvalidInput("max_tokens", f"a whole number in 1..{MOST_TOKENS:,}", self.max_tokens)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InvalidInput("top_p", "in (0, 1]", self.top_p)

    def request(self) -> dict[str, Any]:
        """Write the settings as fields of a chat completion request."""
        named = {
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "top_p": self.top_p,
            "seed": self.seed,
            "stop": list(self.stop) or None,
        }
        return {key: value for key, value in named.items() if value is not None} | dict(self.extra)


def clean_text(text: str) -> str:
    """Make valid Unicode without NUL, which neither terminals nor PostgreSQL take: U+FFFD stands in.

    >>> clean_text("a\\ud800b\\0")
    'a\ufffdb\ufffd'
    """
    return _UNSTORABLE.sub("\ufffd", text)


def counted(value: Any) -> int | None:
    """Read a number of tokens; None where it is none that a model could have read or written.

    >>> counted(12), counted(12.0), counted(-1), counted(1e30), counted("12"), counted(True)
    (12, 12, None, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_TOKENS:
        return None
    return int(value)


def another_model(asked: str, served: str) -> bool:
    """Tell whether a server answered as a model other than the one asked for; versions and folders may differ.

    >>> another_model("gpt-4o", "gpt-4o-2024-08-06"), another_model("llama", "meta/Llama"), another_model("a", "")
    (False, False, False)
    >>> another_model("gpt-4o", "gpt-3.5-turbo")
    True
    """
    names = [name.casefold().rpartition("/")[2] for name in (asked, served)]
    return bool(served) and names[0] not in names[1] and names[1] not in names[0]


def last_text(messages: Messages) -> str:
    return messages[-1]["content"] if messages else ""
