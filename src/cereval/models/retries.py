"""Trying again: exponential backoff with jitter that honours what the server asks for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cereval.errors import InvalidInput
from cereval.models.faults import Fault

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and how patiently to try: waits double from `first_s` to `longest_s`.

    A server that asks for more than `patience_s` is not waited for.

    >>> Retries(first_s=1, longest_s=5).pause(3, jitter=1.0)
    5.0
    """

    attempts: int = 6
    first_s: float = 0.5
    longest_s: float = 30.0
    patience_s: float = 120.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidInput("attempts", "a whole number >= 1", self.attempts)
        if not 0 <= self.first_s <= self.longest_s:
            raise InvalidInput("first_s", "in [0, longest_s]", self.first_s)

    def pause(self, failed: int, jitter: float, asked_s: float | None = None) -> float:
        """Seconds to wait after `failed` + 1 failures: half to all of the backoff, never less than asked."""
        backoff = min(self.longest_s, self.first_s * 2.0 ** min(failed, 60))
        return max(backoff * (0.5 + 0.5 * jitter), asked_s or 0.0)

    def gives_up(self, failed: int, fault: Fault) -> bool:
        """Whether the `failed`-th failure is the last."""
        return (
            not fault.retryable or failed >= self.attempts or (fault.retry_after_s or 0.0) > self.patience_s
        )


@dataclass(frozen=True, slots=True)
class Tried(Generic[T]):
    """A value and the number of attempts behind it."""

    value: T
    attempts: int


async def retrying(
    call: Callable[[], Awaitable[T]],
    translate: Callable[[Exception], Fault],
    policy: Retries,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    jitter: Callable[[], float] = random.random,
) -> Tried[T]:
    """The first success, or `CallError`; the foreign error is dropped because its text may hold a secret."""
    attempt = 0
    while True:
        attempt += 1
        try:
            return Tried(await call(), attempt)
        except Exception as error:
            fault = translate(error)
        if policy.gives_up(attempt, fault):
            raise fault.error(attempt) from None
        await sleep(policy.pause(attempt - 1, jitter(), fault.retry_after_s))
