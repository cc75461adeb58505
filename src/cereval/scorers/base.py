"""State the contract of a scorer.

Obligations of every scorer:
- a frozen dataclass of its settings with a class-level `name`; `spec_of` turns it into name + arguments and
  `build_scorer` back into an equal scorer;
- one method, `score`, which gives a `Score` in [0, 1] or raises; it keeps no state between calls;
- called through `score_answer`: a crash, a value that is no score or no answer in `LONGEST_S` seconds becomes a
  `ScoringFailure`; code whose time is not bounded runs off the event loop (`off_the_loop`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from math import nan
from typing import Any, ClassVar, Protocol

from cereval.datasets.base import Item
from cereval.errors import InvalidInput, shown
from cereval.models.base import EndpointError

LONGEST_S = 30.0
"""Seconds for one score, but for those of judges, whose calls have a limit of their own."""
LONGEST_DETAIL = 20_000
"""Characters of what is kept beside a score: a judge's reasons, whole as a rule."""
NOT_IN_SPEC = {"spec": False}
"""Marks a field of a scorer that is not written down: what it holds is found anew."""


@dataclass(frozen=True, slots=True)
class Score:
    """Hold a number in [0, 1]; `detail` is what was read or why, `cost_usd` what scoring cost (None: unknown).

    >>> Score(1.0, detail="42").value
    1.0
    """

    value: float
    detail: str = ""
    cost_usd: float | None = 0.0

    def __post_init__(self) -> None:
        # float() takes the numbers of every library, but also texts, which are no scores.
        value = nan if isinstance(self.value, str | bytes) or self.value is None else float(self.value)
        if not 0 <= value <= 1:
            raise InvalidInput("score", "a finite number in [0, 1]", self.value)
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "detail", str(self.detail)[:LONGEST_DETAIL])

    @classmethod
    def of(cls, value: Any) -> Score:
        """Read what a function returns: a number, (score, reason) or {"score": ..., "reason": ...}.

        >>> Score.of((0.5, "half of it")) == Score.of({"score": 0.5, "reason": "half of it"})
        True
        """
        if isinstance(value, Score):
            return value
        if isinstance(value, Mapping) and "score" in value and set(value) <= {"score", "reason"}:
            value = (value["score"], value.get("reason"))
        if isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[1], str | None):
            return cls(value[0], value[1] or "")
        if isinstance(value, Mapping | tuple | list):
            raise InvalidInput("score", "a number, (score, reason) or {'score': ..., 'reason': ...}", value)
        return cls(value)


@dataclass(frozen=True, slots=True)
class ScoringFailure:
    """Report an answer that arrived but could not be scored."""

    reason: str


class Scorer(Protocol):
    """Score an answer, with settings and one method; see the obligations above."""

    name: ClassVar[str]

    async def score(self, question: Item, answer: str) -> Score: ...


async def score_answer(scorer: Scorer, question: Item, answer: str) -> Score | ScoringFailure:
    """Score one answer; whatever goes wrong is a record.

    A judge whose every call would fail is the exception: going on would turn the whole pool into failures. Its calls
    have a limit of their own, and may be repeated for minutes.
    """
    limit = None if getattr(scorer, "calls_models", False) else LONGEST_S
    try:
        async with asyncio.timeout(limit) as clock:
            return await scorer.score(question, answer)
    except EndpointError:
        raise
    except Exception as error:
        if clock.expired():
            return ScoringFailure(f"{scorer.name}: no score in {limit:g} s")
        return ScoringFailure(f"{scorer.name}: {type(error).__name__}: {shown(str(error), limit=200)}")


def spec_of(scorer: Any) -> dict[str, Any]:
    """Write a scorer as name + arguments, JSON-able; a judge is written as its model's name."""
    if hasattr(scorer, "spec"):
        found: dict[str, Any] = scorer.spec()
        return found
    settings = [field.name for field in fields(scorer) if field.metadata != NOT_IN_SPEC]
    return {"name": scorer.name, **{name: _plain(getattr(scorer, name)) for name in settings}}


def need_answers(question: Item) -> tuple[str, ...]:
    """Give the accepted answers; a scorer that compares cannot do without."""
    if not question.answers:
        raise InvalidInput("answer", "present in the data for this scorer", f"none for item {question.id}")
    return question.answers


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | float | int | bool | dict | None) else value.name


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
