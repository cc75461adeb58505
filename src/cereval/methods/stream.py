"""Take fresh draws of one population, whatever pool the items come from; a growing pool changes nothing: `Stream`."""

from __future__ import annotations

from typing import ClassVar

from cereval.forecasts.pool import Pool
from cereval.methods.base import Aim, Setting
from cereval.methods.certified import CertifiedMethod, Tuning
from cereval.records import Draw


class Stream(CertifiedMethod):
    """Estimate the population's mean from scores told one by one; who draws the items is another's business.

    Assumption: each score told is that of an independent draw of the population, given those before.
    """

    name: ClassVar[str] = "growing"
    default_tuning: ClassVar[Tuning] = Tuning(own_level=False)

    def __init__(self, eps: float, delta: float, seed: int) -> None:
        super().__init__(Setting(Pool.build(1), "population", delta, seed, Aim(eps=eps)))

    def next_draw(self) -> Draw | None:
        return None

    def take(self, low: float, high: float) -> None:
        """Take the score of the next item, in [low, high]."""
        self.observe(Draw(self.consumed, 0, 1.0), low, high)
