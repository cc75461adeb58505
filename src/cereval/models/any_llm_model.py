"""Ask the providers that speak their own protocols through any-llm (extra `any`): `any/PROVIDER/NAME`.

Of the layers that are kept up, any-llm installs least (two SDKs; each provider's own comes as an extra of it), returns
OpenAI's own objects with usage and finish reasons, and lets its retries be switched off: waiting is ours.
"""

from __future__ import annotations

import os
from inspect import isawaitable
from typing import Any

from cereval.errors import CallError, InvalidInput, shown
from cereval.imports import optional
from cereval.models.base import Settings
from cereval.models.openai_model import OpenAIModel
from cereval.models.prices import Price, list_price, own_price
from cereval.models.retries import BadStatus, Broken, Retries, hide_secrets
from cereval.models.speed import Passing, Speed

STATUS = {
    "AuthenticationError": 401,
    "RateLimitError": 429,
    "ModelNotFoundError": 404,
    "InvalidRequestError": 400,
    "UnsupportedParameterError": 400,
    "ContextLengthExceededError": 400,
    "ContentFilterError": 400,
}
"""What an error of any-llm means that does not say its status."""


class AnyClient:
    """Answer chat completions by one provider of any-llm."""

    key = None

    def __init__(self, provider: str, asked: Any) -> None:
        self.base_url, self.asked = provider, asked
        self.speed: Speed | None = None

    async def post(self, _: str, body: dict[str, Any], call: Passing) -> Any:
        try:
            async with call.on_the_wire():
                answer = await self.asked.acompletion(**body)
        except TimeoutError:
            raise
        except Exception as error:
            raise translated(error) from error
        return answer.model_dump()

    async def close(self) -> None:
        """Close the provider's own client, where it can be closed; any-llm does not."""
        client = getattr(self.asked, "client", None)
        close = getattr(client, "aclose", None) or getattr(client, "close", None)
        found = None if close is None else close()
        if isawaitable(found):
            await found


def translated(error: Exception) -> Exception:
    """Return an error of any-llm as what a server said; one that is none of a server as a broken connection."""
    status = (
        getattr(error, "status_code", None) or _status_from_aws(error) or STATUS.get(type(error).__name__)
    )
    if status is None:
        return Broken()
    headers = {"retry-after": str(getattr(error, "retry_after", "") or "")}
    body = {name: getattr(error, name, None) for name in ("message", "code", "param")}
    return BadStatus(int(status), headers, body)


def _status_from_aws(error: Exception) -> int | None:
    answer = getattr(getattr(error, "original_exception", None), "response", None)
    about = answer.get("ResponseMetadata") if isinstance(answer, dict) else None
    status = about.get("HTTPStatusCode") if isinstance(about, dict) else None
    return status if isinstance(status, int) else None


def open_any(
    name: str,
    *,
    settings: Settings | None = None,
    price: Price | None = None,
    retries: Retries | None = None,
    timeout_s: float = 120.0,
) -> OpenAIModel:
    provider, slash, model = name.partition("/")
    if not slash or not model:
        raise InvalidInput(
            "model", "any/PROVIDER/NAME, such as any/bedrock/amazon.nova-lite-v1:0", f"any/{name}"
        )
    any_llm = optional("any_llm", "any")
    create = any_llm.AnyLLM.create
    try:
        try:
            asked = create(provider, max_retries=0, unified_exceptions=True)
        except any_llm.UnsupportedParameterError:
            # AWS's own way to say so; other SDKs without a number of retries have none.
            os.environ.setdefault("AWS_MAX_ATTEMPTS", "1")
            asked = create(provider, unified_exceptions=True)
    except (any_llm.AnyLLMError, ImportError) as error:
        raise CallError(f"any/{provider} cannot be asked: {shown(hide_secrets(str(error)), 300)}") from None
    price = price or own_price(f"any/{name}") or list_price(model, provider)
    client = AnyClient(f"any/{provider}", asked)
    return OpenAIModel(
        model, client.base_url, settings or Settings(), price, retries or Retries(), timeout_s, client, "any"
    )
