"""Run scoring code beside the event loop, in a thread that nobody waits for once its time is over."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

LONGEST_S = 30.0
"""Seconds for one score, but for those of judges, whose calls have a limit of their own."""


async def off_the_loop(work: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a daemon thread of its own.

    A thread cannot be killed. Python waits for those of a pool when it ends, so that one function that hangs would hold
    up the end of the program; daemon threads it leaves behind. Starting one takes some 0.1 ms.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def told(outcome: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(outcome)
        else:
            future.set_exception(error)

    def run() -> None:
        outcome: Any = None
        error: BaseException | None = None
        try:
            outcome = work(*arguments)
        except StopIteration as stopped:
            # A future cannot carry this one.
            error = RuntimeError(f"the scorer raised StopIteration: {stopped}")
        except BaseException as raised:
            error = raised
        # The loop may be over by now: nobody wants the score any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(told, outcome, error)

    threading.Thread(target=run, name="cereval-scorer", daemon=True).start()
    return await future
