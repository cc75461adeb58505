"""Keep to the rate limits of a provider: calls are spaced so that what is left lasts until it is filled up again.

Answers carry headers with what is left of a limit and when it is full again. Sending `left / time` a second uses up a
fixed window exactly at its end. A bucket that fills steadily comes to rest half full, at the rate at which it fills:
below half the sends are slower than that, above faster. A server that says nothing of limits but refuses calls (429)
is asked more slowly, and then a little faster with every answer.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

KINDS = ("requests", "tokens", "input-tokens", "output-tokens")
SLOWER, FASTER = 0.8, 1.01
"""The rate after a refusal, as a share of that of the answers before; and its growth with every answer since."""
SLOWEST = 0.5
"""Share of the rate of the answers so far that is asked at least."""
FEWEST = 5
"""Answers that tell a rate."""
MINUTE_S = 60.0
LEAST = 0.5
"""Share of a limit a minute that is asked at all times: what is left may be 0 for a moment."""
_PARTS = re.compile(r"([\d.]+)(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(slots=True)
class Speed:
    """Space the calls to one server. rate: calls a second; None: as fast as connections allow."""

    rate: float | None = None
    next_at: float = 0.0
    tokens: float = 0.0
    """Of a call, on average of late."""
    is_told: bool = False
    """Whether the server says what is left."""
    answers: deque[float] = field(default_factory=lambda: deque(maxlen=50))

    def turn(self, now: float) -> float:
        if self.rate is None:
            return 0.0
        at = max(now, self.next_at)
        self.next_at = at + 1 / self.rate
        return at - now

    def note_tokens(self, count: int) -> None:
        self.tokens = count if not self.tokens else 0.9 * self.tokens + 0.1 * count

    def note_answer(self, now: float) -> None:
        self.answers.append(now)
        if self.rate is not None and not self.is_told:
            self.rate *= FASTER

    def slow_down(self, until: float) -> None:
        """Ask more slowly than the server has answered so far: it refused. Turns begin anew when it may be asked."""
        self.next_at = until
        if len(self.answers) < FEWEST:
            return
        taken = (len(self.answers) - 1) / max(self.answers[-1] - self.answers[0], 1e-3)
        self.rate = max(SLOWER * (taken if self.rate is None else min(taken, self.rate)), SLOWEST * taken)

    def note_limits(self, headers: Mapping[str, str]) -> None:
        found = [
            rate
            for kind in KINDS
            for names in (f"x-ratelimit-{{}}-{kind}", f"anthropic-ratelimit-{kind}-{{}}")
            if (rate := self._rate(names, kind, headers)) is not None
        ]
        if found:
            self.is_told, self.rate = True, min(found)

    def _rate(self, names: str, kind: str, headers: Mapping[str, str]) -> float | None:
        """Return the calls a second that one limit allows; None: the server says nothing of it."""
        limit, left = (_number(headers.get(names.format(one))) for one in ("limit", "remaining"))
        full = seconds_until(headers.get(names.format("reset"), ""))
        each = 1.0 if kind == "requests" else self.tokens
        if limit is None or left is None or full is None or not each:
            return None
        return max(left / max(full, 0.01), LEAST * limit / MINUTE_S, 1e-3) / each


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < 1e15 else None


def seconds_until(text: str) -> float | None:
    """Read a time such as `6m0s`, `120ms`, `0.5` or `2026-11-18T20:00:00Z` as seconds from now.

    >>> seconds_until("6m0.5s"), seconds_until("120ms"), seconds_until("2"), seconds_until("soon")
    (360.5, 0.12, 2.0, None)
    """
    if text and not _PARTS.sub("", text):
        return sum(float(number) * _SECONDS[unit] for number, unit in _PARTS.findall(text))
    try:
        return max(datetime.fromisoformat(text).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError):
        return None


# -- a gate before a server -------------------------------------------------------------------------------------------


LETTERS_PER_TOKEN = 4
"""Of a prompt whose tokens nobody has counted yet."""

USUAL_ANSWER = 256
"""Tokens of an answer that may be as long as it likes; what it took in truth is told afterwards."""

STAND_BACK_S = 0.001
"""How long an answer that has been read waits to be looked at while the call that takes its place is sent.

Reading, scoring and storing an answer takes a few milliseconds, for which the server would idle."""


class Gate(Protocol):
    """Lets calls to a server pass, within its limits."""

    async def enter(self, server: str, tokens: int) -> int | None:
        """Wait for leave to send a call of so many tokens; return its number, None where no leave is needed."""

    def answered(self, leave: int) -> bool:
        """Tell that the answer has been read: the connection is free, though its tokens are not yet known.

        Return whether another call from here goes out on it now.
        """

    async def leave(self, leave: int, tokens: int | None) -> None:
        """Tell that the call has ended, and the tokens that it took, where that is known."""


GATE: ContextVar[Gate | None] = ContextVar("gate", default=None)
"""The gate of the calls made from here; None: there is none."""


class Passing:
    """Hold one call while it is made: it passes the gate where it is sent. `tokens`: what it took, where known."""

    def __init__(self, server: str, request: dict[str, Any], timeout_s: float) -> None:
        self.gate, self.server, self.timeout_s = GATE.get(), server, timeout_s
        self.expected = expected_tokens(request)
        self.tokens: int | None = None
        self._leave: int | None = None
        self._is_answered = False

    async def __aenter__(self) -> Passing:
        return self

    async def __aexit__(self, *_: object) -> None:
        leave, self._leave = self._leave, None
        if self.gate is not None and leave is not None:
            await self.gate.leave(leave, self.tokens)

    @asynccontextmanager
    async def on_the_wire(self) -> AsyncIterator[None]:
        """Hold the leave of the call, from its first byte to the last of its answer, and its time.

        What is prepared before and read out of the answer afterwards keeps no other call waiting.
        """
        await self.__aexit__()  # A call that is sent once more asks once more.
        if self.gate is not None:
            self._leave, self._is_answered = await self.gate.enter(self.server, self.expected), False
        try:
            async with asyncio.timeout(self.timeout_s):
                yield
        finally:
            await self.note_answer()

    async def note_answer(self) -> None:
        """Tell that the last byte of the answer is here, and let the call go first that takes its place."""
        if not self._is_answered and self.gate is not None and self._leave is not None:
            self._is_answered = True
            if self.gate.answered(self._leave):
                await asyncio.sleep(STAND_BACK_S)


def expected_tokens(request: dict[str, Any]) -> int:
    """Guess the tokens of a request and its answer, to count against a limit before they are known.

    >>> expected_tokens({"messages": [{"role": "user", "content": "x" * 400}], "max_tokens": 50})
    150
    """
    letters = sum(len(str(message.get("content", ""))) for message in request.get("messages", ()))
    longest = request.get("max_tokens") or request.get("max_completion_tokens") or USUAL_ANSWER
    return letters // LETTERS_PER_TOKEN + int(longest)
