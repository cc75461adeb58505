"""Forecast with the paper's adaptive partition: what makes Cer-Eval's idea rigorous.

Inside a certified method the partition only guesses scores and says where surprises are likely; increments
correct every guess, so the flaws that void the paper's interval (training items that label themselves, groups
that move) can cost items but not validity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cereval.errors import InvalidInput
from cereval.forecasts.partition import Grouping, NearestNeighbourPartition, groups_for
from cereval.forecasts.pool import Pool
from cereval.forecasts.predictors import Forecast
from cereval.randomness import generator

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SHRINKAGE = 2.0
"""Pseudo-results with which a group's mean is drawn towards the mean of all."""

MIN_VARIANCE = 0.004
"""A group of equal scores is still expected to surprise now and then."""


class PartitionPredictor:
    """Forecast an item by its group: mean and spread of the evaluated items there that trained no label.

    k is the one that would have forecast those held-out items best, each without itself. Fitted in draw
    order on growing prefixes, as `Predictor` asks; who trains is drawn from `seed`.

    >>> pool = Pool.build(40, embeddings=np.repeat([[0.0], [9.0]], 20, axis=0))
    >>> items, scores = np.arange(0, 40, 2), np.repeat([0.0, 1.0], 10)
    >>> forecast = PartitionPredictor(pool, seed=0).fit(items, scores, np.ones(20))
    >>> bool(forecast.mean[1] < 0.2 < 0.8 < forecast.mean[39])
    True
    """

    def __init__(self, pool: Pool, *, seed: int, training_fraction: float = 0.5) -> None:
        if pool.embeddings is None:
            raise InvalidInput("embeddings", "given for forecasts by the 1-NN partition", None)
        rng = generator("training items", seed)
        self._partition = NearestNeighbourPartition(pool.embeddings, training_fraction, rng)
        self._taken = 0

    def fit(self, items: Integers, scores: Floats, probabilities: Floats) -> Forecast:  # noqa: ARG002
        """See `Predictor`; the groups' sums need no draw probabilities."""
        for item, score in zip(items[self._taken :], scores[self._taken :], strict=True):
            # Drawn with replacement an item comes again; its place in the partition is taken already.
            if not self._partition.seen[item]:
                self._partition.add(int(item), 1.0 - float(score))
        self._taken = len(items)
        prior = 1.0 - float(scores.sum() + 0.5) / (len(scores) + 1.0)
        grouping = self._most_predictive(prior)
        spread = np.sqrt(np.maximum(grouping.item_variances(prior * (1 - prior), SHRINKAGE), MIN_VARIANCE))
        notes = (f"1-NN partition into {grouping.k} groups",) if grouping.k > 1 else ()
        return Forecast(1.0 - grouping.item_means(prior, SHRINKAGE), spread, notes=notes)

    def _most_predictive(self, prior: float) -> Grouping:
        largest = groups_for(max(self._partition.n_seen, 1))
        return min(
            (self._partition.grouping(k) for k in range(1, largest + 1)),
            key=lambda grouping: held_out_error(grouping, prior),
        )


def held_out_error(grouping: Grouping, prior: float, strength: float = SHRINKAGE) -> float:
    """Return the summed squared error when each held-out item is forecast from the others of its group.

    Without item i the forecast is (T - x_i + s p)/(n - 1 + s), so with m = n + s and t = T + s p the error is
    (m x_i - t)/(m - 1), and the squares sum to (m^2 Q - 2 m t T + n t^2)/(m - 1)^2 (T, Q: sums of x and x^2).
    """
    n, total, squares = grouping.held_out, grouping.held_out_total, grouping.held_out_squares
    m, t = n + strength, total + strength * prior
    return float(((m**2 * squares - 2 * m * t * total + n * t**2) / (m - 1.0) ** 2).sum())
