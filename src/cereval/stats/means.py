"""Confidence sequences for the means of many models at once, on a coarse grid.

The games of `interval` for every model, side and grid value in one array. The items come in a shared random order
without replacement; given t of N items with sum S, the next score has mean mu = (N m - S)/(N - t) if the target is m.
The bets are the predictable plug-in ones of Waudby-Smith and Ramdas (2024): good at every time, best at none, which
suits intervals that nobody waits for. As in `interval`, the lower limit is the last value of the contiguous rejected
prefix of the grid, so that each model's interval misses with probability <= 2 alpha over all times.

Along a `race`, in which some items are likelier to come soon, the games are played in the increments of `increments`
with one forecast g for all items, the mean so far:

    X = seen + g left + (z - g)/(N q),    from seen + g left - g max_U 1/(N q)  to  seen + g left + (1-g) max_U 1/(N q).

Where every answer is fresh, N is infinite and the score is z - c h, as a pair's difference is (`stats.pairs`).
"""

from __future__ import annotations

from math import inf, log

import numpy as np

from cereval.arrays import Floats, Ints
from cereval.stats.pairs import Coefficients
from cereval.stats.race import Race
from cereval.stats.rounding import sum_slack

CELLS = 200
CAP = 0.8  # The largest share of an account that one bet may lose
ROUNDING = 1e-9  # A rejection needs this much more log-wealth than the theorem asks
SLACK = 1e-12  # The least by which a stake's room and a factor stay away from 0


class MeanGames:
    """Lower and upper limits of each model's mean over N items.

    >>> games = MeanGames(1000, models=2, alpha=0.01)
    >>> for _ in range(300):
    ...     games.play(np.array([0, 1]), low=np.array([1.0, 0.0]), high=np.array([1.0, 0.0]))
    >>> lower, upper = games.limits()
    >>> bool(lower[0] > 0.9), bool(upper[1] < 0.1)
    (True, True)
    """

    def __init__(self, n_items: float, *, models: int, alpha: float) -> None:
        self.n_items = n_items
        self.grid = np.linspace(0.0, 1.0, CELLS + 1)
        self.time = np.zeros(models, dtype=np.int64)
        self.total = np.zeros((2, models))
        self.squares = np.zeros(models)
        self._alpha = alpha
        self._wealth = np.zeros((2, models, CELLS + 1))
        self._best = np.zeros((2, models, CELLS + 1))

    def play(self, which: Ints, low: Floats, high: Floats, beyond: Floats | float = 0.0) -> None:
        """Play one more item for the models `which`; beyond: how far below 0, and above 1, scores may be."""
        time, total = self.time[which], self.total[:, which]
        left = (1 - time / self.n_items)[:, None]
        rest = (self.grid - total[..., None] / self.n_items) / left
        room = np.stack((rest[0], 1 - rest[1])) + np.asarray(beyond)[..., None]
        stakes = self._stakes(time, total.sum(axis=0) / 2, self.squares[which])[:, None]
        stakes = np.minimum(stakes, CAP / np.maximum(room, SLACK))
        self._settle(which, stakes * np.stack((low[:, None] - rest[0], rest[1] - high[:, None])), low, high)
        self.squares[which] += ((low + high) / 2) ** 2

    def _stakes(self, time: Ints, total: Floats, squares: Floats) -> Floats:
        mean = (total + 0.5) / (time + 1)
        variance = np.maximum((squares + 0.5) / (time + 1) - mean**2, 1e-4)
        return np.asarray(np.sqrt(2 * log(1 / self._alpha) / (variance * (time + 1) * np.log(time + 2))))

    def _settle(self, which: Ints, won: Floats, low: Floats, high: Floats) -> None:
        self._wealth[:, which] += np.log1p(np.maximum(won, -1 + SLACK))
        self._best[:, which] = np.maximum(self._best[:, which], self._wealth[:, which])
        self.time[which] += 1
        self.total[:, which] += np.stack((low, high))

    def limits(self) -> tuple[Floats, Floats]:
        """Both limits of every model, within what its seen scores allow by themselves."""
        rejected = self._best >= log(1 / self._alpha) + ROUNDING
        below = np.logical_and.accumulate(rejected[0], axis=1).sum(axis=1)
        above = np.logical_and.accumulate(rejected[1, :, ::-1], axis=1).sum(axis=1)
        steps = np.append(0.0, self.grid)
        slack = 0.0 if self.n_items == inf else sum_slack(self.n_items)
        lowest = (self.total[0] / self.n_items) * (1 - slack)
        highest = (self.total[1] / self.n_items + (1 - self.time / self.n_items)) * (1 + slack)
        highest = np.minimum(highest, 1.0)
        lower, upper = np.maximum(steps[below], lowest), np.minimum(1.0 - steps[above], highest)
        crossed = lower > upper
        return np.where(crossed, lowest, lower), np.where(crossed, highest, upper)

    @property
    def estimates(self) -> Floats:
        seen = self.total.sum(axis=0) / 2
        return np.where(self.time > 0, seen / np.maximum(self.time, 1), 0.5)


class FreshMeanGames(MeanGames):
    """`MeanGames` on fresh answers."""

    def __init__(self, *, models: int, alpha: float) -> None:
        super().__init__(inf, models=models, alpha=alpha)
        self._shares = Coefficients(models)

    def play_hinted(self, which: Ints, low: Floats, high: Floats, hint: Floats, reach: Floats) -> None:
        """Play one more place; hint: h of the models there. reach: the largest h, and minus the least."""
        share, surprise = self._shares.of(which), (low + high) / 2 - self.estimates[which]
        self.play(which, low - share * hint, high - share * hint, share * reach)
        self._shares.learn(which, surprise, hint)


class RacedMeanGames(MeanGames):
    """`MeanGames` along a race."""

    def __init__(self, race: Race, *, models: int, alpha: float) -> None:
        super().__init__(len(race.order), models=models, alpha=alpha)
        self._race = race
        self._scores = np.zeros(models)
        """Sums of the scores, in units of equal chances."""
        self._increments = np.zeros(models)
        """Sums of the increments, weighted by their information."""

    def play(self, which: Ints, low: Floats, high: Floats, beyond: Floats | float = 0.0) -> None:  # noqa: ARG002
        time, race, items = self.time[which], self._race, self.n_items
        left, factor, reach = 1 - time / items, race.factors[time], race.reach[time]
        forecast = np.clip((self._scores[which] + 0.5) / (time + 1), 0.0, 1.0)
        known = self.total[:, which] / items + forecast * left
        room = np.stack((forecast * reach - known[0], (1 - forecast) * reach + known[1]))[..., None]
        values = np.stack((self.grid, -self.grid))[:, None]
        stakes = (self._stakes(time, self._scores[which], self.squares[which]) / left)[:, None]
        stakes = np.minimum(stakes, CAP / np.maximum(room + values, SLACK))
        increments = known + np.stack((low - forecast, high - forecast)) * factor
        gain = np.stack((increments[0], -increments[1]))[..., None] - values
        self._settle(which, stakes * gain, low, high)
        score = forecast + ((low + high) / 2 - forecast) * (factor / left)
        self._scores[which] += score
        self._increments[which] += increments.mean(axis=0) / race.variance[time]
        self.squares[which] += score**2

    @property
    def estimates(self) -> Floats:
        found = self._increments / np.maximum(self._race.information[self.time], SLACK)
        return np.where(self.time > 0, np.clip(found, 0.0, 1.0), 0.5)
