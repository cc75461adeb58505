"""Drive a session by your own score function, sync or async: `evaluate_scores`."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from cereval.errors import CallError, InvalidInput, shown
from cereval.questions.goals import Goal, of_one_model
from cereval.questions.mean.session import Session
from cereval.questions.replay import SessionSettings, check_same_order
from cereval.questions.session import unit_score, whole
from cereval.records import Draw, Result

Item = TypeVar("Item")
Score = Callable[[Item], float] | Callable[[Item], Awaitable[float]]

ASYNC_CONNECTIONS = 8
HOPELESS = 5
"""So many failures, and not one score, say that the function is broken rather than the calls unlucky."""


class EvaluationInterrupted(KeyboardInterrupt):
    """Carry what was certified until Ctrl-C ended `evaluate_scores`: `.result`, valid as any interval."""

    def __init__(self, result: Result) -> None:
        self.result = result
        super().__init__(
            f"interrupted after {result.n_evaluated} of {result.n_items} items: certified so far "
            f"[{result.lower:.4f}, {result.upper:.4f}] (the exception's `.result`)"
        )


class Asked(SessionSettings, total=False):
    goal: Goal | None


def evaluate_scores(
    items: Iterable[Item], score: Score[Item], *, max_connections: int | None = None, **plan: Unpack[Asked]
) -> Result:
    """Ask `score` for the items that matter most and stop when the goal is certified.

    score: item -> number in [0, 1]. An `async def` has `max_connections` calls in flight (default 8). A plain
    function is called one item at a time, in this thread; with `max_connections` > 1 in that many threads.

    plan: goal=Estimate(0.02), confidence=0.95, method="auto", target="benchmark", seed=None (drawn), and
    optionally texts, embeddings, history, weights, groups, budget, options: as for `Session`.

    The result does not depend on `max_connections`, and at most that many calls are made beyond those needed.
    An item whose call raises counts as unknown, which widens the interval; the first error is kept in the
    notes. When nothing but errors comes back, `CallError` is raised. Ctrl-C raises `EvaluationInterrupted`,
    which holds the result so far. Works inside a running event loop too (a notebook); there `await
    evaluate_scores_async(...)` shares the loop.

    >>> from cereval.questions.mean.goal import Estimate
    >>> result = evaluate_scores(range(1000), lambda question: question % 4 > 0, goal=Estimate(0.1), seed=1)
    >>> result.stopped, result.lower <= 0.75 <= result.upper
    ('goal', True)
    """
    work = _Evaluation(items, score, max_connections, plan)
    try:
        if work.plain:
            work.run_plainly()
        else:
            _run_to_the_end(work)
    except KeyboardInterrupt:
        work.stopping = True
        raise EvaluationInterrupted(work.result()) from None
    return work.outcome()


async def evaluate_scores_async(
    items: Iterable[Item], score: Score[Item], *, max_connections: int | None = None, **plan: Unpack[Asked]
) -> Result:
    """Evaluate as `evaluate_scores` does, for code that runs in an event loop: same arguments, same result.

    A plain function is called in threads, so that the loop stays free.
    """
    work = _Evaluation(items, score, max_connections, plan)
    await work.run_concurrently()
    return work.outcome()


class _Evaluation:
    def __init__(
        self, items: Iterable[Any], score: Callable[[Any], Any], max_connections: int | None, plan: Asked
    ) -> None:
        self.items = _checked_items(items)
        self.score = _checked_score(score)
        self.is_async = _is_async(score)
        self.connections = _checked_connections(max_connections, self.is_async)
        of_one_model(plan.get("goal"))
        for name in ("texts", "embeddings", "history", "weights", "groups"):
            check_same_order(name, plan.get(name), items)
        self.session = Session(len(self.items), **plan)
        self.stopping = False
        self._asked = 0
        self._errors: dict[int, tuple[Draw, Exception]] = {}
        self._refused: dict[int, InvalidInput] = {}

    @property
    def plain(self) -> bool:
        return not self.is_async and self.connections == 1

    @property
    def running(self) -> bool:
        return not (self.session.done or self.stopping)

    def ask(self) -> list[Draw]:
        room = self.connections - (self._asked - self.session.n_evaluated)
        draws = self.session.ask(room) if room > 0 else []
        self._asked += len(draws)
        return draws

    def tell(self, draw: Draw, value: object) -> None:
        if not self.running:
            return
        try:
            score = unit_score(value)
        except InvalidInput:
            # Held back until the session wants it, so that it is met whatever the order of completion.
            what = f"a number in [0, 1] (item {draw.item}: {shown(self.items[draw.item], 40)})"
            self._refused[draw.index] = InvalidInput("score", what, value)
        else:
            self.session.tell(draw, score)
        self._check()

    def fail(self, draw: Draw, error: Exception) -> None:
        if not self.running:
            return
        self._errors[draw.index] = draw, error
        self.session.fail(draw)
        self._check()

    def _check(self) -> None:
        if self.session.n_evaluated in self._refused and not self.session.done:
            raise self._refused[self.session.n_evaluated]
        ended = self.session.n_evaluated if self.session.done else HOPELESS
        if self._errors and all(index in self._errors for index in range(min(ended, HOPELESS))):
            raise CallError(f"the score function failed on every item so far; {self._first_error()}")

    # -- the two ways to work ------------------------------------------------------------------------------

    def run_plainly(self) -> None:
        while self.running:
            for draw in self.ask():
                try:
                    value = self.score(self.items[draw.item])
                except Exception as error:
                    self.fail(draw, error)
                else:
                    self.tell(draw, _not_awaitable(value, self.score))

    async def run_concurrently(self) -> None:
        executor = None if self.is_async else ThreadPoolExecutor(self.connections, "cereval")
        calls: dict[asyncio.Future[Any], Draw] = {}
        try:
            while self.running:
                calls |= {asyncio.ensure_future(self._call(draw, executor)): draw for draw in self.ask()}
                finished, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
                for call in finished:
                    self._settle(calls.pop(call), call)
        finally:
            await _cancelled(calls)
            if executor is not None:
                executor.shutdown(wait=False, cancel_futures=True)

    async def _call(self, draw: Draw, executor: Executor | None) -> Any:
        item = self.items[draw.item]
        if executor is None:
            return await self.score(item)
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(executor, context.run, self._scored, item)

    def _scored(self, item: Any) -> object:
        """Score an item in a thread; what is to be awaited is closed there, where it cannot be lost on the way."""
        return _not_awaitable(self.score(item), self.score)

    def _settle(self, draw: Draw, call: asyncio.Future[Any]) -> None:
        error = call.exception()
        if error is None:
            self.tell(draw, call.result())
        elif isinstance(error, _NotDeclaredAsync) or not isinstance(error, Exception):
            raise error
        else:
            self.fail(draw, error)

    # -- what came of it -----------------------------------------------------------------------------------

    def outcome(self) -> Result:
        if not self.session.done:
            raise EvaluationInterrupted(self.result())
        return self.result()

    def result(self) -> Result:
        result = self.session.result()
        if not result.failures:
            return result
        note = (
            f"{result.failures} of {result.n_evaluated} calls failed and count as unknown, "
            f"which widens the interval; {self._first_error()}"
        )
        return replace(result, notes=(*result.notes, note))

    def _first_error(self) -> str:
        draw, error = self._errors[min(self._errors)]
        message = " ".join(str(error).split())[:200]
        return f"the first error, at item {draw.item}: {type(error).__name__}: {message}"


class _NotDeclaredAsync(InvalidInput):
    pass


def _run_to_the_end(work: _Evaluation) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work.run_concurrently())
        return
    with ThreadPoolExecutor(1, "cereval-loop") as thread:
        try:
            thread.submit(asyncio.run, work.run_concurrently()).result()
        except KeyboardInterrupt:
            work.stopping = True
            raise


async def _cancelled(calls: Iterable[asyncio.Future[Any]]) -> None:
    """Stop calls that are no longer needed, and let them close what they hold open."""
    pending = list(calls)
    for call in pending:
        call.cancel()
    await asyncio.gather(*pending, return_exceptions=True)


def _not_awaitable(value: object, score: object) -> object:
    if not inspect.isawaitable(value):
        return value
    if isinstance(value, Coroutine):
        value.close()
    raise _NotDeclaredAsync("score", "declared with `async def` when it returns something to await", score)


def _is_async(score: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(score) or inspect.iscoroutinefunction(getattr(score, "__call__", None))  # noqa: B004


def _checked_items(items: Iterable[Any]) -> Sequence[Any]:
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise InvalidInput("items", "a list of items", items)
    if hasattr(items, "columns"):
        # Iterating over a data frame gives its columns' names.
        raise InvalidInput("items", "a list of items, say frame.to_dict('records')", type(items).__name__)
    found = items if isinstance(items, Sequence) else list(items)
    if not len(found):
        raise InvalidInput("items", "at least one item", found)
    return found


def _checked_score(score: Callable[[Any], Any]) -> Callable[[Any], Any]:
    if not callable(score):
        raise InvalidInput("score", "a function of one item, sync or async", score)
    return score


def _checked_connections(value: int | None, is_async: bool) -> int:
    if value is None:
        return ASYNC_CONNECTIONS if is_async else 1
    return whole("max_connections", value, 1)
