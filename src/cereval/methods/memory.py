"""Ask items again where every answer is fresh, and remember what each one answered: `memory`."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Protocol

import numpy as np

from cereval.arrays import Floats
from cereval.errors import InvalidInput
from cereval.forecasts.memory import remembering
from cereval.forecasts.predictors import Forecast, Predictor
from cereval.methods.active import Active, Fit, Pace
from cereval.methods.base import Setting
from cereval.methods.certified import ALIKE, Tuning
from cereval.methods.uniform import COUNTING, EARLY
from cereval.stats.increments import Outlook

UNEVEN = 0.93
"""Forecasts that are expected to leave more than this of the variance of the answers are not used."""
FLOOR = 0.3
"""Share of the draws that all items have alike: the range of an increment is at most 1 / FLOOR times that of uniform
draws."""
OFTEN = Pace(first=16, growth=0.08)
REMEMBERING = replace(COUNTING, cap=0.95, ladder=replace(EARLY, share=0.05))
"""The bets of `uniform`, whose forecast memory begins with. A ladder of .095, as there, takes 1.5% more calls here."""


class Remembering(Predictor, Protocol):
    def alike(self, forecast: Forecast) -> tuple[float, float]:
        """The mean of all answers by a forecast, and their variance about it if one forecast were made for all."""
        ...


class Memory(Active):
    """Draw as `active` does, always from all items, with forecasts that know what an item answered before.

    Theorem. Item i has a rate mu_i, the mean score of a fresh answer, and the target is R = sum pi_i mu_i. Given the
    past, let g and q depend on it alone, with q > 0 wherever pi > 0; draw I ~ q, and let the answer z have mean mu_I
    given I and the past. Then X = sum pi g + (z - g_I) pi_I / q_I has E[X | past] = sum pi g + sum pi (mu - g) = R, and
    the interval holds as for any such increments (`stats.interval`). An item's own earlier answers are part of the
    past. What is assumed is that answers are fresh: how an item answers must not depend on how often it was asked.

    The variance of X has a part between items, which forecasts take away once the items were met, and one within them,
    which stays: pi_i^2 mu_i (1 - mu_i) / q_i for answers of 0 or 1. It is least for q in proportion to
    pi_i sqrt(mu_i (1 - mu_i)) (Neyman 1934), which the forecast's spread stands for here, with a floor.

    The stated variance of an increment is the one expected, not one that is the same on average at all times: it falls
    as items are met again, so that what is learnt late counts for more and horizons in information come sooner.
    """

    name: ClassVar[str] = "memory"

    def __init__(
        self, setting: Setting, tuning: Tuning | None = None, predictor: Remembering | None = None
    ) -> None:
        if setting.target != "expected":
            raise InvalidInput("method", "another one where no item is asked twice", self.name)
        self._own = predictor or remembering(setting.pool)
        super().__init__(setting, tuning or REMEMBERING, self._own)
        self._pace, self._calibrated = OFTEN, False

    def _block_weights(self, block: int) -> Floats:
        """Where a side is asked for, those of `active`: how long an increment may be depends on how far the mark is."""
        fit = self._basis(block).fit
        if fit is None or self.aim.marks:
            return super()._block_weights(block)
        return self._weights_for(fit.forecast.spread)

    def _weights_for(self, spread: Floats) -> Floats:
        shares = self.tally.shares
        return np.asarray(shares * ((1 - FLOOR) * spread / (shares @ spread) + FLOOR))

    def _variance(self, spread: Floats, weights: Floats) -> float:
        shares = self.tally.shares
        drawable = (shares > 0) & (weights > 0)
        return float(weights.sum() * (shares[drawable] ** 2 / weights[drawable] @ spread[drawable] ** 2))

    def _clipped(self, forecast: Forecast, half_width: float | None) -> Forecast:
        """The forecast as it is, where that is expected to save answers, else one for all items: slightly wrong ones
        would add the variance that they are meant to take away, and horizons are the tighter the surer it is.
        """
        mean, most = self._own.alike(forecast)
        if self._variance(forecast.spread, self._weights_for(forecast.spread)) < UNEVEN * most:
            return super()._clipped(forecast, half_width) if self.aim.marks else forecast
        alike = np.ones(len(forecast.mean))
        return replace(forecast, mean=mean * alike, spread=np.sqrt(most) * alike)

    def _outlook(self, fit: Fit, weights: Floats) -> Outlook:
        """State the variance in units of that of one forecast for all items, whose spread is 1/2 by convention."""
        forecast = fit.forecast
        spread = forecast.spread * (0.5 / np.sqrt(self._own.alike(forecast)[1]))
        uneven = abs(4 * self._variance(spread, weights) - 1) > ALIKE
        return Outlook(forecast.mean, spread, weights, uneven=uneven)
