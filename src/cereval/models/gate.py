"""Put a gate before a server: limits that several processes hold together. Without one, every call goes out at
once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Protocol

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
