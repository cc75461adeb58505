"""Ask models that only speak OpenAI's Responses API: chat completions are translated there and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cereval.models.retries import BadStatus

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
