"""Forecast a model's score on every item online, from side information and the results so far.

The certified estimator is valid for any forecast; a good one saves calls. With forecast g and draws in
proportion to a guess s of the residual's size, the variance of one increment is about

    mean(r^2 / (s / mean(s))),    r = z - g.

So experts for g are mixed by their one-step-ahead squared error, guesses of s by their one-step-ahead cost
(the formula above); a constant is always among both, so useless side information costs next to nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from cereval.arrays import Floats, Ints
from cereval.forecasts.draw_weights import PowerLaw, fit_power_law
from cereval.forecasts.features import designs
from cereval.forecasts.history import PRECEDENTS
from cereval.forecasts.logistic import Design, LogisticRidge
from cereval.forecasts.pool import Pool

LEARNING_RATE = COST_RATE = 1.0
SAFETY = 0.2  # Share of uniform draws with which guesses of the spread are judged
SPREAD_PRIOR = -2.0
"""Log prior odds of a constant spread against the power law, which is nearly always right on real data."""
UNINFORMED, PRECEDENT_ODDS = -1.0, 1.0
"""The same of an expert that knows nothing of the past against one that does, and of one that knows what many past
models are like."""
LEAST_EXPLAINED = 0.02  # A share of the variance that is not told apart from none
LEAST_SPREAD, MOST_SPREAD = 0.01, 0.5
PRIOR_RESULTS = 5.0
"""Results that the stated spread of a pair's forecast counts for against the squared errors observed."""


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """For every item the predicted score in [0, 1] and the predicted size of (score - mean), > 0.

    notes: what helped, in words. explained: share of the variance explained one step ahead; 0 without data.
    """

    mean: Floats
    spread: Floats
    explained: float = 0.0
    notes: tuple[str, ...] = ()


class Predictor(Protocol):
    def fit(self, items: Ints, scores: Floats, probabilities: Floats) -> Forecast:
        """Return the forecast after these results, in draw order.

        probabilities: of each draw when it was made, relative to uniform draws from the unseen items. Each
        call's arrays extend those of the call before: the answer is a function of that sequence of prefixes.
        """
        ...


class Expert(Protocol):
    def fit(self, items: Ints, scores: Floats) -> Floats:
        """Return the mean forecast over all items."""
        ...


