"""Ask a user's own function as a model: `python:module:function`, or the function itself from Python.

    def answer(messages): ...           # or async def
    def answer(messages, item): ...

`messages` is the chat, a list of `{"role": ..., "content": ...}`; the question is `messages[-1]["content"]`. `item`
is a dict of what the data says about the question, by field: `id`, `question`, `choices`, `category` and the others,
never the right answer. The function returns the answer's text, or a `Reply` that also states tokens and cost.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from cereval.errors import InvalidInput, shown
from cereval.imports import load_function, name_of
from cereval.models.base import Messages, Reply, Settings, parse_count
from cereval.models.retries import Fault, FaultError, Retries, ask_with_retries, fault_of
from cereval.text import storable

THE_QUESTION = " (it gets the chat, a list; the question is messages[-1]['content'])"
SIGNATURE = "answer(messages) or answer(messages, item)"


@dataclass(frozen=True, slots=True)
class PythonModel:
    """Call a function for each question. What it raises is a failed call that is not repeated: only the function's
    author knows what is worth another attempt."""

    name: str
    function: Callable[..., Any]
    timeout_s: float
    threads: ThreadPoolExecutor = field(repr=False, compare=False)
    item: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def about(self, item: Mapping[str, Any]) -> PythonModel:
        return replace(self, item=item)

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:
        if top_logprobs:
            raise Fault(f"{self.name} gives no log-probabilities", everywhere=True).error()
        return await ask_with_retries(lambda: self._attempt(messages), self._fault, Retries(attempts=1))

    def _fault(self, error: Exception) -> Fault:
        found = fault_of(error, self.name)
        expects_text = isinstance(error, AttributeError | TypeError) and "list" in str(error)
        return replace(found, message=f"{found.message}{THE_QUESTION}") if expects_text else found

    async def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)

    async def _attempt(self, messages: Messages) -> Reply:
        async with asyncio.timeout(self.timeout_s):
            value = await self._call(messages)
        if not isinstance(value, str | Reply):
            wrong = f"{self.name} must return a text or a Reply, got {shown(value)}"
            raise FaultError(Fault(wrong, everywhere=True))
        return _storable(Reply(value) if isinstance(value, str) else value)

    async def _call(self, messages: Messages) -> Any:
        chat = [dict(message) for message in messages]
        arguments = (chat, dict(self.item)) if takes_item(self.function) else (chat,)
        if inspect.iscoroutinefunction(self.function):
            return await self.function(*arguments)
        value = await asyncio.get_running_loop().run_in_executor(self.threads, self.function, *arguments)
        return await value if inspect.isawaitable(value) else value


def open_python(
    function: str | Callable[..., Any],
    *,
    timeout_s: float = 120.0,
    connections: int = 32,
    settings: Settings | None = None,
) -> PythonModel:
    name = f"python:{name_of(function)}"
    settings = settings or Settings()
    if settings.temperature or settings.max_tokens or settings.extra:
        flags = "--temperature, --max-tokens and --set"
        raise InvalidInput(flags, f"left out for {name}: a function does not get them", settings.request())
    function = load_function("model", function) if isinstance(function, str) else function
    _check_signature(function, name)
    return PythonModel(name, function, timeout_s, ThreadPoolExecutor(connections, "cereval-model"))


def takes_item(function: Callable[..., Any]) -> bool:
    """Tell whether a function has a second argument, for the item.

    >>> takes_item(lambda messages: ""), takes_item(lambda messages, item: ""), takes_item(lambda messages, n=1: "")
    (False, True, False)
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # Some functions written in C do not tell.
        return False
    return any(
        parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and (parameter.default is parameter.empty or parameter.name == "item")
        for parameter in parameters[1:2]
    )


def _check_signature(function: Callable[..., Any], name: str) -> None:
    """Refuse a function that cannot be called with a chat, or that expects a text: every call would fail alike."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    first = next(iter(signature.parameters.values()), None)
    reason = (
        "its first argument is the chat, not a text" if first and first.annotation in (str, "str") else ""
    )
    try:
        signature.bind(*(([], {}) if takes_item(function) else ([],)))
    except TypeError as error:
        reason = str(error)
    if reason:
        raise InvalidInput("model", f"a function such as {SIGNATURE} ({reason})", f"{name}{signature}")


def _storable(reply: Reply) -> Reply:
    """Copy a reply of a user's function without what no database takes: absurd counts become 0, costs unknown."""
    cost = reply.cost_usd
    return replace(
        reply,
        text=storable(reply.text),
        input_tokens=parse_count(reply.input_tokens) or 0,
        output_tokens=parse_count(reply.output_tokens) or 0,
        cost_usd=cost if isinstance(cost, int | float) and 0 <= cost < float("inf") else None,
    )
