"""Run the paper's Base, a fixed number of items planned in advance and one interval at the end: `static`."""

from __future__ import annotations

from cereval.errors import InvalidInput
from cereval.methods.base import Setting
from cereval.paper.printed import PrintedMethod
from cereval.records import Draw, Interval
from cereval.stats.concentration import hoeffding


class Static(PrintedMethod):
    """Evaluates `planned` items (None: all of them) and then states mean ± fixed-n Hoeffding.

    Theorem (Hoeffding 1963): at the planned n, the interval holds the target with probability >= 1 - delta.
    Assumes scores in [0, 1] and uniform draws. Before the planned n the radius is 1: looking earlier, and
    stopping because of it, is not covered. `two_sided=False` is the paper's eps*, sqrt(ln(1/delta)/(2n)):
    as a two-sided interval that is proven only at confidence 1 - 2 delta. Results after the planned n change
    nothing until the pool is complete.
    """

    name = "static"
    guarantee = "fixed-n"

    def __init__(self, setting: Setting, *, two_sided: bool = True, planned: int | None = None) -> None:
        super().__init__(setting)
        size = setting.pool.size
        if planned is not None and not 1 <= planned <= size:
            raise InvalidInput("planned", f"in 1..{size}", planned)
        self.planned = size if planned is None else planned
        self.two_sided = two_sided
        self._order = self._uniform_items()
        self._planned_mean = Interval(0.5, 0.5)

    def next_draw(self) -> Draw | None:
        pick = next(self._order, None)
        return None if pick is None else self._next(*pick)

    def observe(self, draw: Draw, low: float, high: float) -> None:
        super().observe(draw, low, high)
        if self._consumed == self.planned:
            self._planned_mean = self._plain_mean()

    @property
    def notes(self) -> tuple[str, ...]:
        if self.two_sided:
            return ()
        return ("one-sided eps* used on both sides: proven only at confidence 1 - 2 delta",)

    def _means(self) -> Interval:
        return self._planned_mean

    def _printed_radius(self) -> float:
        if self._consumed < self.planned:
            return 1.0
        return float(hoeffding(self.planned, self.setting.delta, two_sided=self.two_sided))
