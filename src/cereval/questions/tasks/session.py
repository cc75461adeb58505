"""Evaluate many tasks in one session, each with a certificate, and their macro mean with one more: `tasks`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from cereval.arrays import Ints
from cereval.errors import InvalidInput
from cereval.forecasts.pool import Pool
from cereval.forms import Count, Positive, Share
from cereval.methods.base import Aim, Setting, Target
from cereval.methods.tasks import AllTasks, Follower, FreshTasks, ManyTasks, TaskAims
from cereval.questions.session import MethodSession, locked
from cereval.questions.tasks.goal import AllAtLeast, EachWithin, Macro, TasksGoal, WhichFail
from cereval.records import Certified, Part, Rows, Table
from cereval.text import estimate_in_interval, interval, percent

MOST_TASKS = 1000
ANSWERS = {"all-pass": "certified pass", "some-fail": "certified fail", None: "undecided"}


@dataclass(frozen=True, slots=True)
class TaskEstimate:
    """Hold one task, or the macro mean over all: what is certified of it, from `n` of its `n_items` items.

    verdict: "pass" or "fail" where a threshold was asked for and the task is decided.
    """

    estimate: Share
    lower: Share
    upper: Share
    n: Count
    n_items: Positive
    failures: Count = 0
    verdict: Literal["pass", "fail"] | None = None

    @property
    def half_width(self) -> float:
        return (self.upper - self.lower) / 2


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TasksResult(Certified):
    """Hold all tasks and their macro mean: with the stated confidence everything in it holds at once, at all times."""

    tasks: Mapping[str, TaskEstimate]
    macro: TaskEstimate
    failing: Annotated[
        tuple[str, ...], Meta(description="Tasks that are certified to be below the threshold.")
    ]
    decision: Literal["all-pass", "some-fail"] | None = None

    def parts(self) -> list[Part]:
        every = {**self.tasks, "macro mean": self.macro}
        return [Part(name, one.estimate, one.lower, one.upper) for name, one in every.items()]

    def answer(self) -> str:
        count, value = len(self.tasks), self.goal.get("value")
        if value is None:
            tasks = "1 task" if count == 1 else f"{count} tasks"
            return f"macro mean of {tasks} {estimate_in_interval(self.macro)}"
        if self.goal["goal"] == "which-fail":
            so_far = "" if self.stopped == "goal" else ", so far"
            return f"below {percent(value)}{so_far}: {', '.join(self.failing) or 'none'}"
        named = f": {', '.join(self.failing)}" if self.failing else ""
        return f"all {count} tasks at least {percent(value)}: {ANSWERS[self.decision]}{named}"

    def rows(self) -> Rows:
        named = [("model", self.models[0])] if self.models else []
        macro = interval(self.macro.lower, self.macro.upper)
        return [*named, ("macro mean", macro), ("guarantee", f"{self.guarantee}, all rows at once")]

    def table(self) -> Table:
        verdict = "value" in self.goal
        of = " on " if self.target == "expected" else " of "
        rows = [
            [name, f"{one.n:,}{of}{one.n_items:,}", f"{one.estimate:.1%}", interval(one.lower, one.upper)]
            + ([one.verdict or "undecided"] if verdict else [])
            for name, one in self.tasks.items()
        ]
        header = ("task", "asked", "estimate", "interval", *(("verdict",) if verdict else ()))
        return Table(header, rows, numbers=(1, 2, 3))


class TaskSession(MethodSession):
    """Ask/tell evaluation of one model on many tasks: `groups` names the task of every item.

    Theorem: see `methods.tasks`. With probability at least the confidence, the intervals of all tasks and
    of their macro mean hold at all times at once, and so do the decisions (guarantee `anytime`).

    >>> session = TaskSession(["sums"] * 200 + ["words"] * 300, goal=Macro(0.15), seed=1)
    >>> while not session.done:
    ...     for draw in session.ask(8):
    ...         session.tell(draw, float(draw.item % 2))
    >>> result = session.result()
    >>> result.stopped, sorted(result.tasks), result.macro.lower <= 0.5 <= result.macro.upper
    ('goal', ['sums', 'words'], True)
    """

    goals = (Macro, EachWithin, AllAtLeast, WhichFail)
    method: ManyTasks

    def __init__(
        self,
        groups: ArrayLike,
        *,
        goal: TasksGoal | None = None,
        confidence: float = 0.95,
        history: ArrayLike | None = None,
        method: str = "auto",
        target: str = "benchmark",
        budget: int | None = None,
        seed: int | None = None,
        models: Sequence[str] = (),
    ) -> None:
        """Open a session; target: benchmark, or expected: the mean of fresh answers, for a model that never answers the
        same twice."""
        if method not in ("auto", AllTasks.name):
            raise InvalidInput("method", f"auto, or {AllTasks.name} to ask every item", method)
        again = target == "expected"
        if target not in ("benchmark", "expected") or (again and method == AllTasks.name):
            raise InvalidInput("target", f"benchmark, or without the method {AllTasks.name} expected", target)
        self.target = target
        self.names, codes = named_groups(groups)
        super().__init__(len(codes), goal, confidence=confidence, budget=budget, seed=seed, models=models)
        sizes = np.bincount(codes)
        pool = Pool.build(
            self.n_items,
            weights=1.0 / sizes[codes],
            groups=codes if len(sizes) > 1 else None,
            history=history,
        )
        aims, delta = self._goal.aims, 1 - self.confidence
        kind: Target = "expected" if again else "benchmark"
        setting = Setting(pool, kind, aims.parts[0] * delta, self.seed, self._aim(self.budget))
        found = AllTasks if method == AllTasks.name else FreshTasks if again else ManyTasks
        self._begin(found(setting, codes, aims, delta), None if again else self.n_items)

    def _aim(self, budget: int | None) -> Aim:
        return Aim(eps=macro_eps(self._goal.aims, len(self.names)), budget=budget)

    def settings(self) -> dict[str, Any]:
        """Return all that decides draws and bets at the start but the history, JSON-able; `tasks` by their
        numbers."""
        whole = {"method": AllTasks.name} if self.method.asks_all else {}
        fresh = {"target": self.target} if self.target == "expected" else {}
        return super().settings() | {"tasks": list(self.names)} | whole | fresh

    @locked
    def result(self) -> TasksResult:
        method, decision = self.method, self._goal.decision(self.method)
        verdicts = method.verdicts
        if not method.aims.every and decision != "all-pass":
            verdicts = tuple(None if verdict == "pass" else verdict for verdict in verdicts)
        limits = method.interval.lower, method.interval.upper
        counts = self.n_evaluated, self.n_items, self.failures
        return TasksResult(
            **self._frame(),
            tasks={
                name: self._task(follower, verdict)
                for name, follower, verdict in zip(self.names, method.followers, verdicts, strict=True)
            },
            macro=TaskEstimate(method.estimate, *limits, *counts),
            failing=tuple(
                name for name, verdict in zip(self.names, verdicts, strict=True) if verdict == "fail"
            ),
            decision=decision,
        )

    def _notes(self) -> tuple[str, ...]:
        if not self.method.contradiction:
            return self.method.notes
        warning = (
            "the evidence of a task or of the macro mean rejects every value: this has probability at most "
            f"{1 - self.confidence:.3g}; of these only what the seen scores prove by themselves is shown"
        )
        return (warning, *self.method.notes)

    def _task(self, follower: Follower, verdict: Any) -> TaskEstimate:
        interval, threshold = follower.interval, self.method.aims.threshold
        low, high = interval.lower, interval.upper
        if verdict is not None and threshold is not None:
            low, high = (max(low, threshold), high) if verdict == "pass" else (low, min(high, threshold))
        estimate = min(max(follower.estimate, low), high)
        return TaskEstimate(
            estimate, low, high, follower.consumed, len(follower.members), follower.failures, verdict
        )


def macro_eps(aims: TaskAims, count: int) -> float:
    """Return the half-width that the macro mean's bets aim at: the one asked for, or what comes of the tasks' own.

    The errors of tasks known within `each` average out: the mean of T of them is known about sqrt(T) times as well.
    """
    if aims.macro is not None:
        return aims.macro
    if aims.each is None:
        return 0.05
    quantiles = [float(ndtri(1 - part / 2)) for part in (0.05 * aims.parts[0], 0.05 * aims.parts[1] / count)]
    return aims.each * quantiles[0] / (quantiles[1] * sqrt(count))


def named_groups(groups: ArrayLike) -> tuple[tuple[str, ...], Ints]:
    """Return the tasks' names in alphabetical order, and the number of each item's task.

    >>> named_groups(["b", "a", "b"])
    (('a', 'b'), array([1, 0, 1]))
    """
    labels: NDArray[Any] = np.asarray(groups)
    if labels.ndim != 1 or not len(labels):
        raise InvalidInput("groups", "one label for each item", f"shape {labels.shape}")
    names, codes = np.unique(labels.astype(str), return_inverse=True)
    if len(names) > MOST_TASKS:
        raise InvalidInput("groups", f"at most {MOST_TASKS} tasks", f"{len(names)} tasks")
    return tuple(map(str, names)), np.asarray(codes, dtype=np.int64)
