"""The games of `pairs` and `means` along an order in which some items are likelier to come soon (`race`).

Pairs are played by the bets of `race`. With r the variance of the next increment X = seen + d/(N q), in units of a
pair's mean square, r takes the place of left^2, and the sum of 1/r that of t/left: so horizons are those of `pairs`.
Means are played in the increments of `stats.increments` with one forecast g for all items, the mean so far:

    X = seen + g left + (z - g)/(N q),    from seen + g left - g max_U 1/(N q)  to  seen + g left + (1-g) max_U 1/(N q).

The order depends on the seed and on what was known before the first score, so that the corollary of `pairs` holds:
how far a game is looked at may depend on anything.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cereval.stats.means import CAP, SLACK, MeanGames
from cereval.stats.pairs import PRIOR_SQUARE, UNKNOWN, PairGames, PairTuning
from cereval.stats.race import Race

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST = 1e-12
"""The least factor that an account is multiplied with."""


class RacedPairGames(PairGames):
    """`PairGames` along a race.

    >>> race = Race.along(np.arange(100), np.ones(100), np.ones(100))
    >>> games = RacedPairGames(race, pairs=1, nulls=(0.0,), alpha=0.01, floor=0.05)
    >>> for _ in range(25):
    ...     games.play(np.array([0]), low=np.array([1.0]), high=np.array([1.0]))
    >>> above, below = games.evidence[0, :, 0] >= np.log(100)
    >>> bool(above), bool(below)
    (True, False)
    """

    def __init__(
        self,
        race: Race,
        *,
        pairs: int,
        nulls: tuple[float, ...],
        alpha: float,
        floor: float,
        tuning: PairTuning | None = None,
    ) -> None:
        super().__init__(len(race.order), pairs=pairs, nulls=nulls, alpha=alpha, floor=floor, tuning=tuning)
        self._race = race
        self._weighed = np.zeros(pairs)

    def play(self, which: Ints, low: Floats, high: Floats) -> None:
        """One more item for the pairs `which`: the bounds of their differences on it (equal if both are known)."""
        time, wealth, race = self.time[which], self._wealth[..., which], self._race
        seen = self.total[:, which] / self.n_items
        owed, gain = self.nulls - seen, np.stack((low, -high))
        stakes = np.minimum(self._raced(which, time, wealth[0]), race.largest(time, owed, self.tuning.cap))
        wealth += np.log(np.maximum(race.payoff(time, stakes, owed, gain), LEAST))
        self._wealth[..., which] = wealth
        factor, variance = race.factors[time], race.variance[time]
        middle = (low + high) / 2
        self._weighed[which] += ((seen[0] - seen[1]) / 2 + factor * middle) / variance
        self.squares[which] += (factor * middle) ** 2 / variance
        self.time[which] = time + 1
        self.total[:, which] += gain
        self._weigh(which, wealth)

    def _raced(self, which: Ints, time: Ints, wealth: Floats) -> Floats:
        """The bets of `PairGames` on X: leads are the increments' mean, weighted by their information."""
        information = self._race.information[time]
        square = (self.squares[which] + PRIOR_SQUARE) / (time + 1)
        error = np.sqrt(square / np.maximum(information, 1.0))
        mean = self._weighed[which] / np.maximum(information, LEAST)
        lead = np.stack((mean, -mean)) - self.nulls
        return self._aimed(time, wealth, lead, error, square, information, self._race.variance[time])

    @property
    def estimates(self) -> Floats:
        """The mean of the increments, weighted by their information; once all items are seen, the difference."""
        exact = (self.total[0] - self.total[1]) / 2 / self.n_items
        found = self._weighed / np.maximum(self._race.information[self.time], LEAST)
        return np.where(self.time == self.n_items, exact, found)

    @property
    def errors(self) -> Floats:
        """Standard errors of `estimates`; none once all items are seen, huge before the first."""
        count, information = np.maximum(self.time, 1), self._race.information[self.time]
        spread = np.maximum(self.squares / count - self.estimates**2, 0) * count + PRIOR_SQUARE
        error = np.sqrt(spread / (count + 1) / np.maximum(information, LEAST))
        return np.where(self.time == 0, UNKNOWN, np.where(self.time == self.n_items, 0.0, error))


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
