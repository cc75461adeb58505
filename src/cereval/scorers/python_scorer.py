"""Score with a user's own function, sync or async: `python:module:function`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from cereval.errors import InvalidInput
from cereval.imports import load_function
from cereval.scorers.base import Question, Score, off_the_loop

TARGETS = frozenset(
    {"target", "reference", "expected", "gold", "answer", "answers", "label", "truth", "correct"}
)
"""Names under which a function expects the right answer itself, which it does not get."""

SIGNATURE = "score(output: str, item: Item) -> float"


@dataclass(frozen=True, slots=True)
class PythonScorer:
    """Call `score(output: str, item: Item) -> float`, a function of any name, sync or async.

    It gets the model's output and the item, by position, and returns a number in [0, 1], a bool or a `Score`. The item
    (`cereval.datasets.base.Item`) has `.id`, `.text`, `.answers`, `.choices`, `.category` and `.metadata`. It has 30
    seconds for each, in a thread beside the others; an answer that takes longer is a failure with that reason.
    """

    function: str
    name: ClassVar[str] = "python"

    def __post_init__(self) -> None:
        _loaded(self.function)

    def check(self, question: Question) -> None:
        """Try the function on one item, before any call is paid for."""
        function, output = _loaded(self.function), question.answers[0] if question.answers else ""
        if inspect.iscoroutinefunction(function):
            return
        try:
            value = function(output, question)
            value = None if inspect.isawaitable(value) or isinstance(value, Score) else Score(value)
        except Exception as error:
            reason = f"on item {question.id} it raised {type(error).__name__}: {error}"
            raise InvalidInput(
                "scorer", f"a function that gives a number in [0, 1] ({reason})", self.function
            ) from None

    async def score(self, question: Question, answer: str) -> Score:
        function = _loaded(self.function)
        if inspect.iscoroutinefunction(function):
            value = await function(answer, question)
        else:
            value = await off_the_loop(function, answer, question)
        if inspect.isawaitable(value):
            # An object with an async `__call__` does not look like an async function.
            value = await value
        return value if isinstance(value, Score) else Score(value)


@cache
def _loaded(spec: str) -> Callable[..., Any]:
    # A file is executed when it is loaded: once a process, not once an answer.
    function = load_function("scorer", spec)
    _check_signature(function, spec)
    return function


def _check_signature(function: Callable[..., Any], spec: str) -> None:
    """Refuse a function that cannot be called with an output and an item: every answer would fail alike."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # Some functions written in C do not tell.
    second = list(signature.parameters.values())[1:2]
    if second and (second[0].name in TARGETS or second[0].annotation in (str, "str")):
        received = f"{spec}{signature}"
        hint = "the second argument is the item: its right answers are item.answers"
        raise InvalidInput("scorer", f"a function such as `{SIGNATURE}` ({hint})", received)
    try:
        signature.bind("output", "item")
    except TypeError as error:
        received = f"{spec}{signature}"
        raise InvalidInput("scorer", f"a function such as `{SIGNATURE}` ({error})", received) from None
