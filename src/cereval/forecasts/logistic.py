"""Logistic models with Gaussian priors on their coefficients; graded scores enter through the quasi-likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cereval.arrays import Floats, Ints

GOLDEN = 0.6180339887498949  # Multiples of it, less their whole parts, are spread evenly and never repeat
MOST_STEPS = 30
CONVERGED = 1e-7
"""A Newton step shorter than this is the last: the next one would be of the order of its square, so that machines which
round differently, and may stop a step apart, agree to 1e-12."""
SLACK = 1e-9
"""A step may raise the loss by this share of it: far more than rounding does, so that rounding decides no step."""


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Columns (items x features) with Gaussian priors on their coefficients; `past`: whether past scores are in it."""

    columns: Floats
    mean: Floats
    precision: Floats
    past: bool = False

    @classmethod
    def of(cls, columns: Floats, precision: float, mean: float = 0.0) -> Design:
        width = columns.shape[1]
        return cls(columns, np.full(width, mean), np.full(width, precision))

    @classmethod
    def intercept(cls, size: int) -> Design:
        return cls.of(np.ones((size, 1)), 0.1)

    def beside(self, other: Design) -> Design:
        return Design(
            np.hstack([self.columns, other.columns]),
            np.concatenate([self.mean, other.mean]),
            np.concatenate([self.precision, other.precision]),
            self.past or other.past,
        )


class LogisticRidge:
    """Forecasts from the posterior mode of a logistic model.

    >>> line = Design.of(np.array([[-1.0], [0.0], [1.0]]), 1.0)
    >>> LogisticRidge(line).fit(np.array([0, 2]), np.array([0.0, 1.0])).round(2).tolist()
    [0.34, 0.5, 0.66]
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self._coefficients = design.mean

    def fit(self, items: Ints, scores: Floats) -> Floats:
        design = self.design
        # The last fit is a near-optimal start: two or three Newton steps instead of ten.
        self._coefficients = posterior_mode(design.columns[items], scores, design, self._coefficients)
        return expit(design.columns @ self._coefficients)


def expit(logits: Floats) -> Floats:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logits)))


def posterior_mode(rows: Floats, scores: Floats, prior: Design, start: Floats) -> Floats:
    """Take Newton steps, halved while they raise the penalised logistic loss, to the minimum of it: it is convex."""
    at, logits = start, rows @ start
    loss = _loss(logits, scores, prior, at)
    for _ in range(MOST_STEPS):
        fitted = expit(logits)
        slope = rows.T @ (fitted - scores) + prior.precision * (at - prior.mean)
        step = -np.linalg.solve(_curvature(rows, fitted, prior), slope)
        if np.abs(step).max() < CONVERGED:
            return np.asarray(at + step)
        moved, most = rows @ step, loss + SLACK * (1.0 + abs(loss))
        while (reached := _loss(logits + moved, scores, prior, at + step)) > most:
            step, moved = step / 2.0, moved / 2.0
        at, logits, loss = at + step, logits + moved, reached
    return at


def posterior_covariance(rows: Floats, prior: Design, at: Floats) -> Floats:
    """The covariance of the normal law that has the posterior's curvature at its mode (Laplace)."""
    return np.asarray(np.linalg.inv(_curvature(rows, expit(rows @ at), prior)))


def _curvature(rows: Floats, fitted: Floats, prior: Design) -> Floats:
    certainty = np.maximum(fitted * (1.0 - fitted), 1e-6)
    return np.asarray((rows.T * certainty) @ rows + np.diag(prior.precision))


def _loss(logits: Floats, scores: Floats, prior: Design, at: Floats) -> float:
    fit = np.logaddexp(0.0, logits).sum() - scores @ logits
    return float(fit + 0.5 * prior.precision @ (at - prior.mean) ** 2)


def tie_breakers(size: int) -> Floats:
    """Weights of the items in a search for principal axes: 1 up to a thousandth, and no two alike.

    Where axes are equally strong (texts of two words each, past models that were asked different items), rounding would
    choose among them, on each processor otherwise. The weights choose, the same way everywhere.

    >>> tie_breakers(3).round(6).tolist()
    [1.0, 1.000618, 1.000236]
    """
    return np.asarray(1.0 + 1e-3 * (GOLDEN * np.arange(size) % 1.0), dtype=np.float64)
