"""Evaluate one version of a growing data set whose items are all a sample of the same population: `Sampled`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cereval.errors import LogMismatch
from cereval.methods.base import Method
from cereval.methods.drawing import draw_order
from cereval.methods.stream import Stream
from cereval.randomness import generator
from cereval.records import Draw, Guarantee, Interval

Items = NDArray[np.int64]


class Sampled(Method):
    """All versions feed one confidence sequence for the population's mean, so a new version may cost nothing.

    Theorem: that of `stats.betting` for one target; one event of probability at most delta covers every version.
    Assumption: the items of all versions are independent draws of one population, new ones included. Where
    new items may differ from the old, use the target `benchmark`, which assumes nothing.
    """

    name: ClassVar[str] = "growing"
    guarantee: ClassVar[Guarantee] = "anytime"

    def __init__(self, stream: Stream, items: Items, number: int, seed: int) -> None:
        self.stream = stream
        self._items, self._seed = items, (seed, number)
        self._order = items[draw_order(generator("growing data", seed, number), len(items), ())]
        self._drawn = self._consumed = 0

    def follow(self, log: Sequence[Draw], *, check: bool = False) -> None:
        super().follow(log, check=check)
        places = {int(item): place for place, item in enumerate(self._items)}
        for draw in log:
            if draw.item not in places:
                raise LogMismatch(f"draw {draw.index} has item {draw.item}, which this version does not ask")
        found = [replace(draw, item=places[draw.item]) for draw in log]
        rng = generator("growing data", *self._seed)
        self._order = self._items[draw_order(rng, len(self._items), found, check=check)]

    def next_draw(self) -> Draw | None:
        if self._drawn == len(self._order):
            return None
        index, self._drawn = self._drawn, self._drawn + 1
        return Draw(index, int(self._order[index]), 1 / (len(self._order) - index))

    def observe(self, draw: Draw, low: float, high: float) -> None:  # noqa: ARG002
        self.stream.take(low, high)
        self._consumed += 1

    @property
    def limit(self) -> int:
        """Return how many items there are to ask."""
        return len(self._order)

    @property
    def unseen(self) -> Items:
        """Return the items not asked so far."""
        return np.sort(self._order[self._consumed :])

    @property
    def interval(self) -> Interval:
        return self.stream.interval

    @property
    def estimate(self) -> float:
        return self.stream.estimate

    @property
    def contradiction(self) -> bool:
        return self.stream.contradiction
