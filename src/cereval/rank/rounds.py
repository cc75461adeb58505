"""The calls of a ranking, round by round: who is asked which items next, and what has come back.

All models answer the items in one shared random order, each a prefix of it. A round takes each model that still
matters from one checkpoint of that order to the next; checkpoints are fixed in advance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

FIRST_CHECKPOINT = 8
ROUND_SHARE = 32
"""A round adds at most this part of what a model has answered: on average half of it is asked too much."""


@dataclass(frozen=True, slots=True)
class RankDraw:
    """One question: the `index`-th draw puts item number `item` to model number `model`."""

    index: int
    model: int
    item: int


class Rounds:
    """order: the items as all models answer them. prefix: how many of them each model has answered.

    low, high: where each score lies, places in the order x models.

    >>> rounds = Rounds(items=30, models=2, seed=0)
    >>> wanted = np.array([[False, True], [True, False]])
    >>> draws = rounds.planned(wanted, first=0)
    >>> len(draws), [draw.model for draw in draws[:4]], rounds.place_of(draws[2])
    (16, [0, 1, 0, 1], 1)
    """

    def __init__(self, items: int, models: int, seed: int) -> None:
        self.order = np.random.default_rng(seed).permutation(items)
        self.prefix = np.zeros(models, dtype=np.int64)
        self.low, self.high = np.zeros((items, models)), np.zeros((items, models))
        self._places = np.argsort(self.order)
        self._checkpoints = checkpoints(items)

    def planned(self, wanted: Bools, first: int, most: int | None = None) -> list[RankDraw]:
        """The draws of a round, item by item along the order, numbered from `first` on; at most so many.

        wanted: pairs of models that are to be told apart. Of each the one that is behind is asked.
        """
        behind = self.prefix[:, None] <= self.prefix[None, :]
        asked = np.flatnonzero((wanted & behind).any(axis=1) & (self.prefix < len(self.order)))
        calls = sorted(
            (place, int(model)) for model in asked for place in range(self.prefix[model], self._next(model))
        )
        return [
            RankDraw(first + number, model, int(self.order[place]))
            for number, (place, model) in enumerate(calls[:most])
        ]

    def _next(self, model: np.int64) -> int:
        return int(self._checkpoints[np.searchsorted(self._checkpoints, self.prefix[model], side="right")])

    def place_of(self, draw: RankDraw) -> int:
        """Where a draw's item stands in the order."""
        return int(self._places[draw.item])

    def put(self, draw: RankDraw, low: float, high: float) -> None:
        """The result of a draw; those of one model come in the order of their places."""
        place = self.place_of(draw)
        self.low[place, draw.model], self.high[place, draw.model] = low, high
        self.prefix[draw.model] = place + 1


def checkpoints(n_items: int) -> Ints:
    """Lengths of the shared order at which rounds end: fixed in advance, closer together at the start.

    >>> checkpoints(30).tolist()
    [8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30]
    """
    found = [min(FIRST_CHECKPOINT, n_items)]
    while found[-1] < n_items:
        found.append(min(found[-1] + max(2, found[-1] // ROUND_SHARE), n_items))
    return np.array(found, dtype=np.int64)
