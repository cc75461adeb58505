"""Confidence sequences for the means of many models at once, on a coarse grid.

The games of `betting` for every model, side and grid value in one array. The items come in a shared random order
without replacement; given t of N items with sum S, the next score has mean mu = (N m - S)/(N - t) if the target is m.
The bets are the predictable plug-in ones of Waudby-Smith and Ramdas (2024): good at every time, best at none, which
suits intervals that nobody waits for. As in `betting`, the lower limit is the last value of the contiguous rejected
prefix of the grid, so that each model's interval misses with probability <= 2 alpha over all times.
"""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import NDArray

from cereval.stats.race import Race
from cereval.stats.rounding import sum_slack

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


CELLS = 200
CAP = 0.8
ROUNDING = 1e-9
SLACK = 1e-12
"""The least by which a stake's room and a factor stay away from 0."""


class MeanGames:
    """Lower and upper limits of each model's mean over N items.

    >>> games = MeanGames(1000, models=2, alpha=0.01)
    >>> for _ in range(300):
    ...     games.play(np.array([0, 1]), low=np.array([1.0, 0.0]), high=np.array([1.0, 0.0]))
    >>> lower, upper = games.limits()
    >>> bool(lower[0] > 0.9), bool(upper[1] < 0.1)
    (True, True)
    """

    def __init__(self, n_items: int, *, models: int, alpha: float) -> None:
        self.n_items = n_items
        self.grid = np.linspace(0.0, 1.0, CELLS + 1)
        self.time = np.zeros(models, dtype=np.int64)
        self.total = np.zeros((2, models))
        self.squares = np.zeros(models)
        self._alpha = alpha
        self._wealth = np.zeros((2, models, CELLS + 1))
        self._best = np.zeros((2, models, CELLS + 1))

    def play(self, which: Ints, low: Floats, high: Floats) -> None:
        """One more item for the models `which`: the bounds of its score."""
        time = self.time[which]
        rest = (self.n_items * self.grid - self.total[:, which, None]) / (self.n_items - time)[:, None]
        room = np.stack((rest[0], 1 - rest[1]))
        stakes = np.minimum(self._stakes(which, time)[:, None], CAP / np.maximum(room, SLACK))
        gain = np.stack((low[:, None] - rest[0], rest[1] - high[:, None]))
        self._wealth[:, which] += np.log1p(np.maximum(stakes * gain, -1 + SLACK))
        self._best[:, which] = np.maximum(self._best[:, which], self._wealth[:, which])
        middle = (low + high) / 2
        self.time[which] = time + 1
        self.total[:, which] += np.stack((low, high))
        self.squares[which] += middle**2

    def _stakes(self, which: Ints, time: Ints) -> Floats:
        return self._plugged(time, self.total[:, which].sum(axis=0) / 2, self.squares[which])

    def _plugged(self, time: Ints, total: Floats, squares: Floats) -> Floats:
        mean = (total + 0.5) / (time + 1)
        variance = np.maximum((squares + 0.5) / (time + 1) - mean**2, 1e-4)
        found: Floats = np.sqrt(2 * log(1 / self._alpha) / (variance * (time + 1) * np.log(time + 2)))
        return found

    def limits(self) -> tuple[Floats, Floats]:
        """Both limits of every model, within what its seen scores allow by themselves."""
        rejected = self._best >= log(1 / self._alpha) + ROUNDING
        below = np.logical_and.accumulate(rejected[0], axis=1).sum(axis=1)
        above = np.logical_and.accumulate(rejected[1, :, ::-1], axis=1).sum(axis=1)
        steps = np.append(0.0, self.grid)
        slack = sum_slack(self.n_items)
        lowest = (self.total[0] / self.n_items) * (1 - slack)
        highest = (self.total[1] + self.n_items - self.time) / self.n_items * (1 + slack)
        lower = np.maximum(steps[below], lowest)
        upper = np.minimum(1.0 - steps[above], np.minimum(highest, 1.0))
        crossed = lower > upper
        return np.where(crossed, lowest, lower), np.where(crossed, np.minimum(highest, 1.0), upper)

    @property
    def estimates(self) -> Floats:
        """The mean of the scores seen, 1/2 where there is none."""
        seen = self.total.sum(axis=0) / 2
        return np.where(self.time > 0, seen / np.maximum(self.time, 1), 0.5)


LEAST = 1e-12
"""The least factor that an account is multiplied with."""


class RacedMeanGames(MeanGames):
    """`MeanGames` along a race.

    >>> games = RacedMeanGames(Race.along(np.arange(1000), np.ones(1000), np.ones(1000)), models=2, alpha=0.01)
    >>> for _ in range(300):
    ...     games.play(np.array([0, 1]), low=np.array([1.0, 0.0]), high=np.array([1.0, 0.0]))
    >>> lower, upper = games.limits()
    >>> bool(lower[0] > 0.9), bool(upper[1] < 0.1)
    (True, True)
    """

    def __init__(self, race: Race, *, models: int, alpha: float) -> None:
        super().__init__(len(race.order), models=models, alpha=alpha)
        self._race = race
        self._sums = np.zeros((2, models))
        """Of the scores in units of equal chances, and of the increments by their information."""

    def play(self, which: Ints, low: Floats, high: Floats) -> None:
        """One more item for the models `which`: the bounds of its score."""
        time, race, items = self.time[which], self._race, self.n_items
        left, factor, reach = 1 - time / items, race.factors[time], race.reach[time]
        forecast = (self._sums[0, which] + 0.5) / (time + 1)
        np.clip(forecast, 0.0, 1.0, out=forecast)
        known = self.total[:, which] / items + forecast * left
        room = np.stack((forecast * reach - known[0], (1 - forecast) * reach + known[1]))[..., None]
        turned = np.stack((self.grid, -self.grid))[:, None]
        stakes = np.minimum(
            (self._stakes(which, time) / left)[:, None], CAP / np.maximum(room + turned, SLACK)
        )
        increments = known + np.stack((low - forecast, high - forecast)) * factor
        gain = np.stack((increments[0], -increments[1]))[..., None] - turned
        self._wealth[:, which] += np.log1p(np.maximum(stakes * gain, -1 + SLACK))
        self._best[:, which] = np.maximum(self._best[:, which], self._wealth[:, which])
        self._book(which, low, high, forecast, increments.mean(axis=0))

    def _book(self, which: Ints, low: Floats, high: Floats, forecast: Floats, increment: Floats) -> None:
        time = self.time[which]
        likely = self._race.factors[time] / (1 - time / self.n_items)
        score = forecast + ((low + high) / 2 - forecast) * likely
        self._sums[0, which] += score
        self._sums[1, which] += increment / self._race.variance[time]
        self.squares[which] += score**2
        self.time[which] = time + 1
        self.total[:, which] += np.stack((low, high))

    def _stakes(self, which: Ints, time: Ints) -> Floats:
        return self._plugged(time, self._sums[0, which], self.squares[which])

    @property
    def estimates(self) -> Floats:
        """The increments' mean, weighted by their information, 1/2 where there is none."""
        found = self._sums[1] / np.maximum(self._race.information[self.time], LEAST)
        return np.where(self.time > 0, np.clip(found, 0.0, 1.0), 0.5)
