"""Waiting for news, and for a task that must come to its end."""

from __future__ import annotations

import asyncio


class Bell:
    """Wakes everyone who waits."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        await self._event.wait()


async def finished(task: asyncio.Task[None]) -> None:
    """Waits for a task to its end; a cancellation meanwhile is passed on afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()
