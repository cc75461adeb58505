"""State the goals of a session with many tasks: the macro mean, every task, or a threshold for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from cereval.forms import OpenShare
from cereval.methods.tasks import ManyTasks, TaskAims
from cereval.questions.goals import Goal
from cereval.stats.rounding import within
from cereval.text import percent


class TasksGoal(Goal, frozen=True):
    """Say what is asked of many tasks; `decision`: "all-pass", "some-fail", or None: not decided, or nothing to."""

    @property
    def aims(self) -> TaskAims:
        """Return what the draws and bets work towards, and how delta is shared out."""
        raise NotImplementedError


class Macro(TasksGoal, frozen=True, tag="macro"):
    """Estimate the mean over tasks within `eps`; and, if `each` is given, every task's mean within `each`.

    >>> Macro(0.01).aims.parts[:2]
    (0.8, 0.2)
    """

    decides: ClassVar[bool] = False
    eps: OpenShare = 0.02
    each: OpenShare | None = None

    @property
    def aims(self) -> TaskAims:
        parts = (0.8, 0.2, 0.0, 0.0) if self.each is None else (0.5, 0.5, 0.0, 0.0)
        return TaskAims(macro=self.eps, each=self.each, parts=parts)

    def reached(self, method: ManyTasks) -> bool:
        return within(method.radius, self.eps) and (self.each is None or within(method.widest, self.each))

    @property
    def words(self) -> str:
        each = "" if self.each is None else f", every task within {percent(self.each)}"
        return f"macro mean within {percent(self.eps)}{each}"


class EachWithin(TasksGoal, frozen=True, tag="each"):
    """Estimate every task's mean within `eps`, all at once.

    >>> EachWithin(0.05).spec()
    {'goal': 'each', 'eps': 0.05}
    """

    decides: ClassVar[bool] = False
    eps: OpenShare = 0.05

    @property
    def aims(self) -> TaskAims:
        return TaskAims(each=self.eps, parts=(0.1, 0.9, 0.0, 0.0))

    def reached(self, method: ManyTasks) -> bool:
        return within(method.widest, self.eps)

    @property
    def words(self) -> str:
        return f"every task within {percent(self.eps)}"


class TasksThreshold(TasksGoal, frozen=True):
    """Hold every task against one value."""

    called: ClassVar[Mapping[str, str]] = {"value": "threshold"}
    value: OpenShare

    def decision(self, method: ManyTasks) -> str | None:
        """Decide over all tasks: one that fails settles the question; to pass takes all of them."""
        if "fail" in method.verdicts:
            return "some-fail"
        return None if None in method.verdicts else "all-pass"


class AllAtLeast(TasksThreshold, frozen=True, tag="all-at-least"):
    """Decide whether every task's mean is at least `value`; stop when that is certified, or when one task certainly
    fails.

    >>> AllAtLeast(0.7).aims.every
    False
    """

    @property
    def aims(self) -> TaskAims:
        # Wrong "all pass" and wrong naming are different events where some tasks pass and some fail: they share.
        return TaskAims(threshold=self.value, parts=(0.05, 0.05, 0.7, 0.2))

    @property
    def words(self) -> str:
        return f"every task at least {percent(self.value)}"


class WhichFail(TasksThreshold, frozen=True, tag="which-fail"):
    """Find which tasks' means are below `value`; stop when every task is decided.

    >>> WhichFail(0.7).aims.every
    True
    """

    @property
    def aims(self) -> TaskAims:
        return TaskAims(threshold=self.value, every=True, parts=(0.05, 0.05, 0.0, 0.9))

    def reached(self, method: ManyTasks) -> bool:
        return None not in method.verdicts

    @property
    def words(self) -> str:
        return f"which tasks are below {percent(self.value)}"
