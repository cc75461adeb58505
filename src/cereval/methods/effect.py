"""Estimate what side information was worth, in calls: how many would uniform draws have taken to the same interval?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cereval.methods.base import Setting
from cereval.stats.planning import deadline_draws
from cereval.stats.scenario import Scenario
from cereval.stats.shift import weighted_calls

Floats = NDArray[np.float64]

NOTICEABLE = 0.05
"""Differences below this share are within the error of the estimate."""


def uniform_calls(scores: Floats, importance: Floats, half_width: float, setting: Setting) -> int | None:
    """Return the calls that draws without side information are expected to take to this half-width.

    None where a pool is too small. importance: 1 / probability of each draw relative to uniform draws, so that the
    variance is that of all items and not of the hard ones that were drawn more often.

    >>> from cereval.forecasts.pool import Pool
    >>> from cereval.methods.base import Aim
    >>> setting = Setting(Pool(5000), "benchmark", 0.05, seed=0, aim=Aim(0.02))
    >>> uniform_calls(np.array([0.0, 1.0] * 50), np.ones(100), 0.02, setting)
    1729
    """
    mean = np.average(scores, weights=importance)
    variance = min(float(np.average((scores - mean) ** 2, weights=importance)), 0.25)
    pool, target, delta = setting.pool, setting.target, setting.delta
    scenario = Scenario(pool.size, target=target, variance=variance)
    draws = deadline_draws(variance, scenario.skew, half_width, delta)
    if pool.weights is not None and target == "benchmark":
        return weighted_calls(pool.weights, draws)
    return scenario.calls(draws)


def effect_note(calls: int, uniform: int | None) -> str | None:
    """Return the effect in words; None where there is nothing to compare with.

    >>> effect_note(1000, 2000)
    '1,000 calls, where uniform draws would have taken about 2,000: about 50% saved'
    >>> effect_note(1000, 990)
    '1,000 calls, about as many as uniform draws would have taken'
    """
    if uniform is None:
        return None
    saved = 1 - calls / uniform
    if saved < NOTICEABLE:
        return f"{calls:,} calls, about as many as uniform draws would have taken"
    return f"{calls:,} calls, where uniform draws would have taken about {uniform:,}: about {saved:.0%} saved"
