"""The shared order of the items, and the rounds in which models are asked along it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from cereval.questions.rank.order import Bools
from cereval.records import Draw

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST_CHECKPOINT = 8
ROUND_SHARE = 128
"""A round adds at most this part of what a model has answered: on average half of it is asked too much. At the stop,
GSM8K and AlpacaEval, three runs: 53.7 and 56.0% of the calls for a 32nd, 53.2 and 55.1 for a 64th, 52.8 and 54.7."""
CHUNK = 1024
"""Places of an order without end that are drawn at a time, or as many as there are already."""


class Rounds:
    """Keep the shared order. order: the items as all models answer them. prefix: how many of them each model has
    answered.

    low, high: where each score lies, places in the order x models.

    >>> rounds = Rounds(np.arange(30), models=2)
    >>> wanted = np.array([[False, True], [True, False]])
    >>> draws = rounds.planned(wanted, first=0)
    >>> len(draws), [draw.model for draw in draws[:4]], rounds.place_of(draws[2])
    (16, [0, 1, 0, 1], 1)
    """

    def __init__(
        self, order: Ints, models: int, chances: Floats | None = None, *, whole: bool = False
    ) -> None:
        items = len(order)
        self.order = order
        self.chances = 1 / np.arange(items, 0, -1) if chances is None else chances
        self.prefix = np.zeros(models, dtype=np.int64)
        self.low, self.high = np.zeros((items, models)), np.zeros((items, models))
        self._places = np.argsort(self.order)
        self._checkpoints = np.array([items]) if whole else checkpoints(items)

    def planned(self, wanted: Bools, first: int, most: int | None = None) -> list[Draw]:
        """Return the draws of a round, item by item along the order, numbered from `first` on; at most so many.

        wanted: pairs of models that are to be told apart. Of each the one that is behind is asked.
        """
        behind = self.prefix[:, None] <= self.prefix[None, :]
        asked = np.flatnonzero((wanted & behind).any(axis=1) & (self.prefix < len(self.order)))
        reached = [(model, int(self.prefix[model])) for model in asked.tolist()]
        calls = sorted((place, model) for model, at in reached for place in range(at, self._next(at)))
        return [
            Draw(first + number, int(self.order[place]), float(self.chances[place]), (model,))
            for number, (place, model) in enumerate(calls[:most])
        ]

    def _next(self, prefix: int) -> int:
        return int(self._checkpoints[np.searchsorted(self._checkpoints, prefix, side="right")])

    def coming(self, reached: Mapping[int, int], count: int) -> list[Draw]:
        """Return draws at the places to come, of models that have got so far; they have no number yet."""
        draws: list[Draw] = []
        for place in range(min(reached.values(), default=len(self.order)), len(self.order)):
            item, chance = int(self.order[place]), float(self.chances[place])
            draws += [
                Draw(-1 - place, item, chance, (model,)) for model, at in reached.items() if place >= at
            ]
            if len(draws) >= count:
                break
        return draws[:count]

    def place_of(self, draw: Draw) -> int:
        return int(self._places[draw.item]) if draw.index >= 0 else -1 - draw.index

    def put(self, draw: Draw, low: float, high: float) -> None:
        place = self.place_of(draw)
        self.low[place, draw.model], self.high[place, draw.model] = low, high
        self.prefix[draw.model] = place + 1


def checkpoints(n_items: int) -> Ints:
    """Return the lengths of the shared order at which rounds end: fixed in advance, closer together at the start.

    >>> checkpoints(30).tolist()
    [8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30]
    """
    found = [min(FIRST_CHECKPOINT, n_items)]
    while found[-1] < n_items:
        found.append(min(found[-1] + max(2, found[-1] // ROUND_SHARE), n_items))
    return np.array(found, dtype=np.int64)
