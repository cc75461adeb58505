"""Evaluate many tasks in one session, each with a certificate, and their macro mean with one more: `tasks`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from cereval.errors import InvalidInput
from cereval.forecasts.pool import Pool
from cereval.methods.base import Aim, Setting
from cereval.methods.tasks import Follower, ManyTasks, TaskAims
from cereval.pictures import Part
from cereval.questions.goals import checked_confidence
from cereval.questions.replay import check_same_order, checked_scores, drive, kept_rows
from cereval.questions.session import MethodSession, whole
from cereval.questions.tasks.goal import Macro, TasksGoal
from cereval.records import Certified, Rows, Table
from cereval.text import interval, percent, plus_minus
from cereval.version import ENGINE

MOST_TASKS = 1000
ANSWERS = {"all-pass": "certified pass", "some-fail": "certified fail", None: "undecided"}


@dataclass(frozen=True, slots=True)
class TaskEstimate:
    """Hold one task, or the macro mean over all: what is certified of it, from `n` of its `n_items` items.

    verdict: "pass" or "fail" where a threshold was asked for and the task is decided.
    """

    estimate: float
    lower: float
    upper: float
    n: int
    n_items: int
    failures: int = 0
    verdict: str | None = None

    @property
    def half_width(self) -> float:
        return (self.upper - self.lower) / 2


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TasksResult(Certified):
    """Hold all tasks and their macro mean: with the stated confidence everything in it holds at once, at all times."""

    tasks: Mapping[str, TaskEstimate]
    macro: TaskEstimate

    @property
    def failing(self) -> tuple[str, ...]:
        """Return the tasks that are certified to be below the threshold."""
        return tuple(name for name, task in self.tasks.items() if task.verdict == "fail")

    def as_dict(self) -> dict[str, Any]:
        return {**super(TasksResult, self).as_dict(), "failing": list(self.failing)}

    def parts(self) -> list[Part]:
        every = {**self.tasks, "macro mean": self.macro}
        return [Part(name, one.estimate, one.lower, one.upper) for name, one in every.items()]

    def answer(self) -> str:
        """Return the macro mean, or the verdict on a threshold for every task."""
        count, value = len(self.tasks), self.goal.get("value")
        if value is None:
            return f"macro mean of {'1 task' if count == 1 else f'{count} tasks'} {plus_minus(self.macro)}"
        if self.goal["goal"] == "which-fail":
            so_far = "" if self.stopped == "goal" else ", so far"
            return f"below {percent(value)}{so_far}: {', '.join(self.failing) or 'none'}"
        named = f": {', '.join(self.failing)}" if self.failing else ""
        return f"all {count} tasks at least {percent(value)}: {ANSWERS[self.decision]}{named}"

    def rows(self) -> Rows:
        """Return the macro mean, and what it rests on."""
        named = [("model", self.models[0])] if self.models else []
        macro = interval(self.macro.lower, self.macro.upper)
        return [*named, ("macro mean", macro), ("guarantee", f"{self.guarantee}, all rows at once")]

    def table(self) -> Table:
        """Return a row for every task."""
        verdict = "value" in self.goal
        rows = [
            [name, f"{one.n:,} of {one.n_items:,}", f"{one.estimate:.1%}", interval(one.lower, one.upper)]
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

    def __init__(
        self,
        groups: ArrayLike,
        *,
        goal: TasksGoal | None = None,
        confidence: float = 0.95,
        history: ArrayLike | None = None,
        budget: int | None = None,
        seed: int | None = None,
        models: tuple[str, ...] = (),
    ) -> None:
        self.models = tuple(models)
        self.goal = _checked_goal(Macro() if goal is None else goal)
        self.names, codes = named_groups(groups)
        self.confidence = checked_confidence(confidence)
        self._take_seed(seed)
        self.n_items = len(codes)
        self.budget = None if budget is None else whole("budget", budget, 1)
        sizes = np.bincount(codes)
        pool = Pool.build(
            self.n_items,
            weights=1.0 / sizes[codes],
            groups=codes if len(sizes) > 1 else None,
            history=history,
        )
        self.budgets: tuple[tuple[int, int | None], ...] = ((0, self.budget),)
        """The budgets so far, each with the number of draws that were decided before it."""
        aims, delta = self.goal.aims, 1 - self.confidence
        aim = Aim(eps=macro_eps(aims, len(sizes)), budget=self.budget)
        setting = Setting(pool, "benchmark", aims.parts[0] * delta, self.seed, aim)
        self.engine = ManyTasks(setting, codes, aims, delta)
        super().__init__(self.engine, self.n_items, self.budget)

    def _goal_reached(self) -> bool:
        return bool(self.goal.reached(self.engine))

    def _rebudget(self) -> None:
        """Have bets work towards the new budget; those on draws already decided stay as they were."""
        self.budgets = (*self.budgets, (len(self._draws), self.soonest))
        self.engine.aim_at(replace(self.engine.aim, budget=self.soonest), drawn=len(self._draws))

    def settings(self) -> dict[str, Any]:
        """Return all that decides draws and bets at the start but the history, JSON-able; `tasks` by their
        numbers."""
        return {
            "goal": self.goal.spec(),
            "confidence": self.confidence,
            "budget": self.budgets[0][1],
            "seed": self.seed,
            "n_items": self.n_items,
            "tasks": list(self.names),
            "engine": ENGINE,
        }

    def result(self) -> TasksResult:
        """Return the state of all certificates now, whether or not the session has ended."""
        engine, decision = self.engine, self.goal.decision(self.engine)
        verdicts = engine.verdicts
        if not engine.aims.every and decision != "all-pass":
            verdicts = tuple(None if verdict == "pass" else verdict for verdict in verdicts)
        interval = engine.interval
        tasks = {
            name: self._task(follower, verdict)
            for name, follower, verdict in zip(self.names, engine.followers, verdicts, strict=True)
        }
        return TasksResult(
            tasks=tasks,
            macro=TaskEstimate(
                engine.estimate, interval.lower, interval.upper, self._consumed, self.n_items, self._failures
            ),
            decision=decision,
            confidence=self.confidence,
            n_evaluated=self._consumed,
            n_items=self.n_items,
            saved=1 - self._consumed / self.n_items,
            stopped=self._stopped,
            method=engine.name,
            guarantee=engine.guarantee,
            target="benchmark",
            seed=self.seed,
            failures=self._failures,
            notes=self._notes(),
            goal=self.goal.spec(),
            models=self.models,
        )

    def _notes(self) -> tuple[str, ...]:
        if not self.engine.contradiction:
            return self.engine.notes
        warning = (
            "the evidence of a task or of the macro mean rejects every value: this has probability at most "
            f"{1 - self.confidence:.3g}; of these only what the seen scores prove by themselves is shown"
        )
        return (warning, *self.engine.notes)

    def _task(self, follower: Follower, verdict: str | None) -> TaskEstimate:
        interval, threshold = follower.interval, self.engine.aims.threshold
        low, high = interval.lower, interval.upper
        if verdict is not None and threshold is not None:
            low, high = (max(low, threshold), high) if verdict == "pass" else (low, min(high, threshold))
        estimate = min(max(follower.estimate, low), high)
        return TaskEstimate(
            estimate, low, high, follower.consumed, len(follower.members), follower.failures, verdict
        )


def replay_tasks(
    scores: ArrayLike,
    groups: ArrayLike,
    *,
    goal: TasksGoal | None = None,
    confidence: float = 0.95,
    history: ArrayLike | None = None,
    budget: int | None = None,
    seed: int | None = None,
    batch: int = 1,
) -> TasksResult:
    """Replay recorded scores as many tasks; NaN = missing, not part of the pool.

    >>> from cereval.questions.tasks.goal import AllAtLeast
    >>> result = replay_tasks([1.0] * 400 + [1.0, 0.0] * 200, ["a"] * 400 + ["b"] * 400, goal=AllAtLeast(0.8))
    >>> result.decision, result.failing
    ('some-fail', ('b',))
    """
    values = checked_scores(scores)
    labels: NDArray[Any] = np.asarray(groups)
    if labels.ndim != 1 or len(labels) != len(values):
        raise InvalidInput(
            "groups", f"one label for each of the {len(values)} scores", f"shape {labels.shape}"
        )
    check_same_order("groups", groups, scores)
    kept = np.flatnonzero(~np.isnan(values))
    if not len(kept):
        raise InvalidInput("scores", "at least one score that is not NaN", f"{len(values)} values")
    session = TaskSession(
        labels[kept],
        goal=goal,
        confidence=confidence,
        history=kept_rows("history", history, len(values), kept, scores),
        budget=budget,
        seed=seed,
    )
    result: TasksResult = drive(session, values[kept], batch)
    return result


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


def named_groups(groups: ArrayLike) -> tuple[tuple[str, ...], NDArray[np.int64]]:
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


def _checked_goal(goal: object) -> TasksGoal:
    if not hasattr(goal, "aims"):
        raise InvalidInput("goal", "one of Macro, EachWithin, AllAtLeast, WhichFail", goal)
    return cast(TasksGoal, goal)
