"""Forecast the difference between two models, from a forecast of each.

With D = z_first - z_second and y = (1 + D)/2, the forecast of y is (1 + g_first - g_second)/2: what makes an item hard
for both cancels out. Each model has its own predictor, fitted on its own scores; where nothing known beforehand
helps either, both are constants and so is the difference.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cereval.forecasts.features import designs
from cereval.forecasts.pool import Pool
from cereval.forecasts.predictors import LEAST_EXPLAINED, Forecast, build_predictor

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LEAST_SPREAD, MOST_SPREAD = 0.01, 0.5
PRIOR_RESULTS = 5.0
"""Results that the stated spread counts for against the squared errors observed."""


class PairPredictor:
    """Forecast y, as a `Predictor`; `tell` gives it the two scores of an item before a fit may use them.

    Spread: if the two errors were independent, that of y would have the variance (s_first^2 + s_second^2)/4. They
    are not, so the level is taken from the squared errors that earlier forecasts of y went on to make.

    >>> pair = PairPredictor(Pool.build(2))
    >>> pair.tell(0, 1.0, 0.0)
    >>> pair.fit(np.array([0]), np.array([1.0]), np.array([1.0])).mean.tolist()
    [0.75, 0.75]
    """

    def __init__(self, pool: Pool) -> None:
        made = designs(pool)
        self._models = build_predictor(pool, made), build_predictor(pool, made)
        self._scores = np.full((2, pool.size), np.nan)
        self._relative_shares = pool.shares() * pool.size
        self._seen = 0
        self._mean = self._variance = np.zeros(0)
        self._observed = self._stated = 0.0
        self._constant_errors = 0.0
        self.notes: tuple[str, ...] = ()

    def tell(self, item: int, first: float, second: float) -> None:
        """Take the scores of an item; used once `fit` is given the item."""
        self._scores[:, item] = first, second

    def fit(self, items: Integers, scores: Floats, probabilities: Floats) -> Forecast:
        """See `Predictor`; `scores` are those of y."""
        if len(self._mean) and len(items) > self._seen:
            self._judge(items, scores, probabilities)
        first, second = (
            model.fit(items, known[items], probabilities)
            for model, known in zip(self._models, self._scores, strict=True)
        )
        self._seen = len(items)
        self._mean = np.clip((1.0 + first.mean - second.mean) / 2.0, 0.0, 1.0)
        self._variance = (first.spread**2 + second.spread**2) / 4.0
        spread = np.clip(np.sqrt(self._level() * self._variance), LEAST_SPREAD, MOST_SPREAD)
        self.notes = _notes(max(first.explained, second.explained))
        return Forecast(self._mean, spread, self._explained(), self.notes)

    def _judge(self, items: Integers, scores: Floats, probabilities: Floats) -> None:
        fresh = items[self._seen :]
        importance = self._relative_shares[fresh] / probabilities[self._seen :]
        before = scores[: self._seen].mean() if self._seen else 0.5
        self._observed += float(importance @ (scores[self._seen :] - self._mean[fresh]) ** 2)
        self._stated += float(importance @ self._variance[fresh])
        self._constant_errors += float(importance @ (scores[self._seen :] - before) ** 2)

    def _level(self) -> float:
        """Return observed over stated squared errors, shrunk to 1."""
        prior = PRIOR_RESULTS * float(self._variance.mean())
        return (self._observed + prior) / (self._stated + prior)

    def _explained(self) -> float:
        """Return the share of the variance of y that the forecasts explained one step ahead."""
        return 1.0 - self._observed / self._constant_errors if self._constant_errors > 0.0 else 0.0


def _notes(explained: float) -> tuple[str, ...]:
    if explained < LEAST_EXPLAINED:
        return ()
    return (f"forecasts explain up to {explained:.0%} of the variance of a model's scores one step ahead",)
