"""Fit logistic models with Gaussian priors on their coefficients; graded scores enter through the quasi-likelihood."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cereval.forecasts.design import Design

Floats = NDArray[np.float64]


def expit(logits: Floats) -> Floats:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logits)))


MOST_STEPS = 30
CONVERGED = 1e-7
"""A Newton step shorter than this is the last: the next one would be of the order of its square, so that machines which
round differently, and may stop a step apart, agree to 1e-12."""
SLACK = 1e-9
"""A step may raise the loss by this share of it: far more than rounding does, so that rounding decides no step."""


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
    """Return the covariance of the normal law that has the posterior's curvature at its mode (Laplace)."""
    return np.asarray(np.linalg.inv(_curvature(rows, expit(rows @ at), prior)))


def _curvature(rows: Floats, fitted: Floats, prior: Design) -> Floats:
    certainty = np.maximum(fitted * (1.0 - fitted), 1e-6)
    return np.asarray((rows.T * certainty) @ rows + np.diag(prior.precision))


def _loss(logits: Floats, scores: Floats, prior: Design, at: Floats) -> float:
    fit = np.logaddexp(0.0, logits).sum() - scores @ logits
    return float(fit + 0.5 * prior.precision @ (at - prior.mean) ** 2)
