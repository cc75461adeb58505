"""Take the answers to all items, where they cost nothing: `all`."""

from __future__ import annotations

from typing import ClassVar

from cereval.methods.certified import CertifiedMethod
from cereval.methods.uniform import Uniform
from cereval.records import Draw


class Whole(Uniform):
    """Ask every item, and stop nowhere before.

    Theorem. For `benchmark` there is nothing to bet on: after the last answer the interval is the mean itself, wide
    only where calls failed, and it is right with certainty. For `population` the items are a sample, in random order;
    the bets are those of `uniform`, with all of the sample as their horizon, so that the interval holds the mean over
    the population with probability at least 1 - delta. Assumption there: the items were drawn independently of one
    another from it; where several belong together, draw clusters (`cluster`), and each counts once.
    """

    name: ClassVar[str] = "all"
    asks_all: ClassVar[bool] = True

    @property
    def bets(self) -> bool:
        return self.setting.target != "benchmark"

    def _play(self, draw: Draw, low: float, high: float) -> None:
        if self.bets:
            super()._play(draw, low, high)
            return
        prospect = self.tally.prospect()
        increment = self.tally.settle(draw.item, low, high, self._chance(draw))
        value = (increment.low + increment.high) / 2
        self.clock.add(value, prospect.variance, prospect.largest_square, prospect.level)


def bets_of(method: CertifiedMethod) -> bool:
    """Tell whether a method's interval rests on bets; else it is what the scores prove by themselves."""
    return not isinstance(method, Whole) or method.bets
