"""State the goals of a session with many tasks: the macro mean, every task, or a threshold for all of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

from cereval.methods.tasks import ManyTasks, TaskAims
from cereval.questions.goals import in_open_unit_interval
from cereval.stats.rounding import within
from cereval.text import percent


class TasksGoal(Protocol):
    """Say what is asked of many tasks. Frozen, validated, rebuilt from its spec; `aims` also says how delta is shared
    out.
    """

    @property
    def aims(self) -> TaskAims:
        """Return what the draws and bets work towards."""

    def reached(self, method: ManyTasks) -> bool:
        """Tell whether the results consumed so far certify the goal."""

    def decision(self, method: ManyTasks) -> str | None:
        """Return "all-pass", "some-fail", or None: not decided, or nothing to decide."""

    @property
    def words(self) -> str:
        """Return what is asked, in a few words."""

    def spec(self) -> dict[str, Any]:
        """Return name and parameters as JSON."""


@dataclass(frozen=True, slots=True)
class Macro:
    """Estimate the mean over tasks within `eps`; and, if `each` is given, every task's mean within `each`.

    >>> Macro(0.01).aims.parts[:2]
    (0.8, 0.2)
    """

    name: ClassVar[str] = "macro"
    eps: float = 0.02
    each: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", in_open_unit_interval("eps", self.eps))
        if self.each is not None:
            object.__setattr__(self, "each", in_open_unit_interval("each", self.each))

    @property
    def aims(self) -> TaskAims:
        parts = (0.8, 0.2, 0.0, 0.0) if self.each is None else (0.5, 0.5, 0.0, 0.0)
        return TaskAims(macro=self.eps, each=self.each, parts=parts)

    def reached(self, method: ManyTasks) -> bool:
        return within(method.radius, self.eps) and (self.each is None or all_within(method, self.each))

    def decision(self, method: ManyTasks) -> str | None:  # noqa: ARG002
        return None

    @property
    def words(self) -> str:
        return f"macro mean within {percent(self.eps)}" + (
            "" if self.each is None else f", every task within {percent(self.each)}"
        )

    def spec(self) -> dict[str, Any]:
        return {"goal": self.name, **asdict(self)}


@dataclass(frozen=True, slots=True)
class EachWithin:
    """Estimate every task's mean within `eps`, all at once.

    >>> EachWithin(0.05).spec()
    {'goal': 'each', 'eps': 0.05}
    """

    name: ClassVar[str] = "each"
    eps: float = 0.05

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", in_open_unit_interval("eps", self.eps))

    @property
    def aims(self) -> TaskAims:
        return TaskAims(each=self.eps, parts=(0.1, 0.9, 0.0, 0.0))

    def reached(self, method: ManyTasks) -> bool:
        return all_within(method, self.eps)

    def decision(self, method: ManyTasks) -> str | None:  # noqa: ARG002
        return None

    @property
    def words(self) -> str:
        return f"every task within {percent(self.eps)}"

    def spec(self) -> dict[str, Any]:
        return {"goal": self.name, **asdict(self)}


@dataclass(frozen=True, slots=True)
class AllAtLeast:
    """Decide whether every task's mean is at least `value`; stop when that is certified, or when one task certainly
    fails.

    >>> AllAtLeast(0.7).aims.every
    False
    """

    name: ClassVar[str] = "all-at-least"
    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", in_open_unit_interval("threshold", self.value))

    @property
    def aims(self) -> TaskAims:
        # Wrong "all pass" and wrong naming are different events where some tasks pass and some fail: they share.
        return TaskAims(threshold=self.value, parts=(0.05, 0.05, 0.7, 0.2))

    def reached(self, method: ManyTasks) -> bool:
        return self.decision(method) is not None

    def decision(self, method: ManyTasks) -> str | None:
        return decided(method)

    @property
    def words(self) -> str:
        return f"every task at least {percent(self.value)}?"

    def spec(self) -> dict[str, Any]:
        return {"goal": self.name, **asdict(self)}


@dataclass(frozen=True, slots=True)
class WhichFail:
    """Find which tasks' means are below `value`; stop when every task is decided.

    >>> WhichFail(0.7).aims.every
    True
    """

    name: ClassVar[str] = "which-fail"
    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", in_open_unit_interval("threshold", self.value))

    @property
    def aims(self) -> TaskAims:
        return TaskAims(threshold=self.value, every=True, parts=(0.05, 0.05, 0.0, 0.9))

    def reached(self, method: ManyTasks) -> bool:
        return None not in method.verdicts

    def decision(self, method: ManyTasks) -> str | None:
        return decided(method)

    @property
    def words(self) -> str:
        return f"which tasks are below {percent(self.value)}?"

    def spec(self) -> dict[str, Any]:
        return {"goal": self.name, **asdict(self)}


def all_within(method: ManyTasks, eps: float) -> bool:
    """Tell whether every task's interval reaches no further than eps."""
    return within(method.widest, eps)


def decided(method: ManyTasks) -> str | None:
    """Decide over all tasks: one that fails settles the question; to pass takes all of them."""
    verdicts = method.verdicts
    if "fail" in verdicts:
        return "some-fail"
    return None if None in verdicts else "all-pass"
