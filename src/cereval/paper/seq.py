"""Run the paper's vanilla online evaluation (Algorithm 4): `seq`."""

from __future__ import annotations

from cereval.methods.base import Setting
from cereval.paper.printed import PrintedMethod
from cereval.records import Draw
from cereval.stats.concentration import adaptive_hoeffding


class Seq(PrintedMethod):
    """Uniform draws, mean ± sqrt((2 ln(log2 n + 1) + ln(4/delta))/n), valid at every n at once.

    Theorem 4.2 and lemma B.3 (see `stats.concentration.adaptive_hoeffding`). Assumes scores in [0, 1]. The
    radius ignores the data: a given eps always takes the same number of items, 3,799 at eps = delta = .05.
    """

    name = "seq"
    guarantee = "anytime"
    targets = ("benchmark", "population", "expected")

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._order = self._uniform_items()

    def next_draw(self) -> Draw | None:
        pick = next(self._order, None)
        return None if pick is None else self._next(*pick)

    def _printed_radius(self) -> float:
        return float(adaptive_hoeffding(self._consumed, self.setting.delta)) if self._consumed else 1.0
