"""Put a gate before a server: limits that several processes hold together. Without one, every call goes out at
once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Protocol

LETTERS_PER_TOKEN = 4
"""Of a prompt whose tokens nobody has counted yet."""

USUAL_ANSWER = 256
"""Tokens of an answer that may be as long as it likes; what it took in truth is told afterwards."""


class Gate(Protocol):
    """Lets calls to a server pass, within its limits."""

    async def enter(self, server: str, tokens: int) -> int | None:
        """Wait for leave to send a call of so many tokens; return its number, None where no leave is needed."""

    async def leave(self, leave: int, tokens: int | None) -> None:
        """Tell that the call has ended, and the tokens that it took, where that is known."""


GATE: ContextVar[Gate | None] = ContextVar("gate", default=None)
"""The gate of the calls made from here; None: there is none."""


class Passing:
    """Hold one call on its way; `tokens` is what it took, once that is known."""

    tokens: int | None = None


@asynccontextmanager
async def passing(server: str, request: dict[str, Any]) -> AsyncIterator[Passing]:
    """Hold the leave of one call while the context is open."""
    gate, call = GATE.get(), Passing()
    leave = None if gate is None else await gate.enter(server, expected_tokens(request))
    try:
        yield call
    finally:
        if gate is not None and leave is not None:
            await gate.leave(leave, call.tokens)


def expected_tokens(request: dict[str, Any]) -> int:
    """Guess the tokens of a request and its answer, to count against a limit before they are known.

    >>> expected_tokens({"messages": [{"role": "user", "content": "x" * 400}], "max_tokens": 50})
    150
    """
    letters = sum(len(str(message.get("content", ""))) for message in request.get("messages", ()))
    longest = request.get("max_tokens") or request.get("max_completion_tokens") or USUAL_ANSWER
    return letters // LETTERS_PER_TOKEN + int(longest)
