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


GOLDEN = 0.6180339887498949
"""Multiples of it, less their whole parts, are spread evenly and never repeat."""


def tie_breakers(size: int) -> Floats:
    """Return weights of the items in a search for principal axes: 1 up to a thousandth, and no two alike.

    Where axes are equally strong (texts of two words each, past models that were asked different items), rounding would
    choose among them, on each processor otherwise. The weights choose, the same way everywhere.

    >>> tie_breakers(3).round(6).tolist()
    [1.0, 1.000618, 1.000236]
    """
    return np.asarray(1.0 + 1e-3 * (GOLDEN * np.arange(size) % 1.0), dtype=np.float64)


def intercept(size: int) -> Design:
    return Design.of(np.ones((size, 1)), 0.1)
