"""`AskTell`: a session that asks and tells on behalf of one method, and reads its interval at any time."""

from __future__ import annotations

from abc import abstractmethod

from cereval.compact import Draws
from cereval.ledger import Ledger
from cereval.ledger import whole as whole
from cereval.methods.base import Method
from cereval.records import Draw, Interval, Stopped


class AskTell(Ledger[Draw]):
    """Obligation of subclasses: `_goal_reached`, from the results that the method has consumed."""

    _draws: Draws

    def __init__(self, method: Method, limit: int | None, budget: int | None) -> None:
        """limit: how many items there are to ask, None where an item may come again."""
        super().__init__(Draws(), budget)
        self._method = method
        self._limit = limit
        self._check_stop()

    @abstractmethod
    def _goal_reached(self) -> bool:
        """Whether the results consumed so far certify the goal."""

    def _next_draw(self) -> Draw | None:
        return self._method.next_draw()

    def _observe(self, index: int) -> None:
        self._method.observe(self._draws[index], *self._bounds(index))

    def _state(self) -> Stopped:
        if self._method.contradiction:
            return "contradiction"
        if self._goal_reached():
            return "goal"
        if self._limit is not None and self._consumed >= self._limit:
            return "exhausted"
        if self.budget is not None and self._consumed >= self.budget:
            return "budget"
        return "running"

    @property
    def interval(self) -> Interval:
        """Certified now; every interval ever shown is covered by the same confidence (for `anytime` methods)."""
        return self._method.interval

    @property
    def estimate(self) -> float:
        return self._method.estimate

    @property
    def method(self) -> Method:
        return self._method


def rejection(confidence: float) -> str:
    """What is said where the evidence has rejected every value."""
    return (
        "the evidence rejects every value: this has probability at most "
        f"{1 - confidence:.3g}; shown is only what the seen scores prove by themselves"
    )
