"""Hold the columns of a model of the scores, each with the prior of its logistic coefficient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Hold columns (items x features) with Gaussian priors on their coefficients; `past`: whether past scores are in
    them.

    >>> joined = Design.of(np.ones((3, 1)), 4.0).beside(Design.of(np.zeros((3, 2)), 1.0))
    >>> joined.columns.shape, joined.precision.tolist()
    ((3, 3), [4.0, 1.0, 1.0])
    """

    columns: Floats
    mean: Floats
    precision: Floats
    past: bool = False

    @classmethod
    def of(cls, columns: Floats, precision: float, mean: float = 0.0) -> Design:
        width = columns.shape[1]
        return cls(columns, np.full(width, mean), np.full(width, precision))

    def beside(self, other: Design) -> Design:
        return Design(
            np.hstack([self.columns, other.columns]),
            np.concatenate([self.mean, other.mean]),
            np.concatenate([self.precision, other.precision]),
            self.past or other.past,
        )


def intercept(size: int) -> Design:
    return Design.of(np.ones((size, 1)), 0.1)
