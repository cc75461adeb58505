"""Score with a user's own function, sync or async: `python:module:function`, or the function itself from Python.

    def score(output, item): ...

`output` is the model's answer, `item` the question (`.id`, `.text`, `.answers`, `.choices`, `.category`, `.metadata`).
It returns a number in [0, 1] or a bool, (score, reason), {"score": ..., "reason": ...} or a `Score`. It has 30 seconds
for each answer, in a thread beside the others; an answer that takes longer is a failure with that reason.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from cereval.datasets.base import Item
from cereval.errors import InvalidInput
from cereval.imports import code_digest, load_function, name_of
from cereval.scorers.base import NOT_IN_SPEC, Score, off_the_loop

TARGETS = frozenset(
    {"target", "reference", "expected", "gold", "answer", "answers", "label", "truth", "correct"}
)
"""Names under which a function expects the right answer itself, which it does not get."""

SIGNATURE = "score(output: str, item: Item) -> float"


@dataclass(frozen=True, slots=True)
class PythonScorer:
    """Call a function. `own`: the function itself, where it is not loaded by its name."""

    function: str
    own: Callable[..., Any] | None = field(default=None, repr=False, compare=False, metadata=NOT_IN_SPEC)
    name: ClassVar[str] = "python"

    def __post_init__(self) -> None:
        own = self.own or load_function("scorer", self.function)
        _check_signature(own, self.function)
        object.__setattr__(self, "own", own)

    @property
    def code(self) -> str:
        """Name the code of the function: edited code is another scorer."""
        assert self.own is not None
        return code_digest(self.own if name_of(self.own) == self.function else self.function)

    def check(self, questions: Sequence[Item]) -> None:
        """Try the function on the first item, before any call is paid for."""
        function, question = self.own, questions[0]
        assert function is not None
        if inspect.iscoroutinefunction(function):
            return
        try:
            value = function(question.answers[0] if question.answers else "", question)
            if inspect.iscoroutine(value):
                value.close()  # it waits for an answer
            elif not inspect.isawaitable(value):
                Score.of(value)
        except Exception as error:
            reason = f"on item {question.id} it raised {type(error).__name__}: {error}"
            raise InvalidInput(
                "scorer", f"a function that gives a number in [0, 1] ({reason})", self.function
            ) from None

    async def score(self, question: Item, answer: str) -> Score:
        function = self.own
        assert function is not None
        if inspect.iscoroutinefunction(function):
            value = await function(answer, question)
        else:
            value = await off_the_loop(function, answer, question)
        if inspect.isawaitable(value):
            # An object with an async `__call__` does not look like an async function.
            value = await value
        return Score.of(value)


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
