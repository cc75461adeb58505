"""Forecast an item from what it answered before, where items are asked again and every answer is fresh.

Item i has an unknown rate, the mean of its answers. Beforehand the rate is taken to come from

    sum_c omega_c Beta(c p_i, c (1 - p_i)),

where p_i is the forecast of somebody who does not know the item's own answers (the mean of all items, or what past
models and categories say). The concentration c says how much items differ: near 0 every item is always right or always
wrong, a large c means that all of them toss the same coin. The shares omega are learnt from the items that were asked
more than once. After n answers with the sum k the forecast is the mean over c of (c p_i + k)/(c + n), each c counted by
its chance given these answers.

Graded answers (or the mean of several) vary less about a rate m than m(1 - m), by a factor phi that repeated answers
tell: all counts above are then divided by phi. Answers that are 0 or 1 have phi 1.

Nothing here is part of a proof: a bad forecast costs calls.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaln

from cereval.arrays import Floats, Ints
from cereval.forecasts.features import designs
from cereval.forecasts.pool import Pool
from cereval.forecasts.predictors import Forecast, PairPredictor, Predictor, build_predictor

CONCENTRATIONS = np.array([0.05, 0.15, 0.4, 1.0, 3.0, 10.0, 50.0])
PRIOR_ITEMS = 0.5
"""Items that equal shares of the concentrations count for against those that were asked more than once."""
STEPS = 20
"""Of expectation-maximisation: always as many, so that rounding decides nothing; more save no calls."""
PRIOR_PHI = 0.25
"""What the variance of first answers counts for where phi is learnt, in sums of m(1 - m)."""
LEAST_PHI = 0.02
LEAST_VARIANCE = 0.02
"""Of an answer about its forecast: an item that was right thirty times may still fail."""
PRIOR_ODDS = 3.0
"""Log odds, beforehand, of forecasts that know the item's own answers against those that do not."""
CERTAIN = 1e-3
"""How close to 0 and 1 a forecast p_i may be."""


