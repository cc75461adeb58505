"""Online forecasts of a model's score on every item, from side information and the results so far.

The certified estimator is valid for any forecast; a good one saves calls. With forecast g and draws in
proportion to a guess s of the residual's size, the variance of one increment is about

    mean(r^2 / (s / mean(s))),    r = z - g.

So experts for g are mixed by their one-step-ahead squared error, guesses of s by their one-step-ahead cost
(the formula above); a constant is always among both, so useless side information costs next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cereval.items.features import Design, designs
from cereval.items.pool import Pool

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Draw weights are formed as (1 - SAFETY) s / mean(s) + SAFETY when guesses are compared.
SAFETY = 0.2
MIN_VARIANCE = 0.004
LEARNING_RATE = 2.0
COST_RATE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """For every item, the predicted score in [0, 1] and the predicted size of (score - mean), > 0.

    notes: what helped, in words. explained: share of the variance explained one step ahead; 0 without data.
    """

    mean: Floats
    spread: Floats
    explained: float = 0.0
    notes: tuple[str, ...] = ()


class Predictor(Protocol):
    def fit(self, items: Integers, scores: Floats, probabilities: Floats) -> Forecast:
        """The forecast after these results, in draw order.

        probabilities: of each draw when it was made, relative to uniform draws from the unseen items. Each
        call's arrays extend those of the call before: the answer is a function of that sequence of prefixes.
        """
        ...


class Expert(Protocol):
    def fit(self, items: Integers, scores: Floats) -> Floats:
        """The mean forecast over all items."""
        ...


class Constant:
    """The mean score so far, shrunk to 1/2 by one pseudo-result.

    >>> Constant(3).fit(np.array([0]), np.array([1.0])).tolist()
    [0.75, 0.75, 0.75]
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def fit(self, items: Integers, scores: Floats) -> Floats:
        return np.full(self.size, (scores.sum() + 0.5) / (len(items) + 1.0))


class LogisticRidge:
    """Posterior mode of a logistic model; graded scores enter through the quasi-likelihood.

    >>> line = Design.of(np.array([[-1.0], [0.0], [1.0]]), 1.0)
    >>> LogisticRidge(line).fit(np.array([0, 2]), np.array([0.0, 1.0])).round(2).tolist()
    [0.34, 0.5, 0.66]
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self._coefficients = design.mean

    def fit(self, items: Integers, scores: Floats) -> Floats:
        design = self.design
        rows = design.columns[items]
        # The last fit is a near-optimal start: two or three Newton steps instead of ten.
        self._coefficients = posterior_mode(rows, scores, design, self._coefficients)
        return expit(design.columns @ self._coefficients)


def expit(logits: Floats) -> Floats:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logits)))


def posterior_mode(rows: Floats, scores: Floats, prior: Design, start: Floats) -> Floats:
    """Damped Newton steps on the penalised logistic loss, which is convex."""
    at = start
    loss = _loss(rows, scores, prior, at)
    for _ in range(30):
        fitted = expit(rows @ at)
        slope = rows.T @ (fitted - scores) + prior.precision * (at - prior.mean)
        curvature = (rows.T * np.maximum(fitted * (1.0 - fitted), 1e-6)) @ rows + np.diag(prior.precision)
        step = -np.linalg.solve(curvature, slope)
        size = 1.0
        while (reached := _loss(rows, scores, prior, at + size * step)) > loss and size > 1e-4:
            size /= 2.0
        if reached > loss:
            break
        at, gained, loss = at + size * step, loss - reached, reached
        if gained < 1e-6:
            break
    return at


def _loss(rows: Floats, scores: Floats, prior: Design, at: Floats) -> float:
    logits = rows @ at
    fit = np.logaddexp(0.0, logits).sum() - scores @ logits
    return float(fit + 0.5 * prior.precision @ (at - prior.mean) ** 2)


class Mixture:
    """Experts averaged with weights that fall exponentially in their one-step-ahead squared errors."""

    def __init__(self, pool: Pool, experts: dict[str, Expert]) -> None:
        self._experts = experts
        self._relative_shares = pool.shares() * pool.size
        self._seen = 0
        self._means: list[Floats] = []
        self._log_weights = np.zeros(len(experts))
        self._spreads: list[Floats] = []
        self._log_spread_weights = np.zeros(2)
        self._mean = np.full(pool.size, 0.5)
        self._errors = np.zeros(2)

    def fit(self, items: Integers, scores: Floats, probabilities: Floats) -> Forecast:
        """See `Predictor`."""
        if self._means and len(items) > self._seen:
            self._learn(items[self._seen :], scores[self._seen :], probabilities[self._seen :])
        self._seen = len(items)
        self._means = [expert.fit(items, scores) for expert in self._experts.values()]
        weights = _softmax(self._log_weights)
        self._mean = np.clip(weights @ np.array(self._means), 0.0, 1.0)
        self._spreads = self._guesses()
        spread = _softmax(self._log_spread_weights) @ np.array(self._spreads)
        explained = 1.0 - self._errors[0] / self._errors[1] if self._errors[1] > 0 else 0.0
        return Forecast(self._mean, spread, float(explained), self._notes(weights))

    def _guesses(self) -> list[Floats]:
        bernoulli = np.sqrt(np.maximum(self._mean * (1.0 - self._mean), MIN_VARIANCE))
        return [np.full(len(self._mean), bernoulli.mean()), bernoulli]

    def _learn(self, items: Integers, scores: Floats, probabilities: Floats) -> None:
        importance = self._relative_shares[items] / probabilities
        errors = np.array([importance @ (scores - mean[items]) ** 2 for mean in self._means])
        self._log_weights = self._log_weights - LEARNING_RATE * errors
        squares = importance * (scores - self._mean[items]) ** 2
        self._errors = self._errors + np.array([squares.sum(), errors[0]])
        costs = np.array([(squares / draw_weights(spread, SAFETY)[items]).sum() for spread in self._spreads])
        unit = max(self._errors[0] / self._seen, 1e-9) if self._seen else max(squares.mean(), 1e-9)
        self._log_spread_weights = self._log_spread_weights - COST_RATE * costs / unit

    def _notes(self, weights: Floats) -> tuple[str, ...]:
        if self._seen == 0 or len(weights) == 1:
            return ()
        names = list(self._experts)
        order = np.argsort(-weights)[:2]
        return tuple(f"{names[k]}: weight {weights[k]:.2f}" for k in order if weights[k] >= 0.1)


def draw_weights(spread: Floats, safety: float) -> Floats:
    """Relative draw weights: in proportion to the spread, mixed with uniform."""
    return np.asarray((1.0 - safety) * spread / spread.mean() + safety)


def _softmax(logs: Floats) -> Floats:
    raised = np.exp(logs - logs.max())
    return np.asarray(raised / raised.sum())


def build_predictor(pool: Pool) -> Predictor:
    """The mixture of a constant with one expert for each kind of side information that the pool has.

    >>> forecast = build_predictor(Pool.build(2)).fit(np.array([0]), np.array([1.0]), np.array([1.0]))
    >>> forecast.mean.tolist()
    [0.75, 0.75]
    """
    experts: dict[str, Expert] = {"constant": Constant(pool.size)}
    for name, design in designs(pool).items():
        experts[name] = LogisticRidge(design)
    return Mixture(pool, experts)
