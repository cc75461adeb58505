"""The shared order of the items, and the rounds in which models are asked along it.

Where models answer anew at every call the order has no end, and forecasts come from each model's own answers.

The items of the order are drawn independently, all alike likely. A forecast of a model's answer at a place knows that
model's answers at earlier places, a fixed number of them whenever the place is reached, and what was known before the
first; so the games stay functions of the order and of the pair's own scores (`stats.pairs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cereval.arrays import Bools, Floats, Ints
from cereval.forecasts.features import designs
from cereval.forecasts.memory import OwnAnswers
from cereval.forecasts.pool import Pool
from cereval.forecasts.predictors import build_predictor
from cereval.methods.drawing import draw_with_replacement
from cereval.methods.registry import MOST_FORECAST
from cereval.randomness import generator
from cereval.records import Draw

FIRST_CHECKPOINT = 8
ROUND_SHARE = 128
"""A round adds at most this part of what a model has answered: on average half of it is asked too much. At the stop,
GSM8K and AlpacaEval, three runs: 53.7 and 56.0% of the calls for a 32nd, 53.2 and 55.1 for a 64th, 52.8 and 54.7."""
CHUNK = 1024
"""Places of an order without end that are drawn at a time, or as many as there are already."""
FIRST_BLOCK, GROWTH = 16, 0.1
"""Places that share a forecast: the least number, and its share of the places before."""


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


class FreshRounds(Rounds):
    """Rounds along an order that has as many places as are asked for, of which an item may have several."""

    def __init__(
        self, pool: Pool, models: int, seed: int, log: Sequence[Draw], *, check: bool = False
    ) -> None:
        super().__init__(np.zeros(0, dtype=np.int64), models, np.zeros(0))
        self._pool, self._seed, self._log, self._check = pool, seed, log, check
        self._chunks = 0
        self._place: list[int] = []
        """Of every draw that was planned, by its number."""
        self._grow()

    def _grow(self) -> None:
        """Draw more of the order, which goes by the log as far as that goes."""
        at = len(self.order)
        rng, size = generator("ranking answers", self._seed, self._chunks), max(CHUNK, at)
        log, even = self._log[at : at + size], np.ones(self._pool.size)
        items, chances = draw_with_replacement(rng, even, size, log, check=self._check)
        self._chunks += 1
        self.order, self.chances = np.append(self.order, items), np.append(self.chances, chances)
        more = np.zeros((size, len(self.prefix)))
        self.low, self.high = np.concatenate((self.low, more)), np.concatenate((self.high, more))

    def planned(self, wanted: Bools, first: int, most: int | None = None) -> list[Draw]:
        while len(self.order) <= self._next(int(self.prefix.max())):
            self._grow()
        draws, reached = super().planned(wanted, first, most), self.prefix.tolist()
        del self._place[first:]
        for draw in draws:
            self._place.append(reached[draw.model])
            reached[draw.model] += 1
        return draws

    def _next(self, prefix: int) -> int:
        return prefix + max(2, prefix // ROUND_SHARE) if prefix else FIRST_CHECKPOINT

    def place_of(self, draw: Draw) -> int:
        return self._place[draw.index] if draw.index >= 0 else super().place_of(draw)


class Hints:
    """h of every model at every place that it has answered: its forecast of the item there, less the mean forecast.

    `at[0]`, places x models; at[1] the largest h that was possible, at[2] minus the least.
    """

    def __init__(self, pool: Pool, models: int) -> None:
        made = designs(pool, precedents=True)
        helps = 1 < pool.size <= MOST_FORECAST
        self._own = [OwnAnswers(pool, build_predictor(pool, made)) for _ in range(models if helps else 0)]
        self._now = [np.zeros(pool.size)] * models
        self._done, self._ends = np.zeros((2, models), dtype=np.int64)
        self.at = np.zeros((3, 0, models))

    def catch_up(self, rounds: Rounds) -> None:
        more = len(rounds.order) - self.at.shape[1]
        self.at = np.concatenate((self.at, np.zeros((3, more, len(rounds.prefix)))), axis=1)
        for model, _ in enumerate(self._own):
            while (done := int(self._done[model])) < rounds.prefix[model]:
                if done == self._ends[model]:
                    self._now[model] = self._forecast(model, done, rounds)
                    self._ends[model] += max(FIRST_BLOCK, int(GROWTH * done))
                end, hint = min(int(self._ends[model]), int(rounds.prefix[model])), self._now[model]
                self.at[0, done:end, model] = hint[rounds.order[done:end]]
                self.at[1:, done:end, model] = np.array([[hint.max()], [-hint.min()]])
                self._done[model] = end

    def _forecast(self, model: int, done: int, rounds: Rounds) -> Floats:
        low, high = rounds.low[:done, model], rounds.high[:done, model]
        known = low == high
        items = rounds.order[:done][known]
        mean = self._own[model].fit(items, low[known], np.ones(len(items))).mean
        return np.asarray(mean - mean.mean())

    def of_models(self, places: Ints, models: Ints) -> tuple[Floats, Floats]:
        hint, *reach = self.at[:, places, models]
        return hint, np.array(reach)

    def of_pairs(self, places: Ints, first: Ints, second: Ints) -> tuple[Floats, Floats]:
        one, other = self.at[:, places, first], self.at[:, places, second]
        return one[0] - other[0], np.stack((one[1] + other[2], one[2] + other[1]))