class OwnAnswers:
    """Forecast items by another predictor's forecasts, corrected by what each item answered.

    The other predictor learns from the first answer of every item, so that items asked often do not count more.

    >>> memory = OwnAnswers(Pool.build(3), build_predictor(Pool.build(3)))
    >>> items, scores = np.array([0, 1, 0, 1, 0, 1]), np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    >>> memory.fit(items, scores, np.ones(6)).mean.round(2).tolist()
    [0.94, 0.06, 0.5]
    """

    def __init__(self, pool: Pool, base: Predictor) -> None:
        self._base, self._shares = base, pool.shares()
        self._counts, self._sums, self._squares = np.zeros((3, pool.size))
        self._first: list[int] = []
        """Results that were the first of their item."""
        self._seen = 0
        self._forecasts: tuple[Floats, Floats, Floats] | None = None
        """The last ones: without the items' own answers, with them, and the two together."""
        self._log_odds = PRIOR_ODDS
        self._grading = 1.0
        self._errors = np.zeros(2)
        """Importance-weighted sums of squared errors: of the forecasts, and of the mean of all scores before."""

    def fit(self, items: Ints, scores: Floats, probabilities: Floats) -> Forecast:
        self._judge(items, scores, probabilities)
        self._book(items[self._seen :], scores[self._seen :])
        first = np.array(self._first, dtype=np.int64)
        base = self._base.fit(items[first], scores[first], probabilities[first])
        unknowing = np.clip(base.mean, CERTAIN, 1 - CERTAIN)
        self._grading = _grading(unknowing[items[first]], scores[first])
        knowing, variance = self._recall(unknowing, self._grading)
        together = unknowing + (knowing - unknowing) / (1 + np.exp(-self._log_odds))
        spread = np.sqrt(np.maximum(variance + (knowing - together) ** 2, LEAST_VARIANCE))
        self._forecasts = unknowing, knowing, together
        explained = 1 - float(self._errors[0] / self._errors[1]) if self._errors[1] > 0 else 0.0
        return Forecast(together, spread, explained, base.notes)

    def alike(self, forecast: Forecast) -> tuple[float, float]:
        """See `methods.memory.Remembering`: an answer with mean m has the share `grading` of the variance m(1 - m)."""
        mean = min(max(float(self._shares @ forecast.mean), CERTAIN), 1 - CERTAIN)
        return mean, self._grading * mean * (1 - mean)

    def _judge(self, items: Ints, scores: Floats, probabilities: Floats) -> None:
        if self._forecasts is None or len(items) == self._seen:
            return
        fresh, found = items[self._seen :], scores[self._seen :]
        without, own, together = (np.square(found - forecast[fresh]) for forecast in self._forecasts)
        middle = scores[: self._seen].mean() if self._seen else 0.5
        constant = np.square(found - middle)
        # As far as squared errors of 0/1 scores tell forecasts apart, whatever the scale of the scores.
        scale = max(4 * float(np.square(scores - scores.mean()).mean()), 1e-6)
        self._log_odds += float((without - own).sum()) / scale
        importance = 1 / probabilities[self._seen :]
        self._errors += importance @ together, importance @ constant

    def _book(self, items: Ints, scores: Floats) -> None:
        _, places = np.unique(items, return_index=True)
        places = places[self._counts[items[places]] == 0]
        self._first += (self._seen + np.sort(places)).tolist()
        for sums, terms in zip(
            (self._counts, self._sums, self._squares), (np.ones(len(items)), scores, scores**2), strict=True
        ):
            np.add.at(sums, items, terms)
        self._seen += len(items)

    def _recall(self, unknowing: Floats, grading: float) -> tuple[Floats, Floats]:
        """The forecast of every item that knows its own answers, and the variance of its next answer about it."""
        mean, variance = unknowing.copy(), grading * unknowing * (1 - unknowing)
        asked = np.flatnonzero(self._counts)
        if not len(asked):
            return mean, variance
        count, total, prior = self._counts[asked], self._sums[asked], unknowing[asked]
        phi = self._phi(asked, grading)
        right = (np.outer(prior, CONCENTRATIONS) + total[:, None]) / phi
        wrong = (np.outer(1 - prior, CONCENTRATIONS) + (count - total)[:, None]) / phi
        fit = betaln(right, wrong) - betaln(
            np.outer(prior, CONCENTRATIONS / phi), np.outer(1 - prior, CONCENTRATIONS / phi)
        )
        likelihood = np.exp(fit - fit.max(axis=1, keepdims=True))
        chances = likelihood * _shares(likelihood[count > 1])
        chances /= chances.sum(axis=1, keepdims=True)
        answers = right + wrong
        mean[asked] = own = (chances * right / answers).sum(axis=1)
        square = (chances * right * (right + 1) / (answers * (answers + 1))).sum(axis=1)
        variance[asked] = phi * (own - square) + square - own**2
        return mean, variance

    def _phi(self, asked: Ints, grading: float) -> float:
        """The variance of an item's answers about their mean m as a share of m(1 - m); of first answers: `grading`."""
        repeated = asked[self._counts[asked] > 1]
        ends = self._sums[repeated] ** 2 / self._counts[repeated]
        within, most = (self._squares[repeated] - ends).sum(), (self._sums[repeated] - ends).sum()
        return max(float((within + PRIOR_PHI * grading) / (most + PRIOR_PHI)), LEAST_PHI)


def remembering(pool: Pool) -> OwnAnswers:
    """The forecasts of everything known beforehand, corrected by what each item answered."""
    return OwnAnswers(pool, build_predictor(pool, designs(pool, precedents=True)))


def remembering_pair(pool: Pool) -> PairPredictor:
    """The same of two models, for the difference of a fresh answer of each."""
    return PairPredictor(pool, (remembering(pool), remembering(pool)))


def _grading(forecasts: Floats, scores: Floats) -> float:
    """The variance of first answers as a share of that of 0/1 answers: 1 until a score says otherwise."""
    missing = float(scores @ (1 - scores))
    return max(1 - missing / (float(forecasts @ (1 - forecasts)) + PRIOR_PHI), LEAST_PHI)


def _shares(likelihood: Floats) -> Floats:
    """The shares of the concentrations that the items (rows) make most likely, shrunk towards equal ones."""
    even = np.full(len(CONCENTRATIONS), 1 / len(CONCENTRATIONS))
    shares = even
    for _ in range(STEPS):
        chances = likelihood * shares
        found = (chances / chances.sum(axis=1, keepdims=True)).sum(axis=0) + PRIOR_ITEMS * even
        shares = found / found.sum()
    return shares
