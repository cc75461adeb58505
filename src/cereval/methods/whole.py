"""Take the answers to all items, where they cost nothing: `all`."""

from __future__ import annotations

from typing import ClassVar

from cereval.methods.base import Setting
from cereval.methods.certified import Tuning
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

    def __init__(self, setting: Setting, tuning: Tuning | None = None) -> None:
        super().__init__(setting, tuning)
        self.bets = setting.target != "benchmark"

    def _play(self, draw: Draw, low: float, high: float) -> None:
        (super()._play if self.bets else self._book)(draw, low, high)
