"""Serve whoever connects, and end every connection when the server is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class Connections:
    """Serve whoever connects, until he hangs up or `close` is called.

    The tasks are ours and not asyncio's, which logs a traceback for each of its own that is cancelled (Python 3.11).
    A connection is closed when its task is done, not by the task: it may be cancelled before it begins, or while it
    tidies up.
    """

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int = 0, *, limit: int = 2**16) -> int:
        """Begin to serve; return the port, a free one for 0. limit: the longest line, in bytes."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=limit)
        chosen: int = self._server.sockets[0].getsockname()[1]
        return chosen

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        while self._open:
            for task, writer in self._open.items():
                task.cancel()
                writer.transport.abort()
            await asyncio.wait(self._open)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None or not self._server.is_serving():
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._open[task] = writer
        task.add_done_callback(lambda done: self._open.pop(done).close())
