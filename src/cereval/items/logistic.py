"""Fit logistic models with Gaussian priors on their coefficients; graded scores enter through the quasi-likelihood."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cereval.items.design import Design

Floats = NDArray[np.float64]


def expit(logits: Floats) -> Floats:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logits)))


def posterior_mode(
    rows: Floats, scores: Floats, prior: Design, start: Floats, counts: Floats | float = 1.0
) -> Floats:
    """Take damped Newton steps on the penalised logistic loss, which is convex; counts: how often each row counts."""
    at = start
    loss = _loss(rows, scores, prior, at, counts)
    for _ in range(30):
        fitted = expit(rows @ at)
        slope = rows.T @ (counts * (fitted - scores)) + prior.precision * (at - prior.mean)
        step = -np.linalg.solve(_curvature(rows, fitted, prior, counts), slope)
        size = 1.0
        while (reached := _loss(rows, scores, prior, at + size * step, counts)) > loss and size > 1e-4:
            size /= 2.0
        if reached > loss:
            break
        at, gained, loss = at + size * step, loss - reached, reached
        if gained < 1e-6:
            break
    return at


def posterior_covariance(rows: Floats, prior: Design, at: Floats, counts: Floats | float = 1.0) -> Floats:
    """Return the covariance of the normal law that has the posterior's curvature at its mode (Laplace)."""
    return np.asarray(np.linalg.inv(_curvature(rows, expit(rows @ at), prior, counts)))


def _curvature(rows: Floats, fitted: Floats, prior: Design, counts: Floats | float) -> Floats:
    certainty = counts * np.maximum(fitted * (1.0 - fitted), 1e-6)
    return np.asarray((rows.T * certainty) @ rows + np.diag(prior.precision))


def _loss(rows: Floats, scores: Floats, prior: Design, at: Floats, counts: Floats | float) -> float:
    logits = rows @ at
    fit = (counts * np.logaddexp(0.0, logits)).sum() - (counts * scores) @ logits
    return float(fit + 0.5 * prior.precision @ (at - prior.mean) ** 2)
