"""Synthetic populations: the paper's S1 to S3, its counterexample, and the plain ones that tables need.

Every function takes an owned Generator, so the same seed gives the same population. Scores are
1 - loss, as everywhere in cereval; the paper's losses are one subtraction away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cereval.errors import InvalidInput

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """One score, one embedding and one true group for each item."""

    scores: Floats
    embeddings: NDArray[np.float32]
    groups: NDArray[np.int64]
    name: str

    @classmethod
    def of(cls, scores: Floats, positions: Floats, groups: NDArray[np.generic], name: str) -> Population:
        return cls(scores, positions.astype(np.float32), groups.astype(np.int64), name)

    @property
    def size(self) -> int:
        return len(self.scores)

    @property
    def mean(self) -> float:
        """What the `benchmark` target asks for."""
        return float(self.scores.mean())


def truncated_gaussian(rng: np.random.Generator, means: Floats, deviations: Floats) -> Floats:
    """Gaussians with these parameters, conditioned on [0, 1], by inversion of the distribution function.

    >>> values = truncated_gaussian(np.random.default_rng(0), np.full(4, 0.5), np.full(4, 1.0))
    >>> bool((values >= 0).all() and (values <= 1).all())
    True
    """
    from scipy.special import ndtr, ndtri

    below, above = ndtr(-means / deviations), ndtr((1 - means) / deviations)
    standard = ndtri(below + rng.uniform(size=len(means)) * (above - below))
    return np.asarray(np.clip(means + deviations * standard, 0.0, 1.0), dtype=np.float64)


def paper_simulation(
    rng: np.random.Generator, groups: int, separation: float, name: str, size: int = 5000
) -> Population:
    """Section 6.1 of the paper: K Gaussian clouds around (lambda k, 0, ..., 0) in 10 dimensions, sigma = 1.

    In group k the loss is Gaussian with mean (k - 1/2)/K and variance 1/K^2 *before* it is truncated
    to [0, 1]. The paper does not say how points fall into groups: here uniformly and independently.
    """
    label = rng.integers(groups, size=size)
    position = _clouds(rng, label, separation)
    loss = truncated_gaussian(rng, (label + 0.5) / groups, np.full(size, 1.0 / groups))
    return Population.of(1.0 - loss, position, label, name)


def _clouds(rng: np.random.Generator, label: NDArray[np.int64], separation: float) -> Floats:
    """Unit noise in 10 dimensions around centres `separation` apart on a line."""
    position = rng.normal(size=(len(label), 10))
    position[:, 0] += separation * (label + 1)
    return position


def s1(rng: np.random.Generator, size: int = 5000) -> Population:
    """(S1), one group: losses carry no structure.

    >>> population = s1(np.random.default_rng(0))
    >>> population.size, population.embeddings.shape[1], round(float(population.scores.var()), 3)
    (5000, 10, 0.08)
    """
    return paper_simulation(rng, 1, 5.0, "S1", size)


def s2(rng: np.random.Generator, size: int = 5000) -> Population:
    """(S2), three groups that are easy to tell apart: lambda = 5."""
    return paper_simulation(rng, 3, 5.0, "S2", size)


def s3(rng: np.random.Generator, size: int = 5000) -> Population:
    """(S3), three groups that are hard to tell apart: lambda = 1."""
    return paper_simulation(rng, 3, 1.0, "S3", size)


SCENARIOS: dict[str, Callable[..., Population]] = {"S1": s1, "S2": s2, "S3": s3}
"""The three scenarios of the simulation figure: of a Generator and, if not the paper's 5,000, a size."""


def hubness(
    rng: np.random.Generator, size: int = 5000, dimensions: int = 50, share: float = 0.1
) -> Population:
    """The counterexample to Cer-Eval as printed: a tight core that is everybody's nearest neighbour.

    A `share` of the items ~ N(0, .1 I) has loss 1, the others ~ N(0, I) have loss 0. In many dimensions
    the nearest neighbour of an outer point is a core point, so 1-NN labels outer points by the core's loss
    unless they are training points themselves, which carry their own label.

    >>> population = hubness(np.random.default_rng(0), size=1000)
    >>> round(population.mean, 3)
    0.9
    """
    core = rng.permutation(size) < round(share * size)
    scale = np.where(core, np.sqrt(0.1), 1.0)
    position = rng.normal(size=(size, dimensions)) * scale[:, None]
    return Population.of(np.where(core, 0.0, 1.0), position, core, "hubness")


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
    position = _clouds(rng, label, 5.0)
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
