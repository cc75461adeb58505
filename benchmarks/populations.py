"""Plain synthetic populations for tables and tests: scores of 0 and 1, clusters, and scores of two values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cereval.errors import InvalidInput
from cereval.paper.experiments import Population


def bernoulli(rng: np.random.Generator, mean: float, size: int = 5000) -> Population:
    """Scores 0/1 with this mean; embeddings are noise.

    >>> bernoulli(np.random.default_rng(0), 0.1).name
    'Bernoulli 0.1'
    """
    _check_probability("mean", mean)
    scores = (rng.uniform(size=size) < mean).astype(np.float64)
    return Population.of(scores, rng.normal(size=(size, 10)), np.zeros(size), f"Bernoulli {mean:g}")


def clusters(
    rng: np.random.Generator, means: Sequence[float] = (0.95, 0.5, 0.05), size: int = 5000
) -> Population:
    """Scores 0/1 whose mean depends on the cluster; clusters are easy to tell apart.

    >>> population = clusters(np.random.default_rng(0))
    >>> [round(float(population.scores[population.groups == k].mean()), 2) for k in range(3)]
    [0.94, 0.49, 0.05]
    """
    for mean in means:
        _check_probability("means", mean)
    label = rng.integers(len(means), size=size)
    position = rng.normal(size=(size, 10))
    position[:, 0] += 5.0 * (label + 1)
    scores = (rng.uniform(size=size) < np.asarray(means)[label]).astype(np.float64)
    return Population.of(scores, position, label, f"clusters {'/'.join(f'{mean:g}' for mean in means)}")


def two_point(
    rng: np.random.Generator, low: float, high: float, share_high: float = 0.5, size: int = 5000
) -> Population:
    """Scores that take two values, `high` with probability `share_high`; embeddings are noise.

    >>> population = two_point(np.random.default_rng(0), 0.4, 0.6)
    >>> sorted(set(population.scores.tolist()))
    [0.4, 0.6]
    """
    for field, value in (("low", low), ("high", high), ("share_high", share_high)):
        _check_probability(field, value)
    up = rng.uniform(size=size) < share_high
    noise = rng.normal(size=(size, 10))
    return Population.of(np.where(up, high, low), noise, up, f"two-point {low:g}/{high:g}")


def _check_probability(field: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InvalidInput(field, "in [0, 1]", value)
