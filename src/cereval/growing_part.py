"""Ask/tell for one version of a data set that grows."""

from __future__ import annotations

from cereval.asktell import AskTell
from cereval.goals import Estimate
from cereval.growing_result import Version
from cereval.methods.grown import Grown
from cereval.methods.sampled import Sampled
from cereval.records import Draw, Interval, Stopped


class Part(AskTell):
    """One version's draws and results; `freeze` keeps its certificate when the next version begins."""

    def __init__(self, method: Grown | Sampled, new: int, goal: Estimate) -> None:
        self.new, self.goal = new, goal
        self._frozen: tuple[Interval, float] | None = None
        super().__init__(method, method.limit, None)

    def _goal_reached(self) -> bool:
        return self.goal.reached(self._method)

    def freeze(self) -> None:
        """Keeps what is certified now: a later version goes on with the same evidence."""
        self._frozen = self._method.interval, self._method.estimate

    @property
    def interval(self) -> Interval:
        return self._method.interval if self._frozen is None else self._frozen[0]

    @property
    def estimate(self) -> float:
        return self._method.estimate if self._frozen is None else self._frozen[1]

    @property
    def stopped(self) -> Stopped:
        return self._stopped

    @property
    def scores(self) -> list[float | None]:
        """The results consumed, in draw order."""
        return [self._told[index] for index in range(self._consumed)]

    @property
    def draws(self) -> list[Draw]:
        """The draws whose results were consumed."""
        return self._draws[: self._consumed]

    def as_version(self, number: int, items: int, evaluated: int) -> Version:
        interval, estimate = self.interval, self.estimate
        reach = max(estimate - interval.lower, interval.upper - estimate)
        if interval.half_width <= self.goal.eps:
            reach = min(reach, self.goal.eps)
        return Version(
            version=number,
            n_items=items,
            n_new=self.new,
            calls=self._consumed,
            n_evaluated=evaluated,
            estimate=estimate,
            lower=interval.lower,
            upper=interval.upper,
            half_width=reach,
            stopped=self._stopped,
            failures=self._failures,
        )
