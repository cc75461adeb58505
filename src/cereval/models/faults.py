"""What went wrong with a call: foreign errors become a `Fault` here and nowhere else."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from cereval.errors import CallError, shown
from cereval.models.base import EndpointError
from cereval.models.secrets import scrubbed

RETRYABLE_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})

UNSUPPORTED = frozenset(
    {"unsupported_value", "unsupported_parameter", "unknown_parameter", "model_not_found"}
)
"""Codes of a bad request that no other question would escape, such as a temperature for a reasoning model."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One failed attempt. `retryable`: another may succeed. `everywhere`: no other question fares better.

    `absent`: nobody at the address answers as a model does. `by_question`: where others were answered, it may be
    the question. `finish_reason`, `cost_usd`: of a reply that holds no answer, and may have cost money all the same.
    """

    message: str
    retryable: bool = False
    everywhere: bool = False
    retry_after_s: float | None = None
    absent: bool = False
    by_question: bool = False
    finish_reason: str = ""
    cost_usd: float | None = 0.0

    def error(self, attempts: int = 1) -> CallError:
        """The exception that callers of a model see."""
        tries = f" (after {attempts} attempts)" if attempts > 1 else ""
        error = (EndpointError if self.everywhere else CallError)(self.message + tries)
        error.finish_reason, error.cost_usd = self.finish_reason, self.cost_usd
        return error


class FaultError(Exception):
    """Raised inside this package by models that already know their fault."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(fault.message)


def fault_of(error: Exception, endpoint: str = "the model", key: str | None = None) -> Fault:
    """The fault behind any exception of a call, in one scrubbed line."""
    # The SDK wraps what our own client (`wire`) raises.
    for known_error in (error, error.__cause__):
        if isinstance(known_error, FaultError):
            return known_error.fault
    if isinstance(error, TimeoutError):
        return _late(endpoint)
    # Where the SDK was never imported the error cannot be its own.
    known = _sdk_fault(error, endpoint, key) if "openai" in sys.modules else None
    return known or Fault(f"{endpoint} failed: {type(error).__name__}: {_line(str(error), key)}")


def _sdk_fault(error: Exception, endpoint: str, key: str | None) -> Fault | None:
    import openai

    if isinstance(error, openai.APIStatusError):
        return _status_fault(error, endpoint, key)
    if isinstance(error, openai.APIConnectionError):
        return _connection_fault(error, endpoint, key)
    if isinstance(error, json.JSONDecodeError | openai.APIResponseValidationError | UnicodeDecodeError):
        return Fault(f"{endpoint} sent an answer that is cut off or not JSON", retryable=True)
    return None


def _late(endpoint: str) -> Fault:
    return Fault(f"{endpoint} gave no answer in time; raise the timeout or lower -j", retryable=True)


def _status_fault(error: object, endpoint: str, key: str | None) -> Fault:
    status: int = getattr(error, "status_code", 0)
    said = _line(_server_message(error), key)
    if status == 401:
        return Fault(
            f"{endpoint} refuses the API key (401); set OPENAI_API_KEY to a valid one", everywhere=True
        )
    if status == 403:
        return Fault(
            f"{endpoint} forbids this key the model (403): {said}", everywhere=True, by_question=True
        )
    if status == 404:
        return Fault(
            f"{endpoint} knows no such model or address (404): {said}; check --model and --base-url "
            "(it usually ends in /v1)",
            everywhere=True,
            by_question=True,
        )
    if status == 402 or (status == 429 and _code(error) == "insufficient_quota"):
        return Fault(f"{endpoint}: the account's quota is spent ({status}): {said}", everywhere=True)
    if status in (400, 422) and _code(error) in UNSUPPORTED:
        return Fault(
            f"{endpoint} refuses a setting ({status}): {said}; leave it out",
            everywhere=True,
            by_question=True,
        )
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", {})
    return Fault(
        f"{endpoint} answered {status}: {said}",
        retryable=status in RETRYABLE_STATUS,
        retry_after_s=retry_after(headers),
    )


def _connection_fault(error: Exception, endpoint: str, key: str | None) -> Fault:
    import openai

    cause = error.__cause__ or error
    if type(cause).__name__ in ("ConnectError", "ConnectTimeout", "UnsupportedProtocol"):
        reason = _line(str(cause), key) or "it does not take the connection"
        return Fault(
            f"cannot reach {endpoint}: {reason}; check --base-url and that the server runs",
            retryable=True,
            everywhere=True,
            absent=True,
        )
    if isinstance(error, openai.APITimeoutError):
        return _late(endpoint)
    return Fault(f"the connection to {endpoint} broke: {_line(str(cause), key)}", retryable=True)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait, from `retry-after-ms` or `retry-after` (seconds or a date).

    >>> retry_after({"retry-after": "1.5"})
    1.5
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            return max(0.0, float(value) / unit)
        except ValueError:
            pass
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def _code(error: object) -> str:
    body = getattr(error, "body", None)
    return str(body.get("code")) if isinstance(body, dict) else ""


def _server_message(error: object) -> str:
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        return str(body.get("message") or body.get("detail") or body.get("error") or body)
    return str(body or getattr(error, "message", error))


def _line(text: str, key: str | None) -> str:
    # `shown` escapes control characters, so that a hostile server cannot drive the terminal.
    return shown(scrubbed(text, key), limit=200).strip("'\"")
