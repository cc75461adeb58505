"""Keep to the rate limits of a provider: calls are spaced so that what is left lasts until it is filled up again.

Answers carry headers with what is left of a limit and when it is full again. Sending `left / time` a second uses up a
fixed window exactly at its end. A bucket that fills steadily comes to rest half full, at the rate at which it fills:
below half the sends are slower than that, above faster. A server that says nothing of limits but refuses calls (429)
is asked more slowly, and then a little faster with every answer.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

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
        """Take a turn; return the seconds until it comes."""
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
        """Take over what an answer says of the limits."""
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
