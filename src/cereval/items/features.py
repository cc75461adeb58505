"""Side information as columns of a design matrix, each with the prior of its logistic coefficient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cereval.items.history import summarise
from cereval.items.pool import Pool

Floats = NDArray[np.float64]

MAX_DIMENSIONS = 48


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Columns (items x features) with Gaussian priors on their coefficients.

    >>> joined = Design.of(np.ones((3, 1)), 4.0).beside(Design.of(np.zeros((3, 2)), 1.0))
    >>> joined.columns.shape, joined.precision.tolist()
    ((3, 3), [4.0, 1.0, 1.0])
    """

    columns: Floats
    mean: Floats
    precision: Floats

    @classmethod
    def of(cls, columns: Floats, precision: float, mean: float = 0.0) -> Design:
        width = columns.shape[1]
        return cls(columns, np.full(width, mean), np.full(width, precision))

    def beside(self, other: Design) -> Design:
        return Design(
            np.hstack([self.columns, other.columns]),
            np.concatenate([self.mean, other.mean]),
            np.concatenate([self.precision, other.precision]),
        )


def intercept(size: int) -> Design:
    return Design.of(np.ones((size, 1)), 0.1)


def history_designs(table: Floats) -> dict[str, Design]:
    """The past's easiness alone, bent, and with factors: from the most to the least prejudiced expert.

    The slope's prior mean is 1 on the logit scale: a new model is an average past model, shifted.
    """
    traits = summarise(table)
    scale = float(traits.easiness.std())
    if scale == 0.0:
        return {}
    standard = (traits.easiness - traits.easiness.mean()) / scale
    line = intercept(len(table)).beside(Design.of(standard[:, None], 2.0, scale))
    bend = Design.of((standard[:, None] ** 2 - 1.0) / 2.0, 2.0)
    designs = {"easiness": line, "bent": line.beside(bend)}
    designs["factors"] = line.beside(Design.of(traits.factors, 4.0))
    designs["bent factors"] = line.beside(bend).beside(Design.of(traits.factors, 10.0))
    return designs


def group_design(groups: NDArray[np.int64]) -> Design:
    """One indicator per group; shrunken group means on the logit scale."""
    columns = np.zeros((len(groups), int(groups.max()) + 1))
    columns[np.arange(len(groups)), groups] = 1.0
    return Design.of(columns, 4.0)


def embedding_design(embeddings: NDArray[np.float32]) -> Design:
    """Leading principal components, the first scaled to variance 1 and the others in proportion."""
    centred = embeddings - embeddings.mean(axis=0)
    values, vectors = np.linalg.eigh((centred.T @ centred).astype(np.float64) / len(centred))
    leading = vectors[:, ::-1][:, :MAX_DIMENSIONS]
    scale = np.sqrt(max(float(values[-1]), 1e-30))
    return Design.of(centred @ leading / scale, 1.0)


def designs(pool: Pool) -> dict[str, Design]:
    """One design for each expert that the pool's side information supports."""
    found = {} if pool.history is None else history_designs(pool.history)
    extra = None
    if pool.groups is not None and int(pool.groups.max()) > 0:
        extra = group_design(pool.groups)
        found["groups"] = intercept(pool.size).beside(extra)
    if pool.embeddings is not None:
        found["embeddings"] = intercept(pool.size).beside(embedding_design(pool.embeddings))
    if extra is not None and "bent factors" in found:
        found["history + groups"] = found["bent factors"].beside(extra)
    return found
