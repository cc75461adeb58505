"""Name what went wrong with a call, and try again: backoff with jitter, and all calls wait while a server is busy.

Foreign errors become a `Fault` here and nowhere else. Nothing that looks like an API key leaves this package.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TypeVar

from cereval.errors import BadContent, CallError, InvalidInput, shown
from cereval.models.base import EndpointError, Reply
from cereval.models.speed import Speed

T = TypeVar("T")

HIDDEN = "[hidden]"
_LOOKS_SECRET = re.compile(r"(?i)(bearer\s+)[^\s\"',;]+|\b(?:sk|gsk|hf|xai|key)[-_][A-Za-z0-9_\-*.]{8,}")

RETRYABLE_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})

UNSUPPORTED = frozenset(
    {"unsupported_value", "unsupported_parameter", "unknown_parameter", "model_not_found"}
)
"""Codes of a bad request that no other question would escape, such as a temperature for a reasoning model."""

LONGEST_WAIT = 6
"""Times the patience that one call waits for a busy server while others are answered: it may be too large for it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Describe one failed attempt. `retryable`: another may succeed. `everywhere`: no other question fares better.

    `busy`: the server wants all calls to wait, `retry_after_s` where it says how long. `absent`: nobody at the address
    answers as a model does. `by_question`: where others were answered, it may be the question. `finish_reason`,
    `cost_usd`: of a reply that holds no answer, and may have cost money all the same.
    """

    message: str
    retryable: bool = False
    everywhere: bool = False
    busy: bool = False
    retry_after_s: float = 0.0
    absent: bool = False
    by_question: bool = False
    finish_reason: str = ""
    cost_usd: float | None = 0.0

    def error(self, attempts: int = 1) -> CallError:
        tries = f" (after {attempts} attempts)" if attempts > 1 else ""
        error = (EndpointError if self.everywhere else CallError)(self.message + tries)
        error.finish_reason, error.cost_usd = self.finish_reason, self.cost_usd
        return error


class FaultError(Exception):
    """Carry a fault out of a model of this package that already knows it."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(fault.message)


class BadStatus(Exception):
    """Carry what a server answered with a status that is no success. body: what it says of it, a text or JSON."""

    def __init__(self, status: int, headers: Mapping[str, str], body: object) -> None:
        self.status, self.headers, self.body = status, headers, body
        super().__init__(status)

    @property
    def code(self) -> str:
        return str(self.body.get("code")) if isinstance(self.body, dict) else ""

    @property
    def message(self) -> str:
        if isinstance(self.body, dict):
            return str(
                self.body.get("message") or self.body.get("detail") or self.body.get("error") or self.body
            )
        return str(self.body or "it does not say why")


class Broken(Exception):
    """Tell that a request or its answer did not arrive; the cause says why."""


@dataclass(frozen=True, slots=True)
class Retries:
    """Say how often and how patiently to try: waits double from `first_s` to `longest_s`.

    `patience_s` bounds how long a busy server is waited for that answers nobody; then the run stops.

    >>> Retries(first_s=1, longest_s=5).pause(3, jitter=1.0)
    5.0
    """

    attempts: int = 6
    first_s: float = 0.5
    longest_s: float = 30.0
    patience_s: float = 600.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidInput("attempts", "a whole number >= 1", self.attempts)
        if not 0 <= self.first_s <= self.longest_s:
            raise InvalidInput("first_s", "in [0, longest_s]", self.first_s)

    def pause(self, failed: int, jitter: float) -> float:
        """Choose the seconds to wait after `failed` + 1 failures: half to all of the backoff."""
        return min(self.longest_s, self.first_s * 2.0 ** min(failed, 60)) * (0.5 + 0.5 * jitter)


@dataclass(slots=True, weakref_slot=True, eq=False)
class Pace:
    """Slow down the calls to one server, all of them together, while it says that it is busy (429).

    That says nothing about the question that was asked: it is asked again until the server answers, and where it
    answers nobody for too long the run stops.
    """

    until: float = 0.0
    since: float | None = None
    """When the server first said that it is busy, since its last answer."""
    rounds: int = 0
    speed: Speed = field(default_factory=Speed)

    def note_answer(self, now: float) -> None:
        self.since, self.rounds = None, 0
        self.speed.note_answer(now)

    def slow_down(self, fault: Fault, policy: Retries, now: float, jitter: float) -> Fault | None:
        """Let all calls wait; return why not where that would take too long."""
        since = self.since = now if self.since is None else self.since
        if fault.retry_after_s > policy.patience_s:
            why = f"it asks to wait {fault.retry_after_s:,.0f} s"
        elif now - since > policy.patience_s:
            why = f"it has answered no call for {now - since:,.0f} s"
        else:
            wait = max(policy.pause(self.rounds, jitter), fault.retry_after_s)
            # Calls that were on their way together were refused together: that is one round.
            if now >= self.until:
                self.rounds += 1
                self.speed.slow_down(now + wait)
            self.until = max(self.until, now + wait)
            return None
        return replace(fault, message=f"{fault.message}; {why}: lower -j, or resume later", everywhere=True)


