"""Ask a user's own function as a model, sync or async: `python:module:function`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from cereval.errors import shown
from cereval.imports import load_function
from cereval.models.base import Messages, Reply, clean_text, counted
from cereval.models.retries import Fault, FaultError, Retries, answered, fault_of


@dataclass(frozen=True, slots=True)
class PythonModel:
    """Call `function(prompt)`, or `function(messages=...)` where it has a parameter of that name.

    It returns the answer's text, or a `Reply` that also states tokens and cost. What it raises becomes a
    `CallError`; it is not retried, because only the function's author knows what is worth another attempt.
    """

    name: str
    function: Callable[..., Any]
    timeout_s: float
    threads: ThreadPoolExecutor = field(repr=False, compare=False)

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:
        if top_logprobs:
            raise Fault(f"{self.name} gives no log-probabilities", everywhere=True).error()
        fault = partial(fault_of, endpoint=self.name)
        return await answered(lambda: self._attempt(messages), fault, Retries(attempts=1))

    async def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)

    async def _attempt(self, messages: Messages) -> Reply:
        async with asyncio.timeout(self.timeout_s):
            value = await self._called(messages)
        if isinstance(value, str):
            value = Reply(value)
        if not isinstance(value, Reply):
            wrong = f"{self.name} must return a text or a Reply, got {shown(value)}"
            raise FaultError(Fault(wrong, everywhere=True))
        return _storable(value)

    async def _called(self, messages: Messages) -> Any:
        if inspect.iscoroutinefunction(self.function):
            return await self._call(messages)
        value = await asyncio.get_running_loop().run_in_executor(self.threads, self._call, messages)
        return await value if inspect.isawaitable(value) else value

    def _call(self, messages: Messages) -> Any:
        if _takes_messages(self.function):
            return self.function(messages=[dict(message) for message in messages])
        return self.function("\n\n".join(message["content"] for message in messages))


def open_python(
    source: str | Callable[..., Any], *, timeout_s: float = 120.0, connections: int = 32, name: str = ""
) -> PythonModel:
    """Open a callable as a model: one that is given, or the one in `module:function` or `file.py:function`."""
    threads = ThreadPoolExecutor(connections, thread_name_prefix="cereval-model")
    function = load_function("model", source) if isinstance(source, str) else source
    return PythonModel(name or f"python:{source}", function, timeout_s, threads)


def _storable(reply: Reply) -> Reply:
    """Copy a reply of a user's function without what no database takes: absurd counts become 0, costs unknown."""
    cost = reply.cost_usd
    return replace(
        reply,
        text=clean_text(reply.text),
        input_tokens=counted(reply.input_tokens) or 0,
        output_tokens=counted(reply.output_tokens) or 0,
        cost_usd=cost if isinstance(cost, int | float) and 0 <= cost < float("inf") else None,
    )


def _takes_messages(function: Callable[..., Any]) -> bool:
    try:
        return "messages" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