class Constant:
    """The mean score so far, shrunk to 1/2 by one pseudo-result."""

    def __init__(self, size: int) -> None:
        self.size = size

    def fit(self, items: Ints, scores: Floats) -> Floats:
        return np.full(self.size, (scores.sum() + 0.5) / (len(items) + 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class _Past:
    """What the mixture has learnt one step ahead: the state that a fit hands to the next one."""

    seen: int
    experts: Floats  # experts x items: forecasts that the next results will judge
    mean: Floats  # their mixture
    spreads: Floats  # 2 x items: a constant and the power law
    log_weights: Floats
    log_spread_weights: Floats
    judged: Floats  # the mixture's forecast of each result so far, made before it was seen
    squares: Floats  # its squared errors
    errors: Floats  # importance-weighted sums: the mixture's and the constant's squared errors
    law: PowerLaw


class Mixture:
    """Average experts with weights that fall exponentially in their one-step-ahead squared errors.

    For rates up to 1/2 and plain squared error on [0, 1] such an average is at most ln(experts) / rate behind
    the best expert in total (Kivinen and Warmuth 1999). Here the rate is larger, the weights change once per
    block and errors are weighted by 1 / draw probability, so that the items still to come count alike: the
    bound is a guide, the measured cost of useless experts is at most 2%. The first expert is the constant.
    """

    def __init__(self, pool: Pool, experts: dict[str, Expert], log_odds: Floats) -> None:
        self._experts = experts
        self.has_precedents = PRECEDENTS in experts
        """Whether many past models say what a new one is like."""
        self._informed = pool.has_side_information
        self._relative_shares = pool.shares() * pool.size
        empty, none = np.zeros(0), np.zeros((0, pool.size))
        prior = np.array([SPREAD_PRIOR, 0.0])
        self._past = _Past(0, none, none, none, log_odds, prior, empty, empty, np.zeros(2), PowerLaw())

    def fit(self, items: Ints, scores: Floats, probabilities: Floats) -> Forecast:
        past = self._past
        if len(past.experts) and len(items) > past.seen:
            past = self._learn(items[past.seen :], scores[past.seen :], probabilities[past.seen :])
        forecasts = np.array([expert.fit(items, scores) for expert in self._experts.values()])
        weights = _softmax(past.log_weights)
        mean = np.clip(weights @ forecasts, 0.0, 1.0)
        guess = np.sqrt(past.law.variance(mean))
        spreads = np.array([np.full(len(mean), np.sqrt((guess**2).mean())), guess])
        spread = _softmax(past.log_spread_weights) @ spreads
        self._past = replace(past, seen=len(items), experts=forecasts, mean=mean, spreads=spreads)
        explained = 1.0 - past.errors[0] / past.errors[1] if past.errors[1] > 0.0 else 0.0
        return Forecast(mean, spread, float(explained), self._notes(float(explained)))

    def _learn(self, items: Ints, scores: Floats, probabilities: Floats) -> _Past:
        past = self._past
        importance = self._relative_shares[items] / probabilities
        losses = (scores - past.experts[:, items]) ** 2 @ importance
        squares = (scores - past.mean[items]) ** 2
        judged = np.concatenate([past.judged, past.mean[items]])
        every_square = np.concatenate([past.squares, squares])
        # Guesses of the spread are judged as they are used: relative draw weights, mixed with uniform draws.
        means = past.spreads.mean(axis=-1)[:, None]
        weights = (1.0 - SAFETY) * past.spreads / means + SAFETY
        # Cost of one draw under each guess, in units of the mean squared error: comparable across runs.
        costs = (importance * squares) @ (1.0 / weights[:, items]).T
        return replace(
            past,
            log_weights=past.log_weights - LEARNING_RATE * losses,
            log_spread_weights=past.log_spread_weights - COST_RATE * costs / max(every_square.mean(), 1e-6),
            judged=judged,
            squares=every_square,
            errors=past.errors + np.array([importance @ squares, losses[0]]),
            law=fit_power_law(judged, every_square, past.law),
        )

    def _notes(self, explained: float) -> tuple[str, ...]:
        if not (self._informed and self._past.seen):
            return ()
        if explained < LEAST_EXPLAINED:
            return ("forecasts did not help: questions were drawn with nearly equal probability",)
        return (f"forecasts explained {explained:.0%} of the variance of the scores",)


def _softmax(logs: Floats) -> Floats:
    raised = np.exp(logs - logs.max())
    return np.asarray(raised / raised.sum())


def build_predictor(pool: Pool, made: Mapping[str, Design] | None = None) -> Predictor:
    """The mixture of a constant with one expert for each kind of side information that the pool has.

    made: the pool's `designs`, where several predictors share them or they have precedents.
    """
    found = designs(pool) if made is None else made
    experts: dict[str, Expert] = {"constant": Constant(pool.size)}
    experts |= {name: LogisticRidge(design) for name, design in found.items()}
    # Where nobody knows the past, all are trusted alike.
    informed = np.array([False, *(design.past for design in found.values())])
    odds = np.where(informed | ~informed.any(), 0.0, UNINFORMED)
    odds[[name == PRECEDENTS for name in experts]] = PRECEDENT_ODDS
    return Mixture(pool, experts, odds)


class PairPredictor:
    """Forecast the difference D = z_first - z_second of two models, as a `Predictor` of y = (1 + D)/2.

    The forecast of y is (1 + g_first - g_second)/2: what makes an item hard for both cancels out. Each model has its
    own predictor, fitted on its own scores; where nothing known beforehand helps either, both are constants and so is
    the difference. `tell` gives it the two scores of every result that a fit may use, in their order.

    Spread: if the two errors were independent, that of y would have the variance (s_first^2 + s_second^2)/4. They
    are not, so the level is taken from the squared errors that earlier forecasts of y went on to make.

    >>> pair = PairPredictor(Pool.build(2))
    >>> pair.tell(1.0, 0.0)
    >>> pair.fit(np.array([0]), np.array([1.0]), np.array([1.0])).mean.tolist()
    [0.75, 0.75]
    """

    def __init__(self, pool: Pool, models: tuple[Predictor, Predictor] | None = None) -> None:
        made = designs(pool)
        self._models = models or (build_predictor(pool, made), build_predictor(pool, made))
        self._scores: tuple[array[float], array[float]] = array("d"), array("d")
        self._relative_shares = pool.shares() * pool.size
        self._seen = 0
        self._mean = self._variance = np.zeros(0)
        self._observed = self._stated = self._constant_errors = self._importance = 0.0
        """Importance-weighted sums: of squared errors of forecasts, as they were stated, and of a constant; of 1."""
        self.notes: tuple[str, ...] = ()

    def tell(self, first: float, second: float) -> None:
        for known, score in zip(self._scores, (first, second), strict=True):
            known.append(score)

    def alike(self, forecast: Forecast) -> tuple[float, float]:
        """See `methods.memory.Remembering`: as observed, with what the forecasts say of it for a few results."""
        shares = self._relative_shares / len(self._relative_shares)
        mean = float(shares @ forecast.mean)
        stated = float(shares @ (forecast.spread**2 + (forecast.mean - mean) ** 2))
        return mean, (self._constant_errors + PRIOR_RESULTS * stated) / (self._importance + PRIOR_RESULTS)

    def fit(self, items: Ints, scores: Floats, probabilities: Floats) -> Forecast:
        """See `Predictor`; `scores` are those of y."""
        if len(self._mean) and len(items) > self._seen:
            self._judge(items, scores, probabilities)
        first, second = (
            model.fit(items, np.array(known[: len(items)]), probabilities)
            for model, known in zip(self._models, self._scores, strict=True)
        )
        self._seen = len(items)
        self._mean = np.clip((1.0 + first.mean - second.mean) / 2.0, 0.0, 1.0)
        self._variance = (first.spread**2 + second.spread**2) / 4.0
        # Observed over stated squared errors, shrunk to 1.
        prior = PRIOR_RESULTS * float(self._variance.mean())
        level = (self._observed + prior) / (self._stated + prior)
        spread = np.clip(np.sqrt(level * self._variance), LEAST_SPREAD, MOST_SPREAD)
        helped = max(first.explained, second.explained)
        self.notes = ()
        if helped >= LEAST_EXPLAINED:
            self.notes = (f"forecasts explained {helped:.0%} of the variance of a model's scores",)
        explained = 1.0 - self._observed / self._constant_errors if self._constant_errors > 0.0 else 0.0
        return Forecast(self._mean, spread, explained, self.notes)

    def _judge(self, items: Ints, scores: Floats, probabilities: Floats) -> None:
        fresh = items[self._seen :]
        importance = self._relative_shares[fresh] / probabilities[self._seen :]
        before = scores[: self._seen].mean() if self._seen else 0.5
        self._observed += float(importance @ (scores[self._seen :] - self._mean[fresh]) ** 2)
        self._stated += float(importance @ self._variance[fresh])
        self._importance += float(importance.sum())
        self._constant_errors += float(importance @ (scores[self._seen :] - before) ** 2)