async def retry(
    call: Callable[[], Awaitable[T]],
    translate: Callable[[Exception], Fault],
    policy: Retries,
    pace: Pace | None = None,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    jitter: Callable[[], float] = random.random,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[T, int]:
    """Return the first success and the number of attempts; raise `CallError` without the foreign error, whose text may
    hold a secret."""
    pace, attempt, failed, started = pace or Pace(), 0, 0, clock()
    while True:
        await _wait_for_turn(pace, sleep, clock)
        attempt += 1
        try:
            value = await call()
        except Exception as error:
            fault = translate(error)
        else:
            pace.note_answer(clock())
            return value, attempt
        if fault.busy and clock() - started < LONGEST_WAIT * policy.patience_s:
            given_up = pace.slow_down(fault, policy, clock(), jitter())
            if given_up is not None:
                raise given_up.error(attempt) from None
            continue
        failed += 1
        if not fault.retryable or failed >= policy.attempts:
            raise fault.error(attempt) from None
        await sleep(policy.pause(failed - 1, jitter()))


async def _wait_for_turn(
    pace: Pace, sleep: Callable[[float], Awaitable[None]], clock: Callable[[], float]
) -> None:
    """Wait while the server is busy, then for a turn; a turn that a busy server spoils is taken anew."""
    while True:
        while (left := pace.until - clock()) > 0:
            await sleep(left)
        if (turn := pace.speed.turn(clock())) > 0:
            await sleep(turn)
        if pace.until <= clock():
            return


async def ask_with_retries(
    call: Callable[[], Awaitable[Reply]],
    translate: Callable[[Exception], Fault],
    policy: Retries,
    pace: Pace | None = None,
) -> Reply:
    """Return the first reply, with its attempts and the time that they took together."""
    started = time.monotonic()
    reply, tries = await retry(call, translate, policy, pace)
    return replace(reply, latency_s=time.monotonic() - started, attempts=reply.attempts + tries - 1)


def fault_of(error: Exception, endpoint: str = "the model", key: str | None = None) -> Fault:
    """Find the fault behind any exception of a call, in one scrubbed line."""
    for known_error in (error, error.__cause__):
        if isinstance(known_error, FaultError):
            return known_error.fault
    if isinstance(error, TimeoutError) or isinstance(error.__cause__, TimeoutError):
        return _late(endpoint)
    if isinstance(error, BadStatus):
        return _status_fault(error, endpoint, key)
    if isinstance(error, Broken):
        return _connection_fault(error, endpoint, key)
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return Fault(f"{endpoint} sent an answer that is cut off or not JSON", retryable=True)
    if isinstance(error, BadContent):
        return Fault(f"{endpoint} sent JSON that means two things: {_line(str(error), key)}", cost_usd=None)
    return Fault(f"{endpoint} failed: {type(error).__name__}: {_line(str(error), key)}")


def _late(endpoint: str) -> Fault:
    return Fault(f"{endpoint} gave no answer in time; raise the timeout or lower -j", retryable=True)


def _status_fault(error: BadStatus, endpoint: str, key: str | None) -> Fault:
    status, said = error.status, _line(error.message, key)
    refused = partial(Fault, everywhere=True, by_question=True)
    if status == 401:
        hint = "set OPENAI_API_KEY to a valid one"
        return Fault(f"{endpoint} refuses the API key (401); {hint}", everywhere=True)
    if status == 403:
        return refused(f"{endpoint} forbids this key the model (403): {said}")
    if status == 404:
        hint = "check --model and --base-url (it usually ends in /v1)"
        return refused(f"{endpoint} knows no such model or address (404): {said}; {hint}")
    if status == 402 or (status == 429 and error.code == "insufficient_quota"):
        return Fault(f"{endpoint}: the account's quota is spent ({status}): {said}", everywhere=True)
    if status in (400, 422) and error.code in UNSUPPORTED:
        return refused(f"{endpoint} refuses a setting ({status}): {said}; leave it out")
    wait, again = retry_after(error.headers), status in RETRYABLE_STATUS
    busy = status == 429 or (again and wait is not None)
    return Fault(f"{endpoint} answered {status}: {said}", again, busy=busy, retry_after_s=wait or 0.0)


def _connection_fault(error: Broken, endpoint: str, key: str | None) -> Fault:
    cause = error.__cause__ or error
    if type(cause).__name__ in ("ConnectError", "ConnectTimeout", "UnsupportedProtocol"):
        reason = _line(str(cause), key) or "it does not take the connection"
        return Fault(
            f"cannot reach {endpoint}: {reason}; check --base-url and that the server runs",
            retryable=True,
            everywhere=True,
            absent=True,
        )
    if type(cause).__name__ in ("ReadTimeout", "WriteTimeout", "PoolTimeout"):
        return _late(endpoint)
    return Fault(f"the connection to {endpoint} broke: {_line(str(cause), key)}", retryable=True)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read the seconds that a server asks to wait, from `retry-after-ms` or `retry-after` (seconds or a date).

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
    except (ValueError, TypeError, OverflowError):
        return None


def _line(text: str, key: str | None) -> str:
    # `shown` escapes control characters, so that a hostile server cannot drive the terminal.
    return shown(hide_secrets(text, key), limit=200).strip("'\"")


def hide_secrets(text: str, key: str | None = None) -> str:
    """Hide the key, and anything that looks like one, in a text.

    >>> hide_secrets("Incorrect API key: hunter2", "hunter2")
    'Incorrect API key: [hidden]'
    >>> hide_secrets("Authorization: Bearer abc.def")
    'Authorization: Bearer [hidden]'
    """
    if key:
        text = text.replace(key, HIDDEN)
    return _LOOKS_SECRET.sub(lambda match: (match[1] or "") + HIDDEN, text)
