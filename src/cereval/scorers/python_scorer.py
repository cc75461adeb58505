"""`python:module:function`: a user's own function as a scorer, sync or async."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from cereval.imports import load_function
from cereval.scorers.base import Question, Score


@dataclass(frozen=True, slots=True)
class PythonScorer:
    """Calls `function(answer, item)`, which returns a number in [0, 1], a bool or a `Score`.

    The item has `.id`, `.text`, `.answers`, `.choices`, `.category` and `.metadata`.
    """

    function: str
    name: ClassVar[str] = "python"

    def __post_init__(self) -> None:
        _loaded(self.function)

    async def score(self, question: Question, answer: str) -> Score:
        function = _loaded(self.function)
        if inspect.iscoroutinefunction(function):
            value = await function(answer, question)
        else:
            value = await asyncio.to_thread(function, answer, question)
        return value if isinstance(value, Score) else Score(value)


@cache
def _loaded(spec: str) -> Callable[..., Any]:
    # A file is executed when it is loaded: once a process, not once an answer.
    return load_function("scorer", spec)
