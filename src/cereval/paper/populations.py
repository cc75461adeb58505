"""Synthetic populations: the paper's S1 to S3, and its counterexample.

Every function takes an owned Generator, so the same seed gives the same population. Scores are
1 - loss, as everywhere in cereval; the paper's losses are one subtraction away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Population:
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
    """Gaussians with these parameters, conditioned on [0, 1], by inversion of the distribution function."""
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
    position = rng.normal(size=(size, 10))
    position[:, 0] += separation * (label + 1)
    loss = truncated_gaussian(rng, (label + 0.5) / groups, np.full(size, 1.0 / groups))
    return Population.of(1.0 - loss, position, label, name)


def s1(rng: np.random.Generator, size: int = 5000) -> Population:
    return paper_simulation(rng, 1, 5.0, "S1", size)


def s2(rng: np.random.Generator, size: int = 5000) -> Population:
    return paper_simulation(rng, 3, 5.0, "S2", size)


def s3(rng: np.random.Generator, size: int = 5000) -> Population:
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
    """
    core = rng.permutation(size) < round(share * size)
    scale = np.where(core, np.sqrt(0.1), 1.0)
    position = rng.normal(size=(size, dimensions)) * scale[:, None]
    return Population.of(np.where(core, 0.0, 1.0), position, core, "hubness")
