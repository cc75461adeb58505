"""An OpenAI-shaped chat completion, as a Reply: the one shape that every server and llama.cpp speak."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from cereval.errors import shown
from cereval.models.base import Reply, clean_text, counted
from cereval.models.faults import Fault, FaultError
from cereval.models.prices import FREE, Price

TEXT_PARTS = ("text", "output_text")
LONGEST_NAME = 200
"""Characters of a model's name or a reason that are kept: both come from the server."""


def reply_from(body: Any, price: Price | None) -> Reply:
    """Read the reply in a completion's JSON; one without a text is a fault, never an empty answer.

    >>> reply_from({"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}]}, None).text
    '4'
    """
    choice = _choice(body)
    usage = body.get("usage")
    tokens_in, tokens_out = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    cost, reason = _cost(price, tokens_in, tokens_out), _name(choice.get("finish_reason")) or "unknown"
    message = choice.get("message")
    text = _text(message)
    if text is None or reason == "content_filter" or (not text and _refused(message)):
        raise FaultError(
            Fault(f"the model gave no text: {_why(message, reason)}", finish_reason=reason, cost_usd=cost)
        )
    return Reply(
        text=clean_text(text),
        input_tokens=tokens_in or 0,
        output_tokens=tokens_out or 0,
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


def _refused(message: Any) -> bool:
    return bool(message.get("refusal") or message.get("tool_calls") or message.get("function_call"))


def _why(message: Any, reason: str) -> str:
    """Say in a few words what came instead of a text."""
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


def _count(usage: Any, name: str) -> int | None:
    return counted(usage.get(name)) if isinstance(usage, dict) else None


def _cost(price: Price | None, tokens_in: int | None, tokens_out: int | None) -> float | None:
    """Work out the cost; unknown where the price or a count is, except that what is free is free."""
    if price == FREE:
        return 0.0
    return (
        None
        if price is None or tokens_in is None or tokens_out is None
        else price.cost(tokens_in, tokens_out)
    )


def _name(value: Any) -> str:
    return clean_text(value)[:LONGEST_NAME] if isinstance(value, str) else ""


def _first_token(logprobs: Any) -> dict[str, float]:
    """Read the likeliest first tokens; what is not in that shape is left out, for only judges need them."""
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    first = tokens[0] if isinstance(tokens, list) and tokens else None
    likeliest = (first.get("top_logprobs") or [first]) if isinstance(first, dict) else []
    return {
        clean_text(entry["token"]): float(entry["logprob"])
        for entry in (likeliest if isinstance(likeliest, list) else [])
        if isinstance(entry, dict)
        and isinstance(entry.get("token"), str)
        and _is_number(entry.get("logprob"))
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e300 and isfinite(value)
