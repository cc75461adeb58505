"""Write many answers in few commits: `add` returns when its answer is durable, waiting ones share a transaction."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from cereval.records import Draw
from cereval.store.base import Answer, Store

MOST = 500
"""Answers per transaction."""

TURN_S = 0.001
"""How long Python lets one thread work before another's turn. A commit takes a dozen turns: at Python's 5 ms each, a
busy event loop would make it wait longer than the disk does."""

Waiting = tuple[str, Answer, asyncio.Future[None]]


class AnswerWriter:
    """Group the commits of one store. Use as an async context manager; leaving it waits for what is pending.

    The first answer is committed at once, those that arrive meanwhile go together: no timer, no added delay. One
    thread writes all, for SQLite has one writer at a time.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[Waiting] = []
        self._flushing: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cereval-store")

    async def add(self, run_id: str, answer: Answer) -> None:
        """Return when the answer is durable; raise `StoreError` when it is not.

        A cancelled caller does not take the answer back: it is still written.
        """
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((run_id, answer, durable))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        await durable

    async def add_draws(self, run_id: str, draws: Sequence[Draw]) -> None:
        await self._write(self._store.add_draws, run_id, draws)

    async def change(self, run_id: str, status: str, detail: Mapping[str, Any]) -> None:
        await self._write(self._store.mark, run_id, status, detail)

    async def __aenter__(self) -> Self:
        self._turn_s = sys.getswitchinterval()
        sys.setswitchinterval(min(self._turn_s, TURN_S))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._flushing is not None:
            await self._flushing
        self._thread.shutdown()
        sys.setswitchinterval(self._turn_s)

    async def _write(self, method: Callable[..., None], *values: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, method, *values)

    async def _flush(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            for run_id in dict.fromkeys(one[0] for one in batch):
                await self._commit(
                    run_id, [(answer, durable) for run, answer, durable in batch if run == run_id]
                )
        self._flushing = None

    async def _commit(self, run_id: str, batch: Sequence[tuple[Answer, asyncio.Future[None]]]) -> None:
        error: Exception | None = None
        try:
            await self._write(self._store.add_answers, run_id, [answer for answer, _ in batch])
        except Exception as failed:
            error = failed
        for _, durable in batch:
            if durable.done():  # its caller was cancelled
                continue
            if error is None:
                durable.set_result(None)
            else:
                durable.set_exception(error)
