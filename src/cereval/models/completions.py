"""An OpenAI-shaped chat completion, as a Reply: the one shape that every server and llama.cpp speak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cereval.models.base import Reply, clean_text
from cereval.models.faults import Fault, FaultError
from cereval.models.prices import Price


def reply_from(body: Any, price: Price | None) -> Reply:
    """The reply in a completion's JSON; anything that is not one is a fault worth another attempt.

    >>> reply_from({"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}]}, None).text
    '4'
    """
    choice = _choice(body)
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else None
    usage = body.get("usage") or {}
    tokens_in, tokens_out = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    return Reply(
        text=clean_text(text if isinstance(text, str) else ""),
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cost_usd=None if price is None else price.cost(tokens_in, tokens_out),
        finish_reason=str(choice.get("finish_reason") or "unknown"),
        first_token=_first_token(choice),
    )


def _choice(body: Any) -> Mapping[str, Any]:
    if isinstance(body, dict) and isinstance(body.get("choices"), list) and body["choices"]:
        choice = body["choices"][0]
        if isinstance(choice, dict):
            return choice
    if isinstance(body, str):
        page = "the server sent a page instead of an answer; check --base-url (it usually ends in /v1)"
        raise FaultError(Fault(page, retryable=True, everywhere=True, absent=True))
    raise FaultError(Fault("the server sent an answer without choices", retryable=True))


def _count(usage: Any, name: str) -> int:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and value > 0 else 0


def _first_token(choice: Mapping[str, Any]) -> dict[str, float]:
    tokens = (choice.get("logprobs") or {}).get("content") or []
    likeliest = tokens[0].get("top_logprobs") or [tokens[0]] if tokens else []
    return {clean_text(entry["token"]): float(entry["logprob"]) for entry in likeliest}
