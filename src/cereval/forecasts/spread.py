"""Estimate how far a score may fall from its forecast, and the draw weights that follow from it.

With draws in proportion to w (mean 1 over the unseen items), one increment of the certified estimator has

    variance  mean(v / w)         v = expected squared error of the forecast on an item
    range     max(g / w) below,  max((1 - g) / w) above

The variance alone would ask for w in proportion to sqrt(v). But a bet lambda needs lambda x range < 1, and
the bets that end a run at half-width eps have lambda near 1.4 eps / variance, so a range beyond about
variance / (2 eps) costs more than it saves: confident items must keep a floor under their weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MIN_VARIANCE = 1e-4
MAX_VARIANCE = 0.25
# Prior of (log level, power): v = g (1 - g), as for calibrated forecasts of 0/1 scores.
PRIOR_MEAN = np.array([0.0, 1.0])
PRIOR_PRECISION = np.array([1.0, 10.0])
NEAR_MODE = 0.1
CONVERGED = 1e-6
"""A Newton step shorter than this is the last: the next would be of the order of its square (see `logistic`)."""
# Range allowed, in units of variance / eps, and at least. With `benchmarks.side_information`: calls are flat from .45
# to .6 and from 1.15 to 1.25; a longer range saves more variance and ruins more accounts.
REACH = 0.55
MIN_REACH = 1.2


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """Expected squared error exp(level) (g (1 - g))^power: power 0 is a constant, power 1 a scaled Bernoulli.

    >>> PowerLaw().variance(np.array([0.5, 0.9])).round(2).tolist()
    [0.25, 0.09]
    """

    level: float = 0.0
    power: float = 1.0

    def variance(self, mean: Floats) -> Floats:
        power = min(max(self.power, 0.0), 2.0)
        return np.clip(np.exp(self.level + power * log_bernoulli(mean)), MIN_VARIANCE, MAX_VARIANCE)


def log_bernoulli(mean: Floats) -> Floats:
    """Return log g (1 - g), with g kept a little away from 0 and 1, where squared errors are anyone's guess."""
    return np.asarray(np.log(np.maximum(mean * (1.0 - mean), 0.004)))


def fit_power_law(means: Floats, squares: Floats, start: PowerLaw) -> PowerLaw:
    """Return the posterior mode given forecasts and the squared errors that they went on to make.

    Gamma quasi-likelihood, half of log v + square / v per result: convex in (level, power).

    >>> fit_power_law(np.full(500, 0.5), np.full(500, 0.01), PowerLaw()).variance(np.array([0.5])).round(3)
    array([0.01])
    """
    rows = np.column_stack([np.ones(len(means)), log_bernoulli(means)])
    at, moved = np.array([start.level, start.power]), np.inf
    for _ in range(20):
        ratio = squares * np.exp(-rows @ at)
        slope = 0.5 * rows.T @ (1.0 - ratio) + PRIOR_PRECISION * (at - PRIOR_MEAN)
        # Far from the mode Fisher scoring (expected ratio 1), with the observed ratio when that is larger: it never
        # overshoots far. Near it Newton's steps, whose error is squared each time.
        certainty = ratio if moved < NEAR_MODE else np.maximum(ratio, 1.0)
        curvature = 0.5 * (rows.T * certainty) @ rows + np.diag(PRIOR_PRECISION)
        step = np.linalg.solve(curvature, slope)
        at, moved = at - step, float(np.abs(step).max())
        if moved < CONVERGED:
            break
    return PowerLaw(float(at[0]), float(at[1]))


def draw_weights(
    mean: Floats,
    spread: Floats,
    eps: float | None,
    shares: Floats | None = None,
    least: float = MIN_REACH,
) -> Floats:
    """Return weights of the unseen items, share-weighted mean 1; draw item i with probability ~ shares_i weights_i.

    mean, spread: the forecast of each unseen item. shares: their parts in the target (None: equal parts of all of
    it). eps: the half-width aimed at (None: keep the range within twice that of uniform draws).
    least: the reach that is allowed in any case.

    >>> draw_weights(np.array([0.5, 0.99]), np.array([0.5, 0.1]), eps=0.01).round(2).tolist()
    [1.67, 0.33]
    """
    unseen = 1.0 if shares is None else float(shares.sum())
    part = np.full(len(mean), 1.0 / len(mean)) if shares is None else shares / unseen
    worst = np.maximum(mean, 1.0 - mean)
    variance = float(part @ spread**2)
    weights = np.ones(len(mean))
    for _ in range(3):
        # Of an unseen part u the variance counts u^2 and the range u: as if the goal were eps / u.
        reach = 2.0 if eps is None else max(REACH * unseen * variance / eps, least)
        weights = _fill(spread, worst / reach, part)
        variance = float(part @ (spread**2 / weights))
    return weights


def grading(scores: Floats) -> float:
    """Return the variance of scores as a share of that of 0/1 scores with the same mean; 1 until a score says
    otherwise.

    A score z in [0, 1] has E z^2 = E z - E z(1 - z), so its variance falls short of mean (1 - mean) by E z(1 - z).
    All scores count alike, however likely they were drawn.

    >>> grading(np.array([0.0, 1.0, 1.0])), round(grading(np.full(99, 0.5)), 1)
    (1.0, 0.0)
    """
    mean = (float(scores.sum()) + 0.5) / (len(scores) + 1.0)
    missing = float(scores @ (1.0 - scores)) / max(len(scores), 1)
    return max(1.0 - missing / (mean * (1.0 - mean)), 0.0)


def expected_squares(mean: Floats, held: Floats, grading: float) -> Floats:
    """Return E (z - held)^2 if the score z has this mean and the share `grading` of the variance of a 0/1 score."""
    return np.asarray(np.maximum(grading * mean * (1.0 - mean), MIN_VARIANCE) + (mean - held) ** 2)


def expected_level(squares: Floats, spread: Floats, shares: Floats, weights: Floats) -> float:
    """Return the mean square of (z - g) pi / q for these expected squares, in units of the one that `spread` states.

    >>> items = np.ones(2)
    >>> expected_level(np.array([0.1, 0.3]), 0.5 * items, items / 2, items)
    0.8
    """
    open_items = (shares > 0) & (weights > 0)
    leverage = shares[open_items] ** 2 / weights[open_items]
    return float(leverage @ squares[open_items] / (leverage @ spread[open_items] ** 2))


def _fill(spread: Floats, floor: Floats, part: Floats) -> Floats:
    """Return the weights max(c spread, floor) of mean 1: least variance among those above the floor."""
    if part @ floor >= 1.0:
        return np.asarray(floor / (part @ floor))
    ratio = floor / spread
    order = np.argsort(ratio, kind="stable")
    above = np.cumsum((part * spread)[order])
    below = part @ floor - np.cumsum((part * floor)[order])
    # With c = ratio[k] the weights of the first k items rise with c and the others rest on their floor.
    last = max(int(np.searchsorted(ratio[order] * above + below, 1.0)) - 1, 0)
    return np.asarray(np.maximum((1.0 - below[last]) / above[last] * spread, floor))
