"""`LastVersion`: the last version of a growing session, as a runner drives it."""

from __future__ import annotations

from cereval.goals import Estimate
from cereval.growing import Growing
from cereval.growing_result import GrowingResult
from cereval.methods.base import Method
from cereval.records import Draw, Interval


class LastVersion:
    """Draws and results are numbered from the version's beginning; what is certified is that of all versions.

    >>> whole = Growing(10, goal=Estimate(0.4))
    >>> for draw in whole.ask(10):
    ...     whole.tell(draw, 1.0)
    >>> whole.extend(5)
    >>> version = LastVersion(whole)
    >>> version.n_items, version.n_evaluated, version.done
    (15, 0, False)
    """

    budget: int | None = None

    def __init__(self, whole: Growing) -> None:
        self.whole = whole

    @property
    def n_items(self) -> int:
        return self.whole.n_items

    @property
    def n_evaluated(self) -> int:
        """Results of this version consumed so far."""
        return self.whole.last.n_evaluated

    @property
    def goal(self) -> Estimate:
        return self.whole.goal

    @property
    def confidence(self) -> float:
        return self.whole.confidence

    @property
    def method(self) -> Method:
        return self.whole.last.method

    @property
    def done(self) -> bool:
        return self.whole.done

    @property
    def interval(self) -> Interval:
        return self.whole.interval

    @property
    def estimate(self) -> float:
        return self.whole.estimate

    def ask(self, k: int = 1) -> list[Draw]:
        return self.whole.ask(k)

    def tell(self, draw: Draw, score: float) -> None:
        self.whole.tell(draw, score)

    def fail(self, draw: Draw) -> None:
        self.whole.fail(draw)

    def result(self) -> GrowingResult:
        return self.whole.result()
