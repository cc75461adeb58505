"""The draw probabilities: how far a score may fall from its forecast, and the draw weights that follow from it.

With draws in proportion to w (mean 1 over the unseen items), one increment of the certified estimator has

    variance  mean(v / w)         v = expected squared error of the forecast on an item
    range     max(g / w) below,  max((1 - g) / w) above

The variance alone would ask for w in proportion to sqrt(v). But a bet lambda needs lambda x range < 1, and
the bets that end a run at half-width eps have lambda near 1.4 eps / variance, so a range beyond about
variance / (2 eps) costs more than it saves: confident items must keep a floor under their weight, and one confident
forecast of .9 where the mean is .1 doubles the range for the sake of one item. So forecasts are clipped too
(`clip_forecasts`): hard for low or high means and coarse goals, not at all for small eps.

A ranking draws items on which past models disagreed (`race_weights`): an item on which all of them score alike tells no
two models apart. What an item says of a pair is its difference, so the best chances to draw it are in proportion to the
root of the pair's mean square there (Neyman 1934), and past models say what squares to expect. A past that has nothing
to do with the items costs calls and is never wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cereval.arrays import Floats

# -- how far a score falls from its forecast --------------------------------------------------------------------------

MIN_VARIANCE, MAX_VARIANCE = 1e-4, 0.25
PRIOR_MEAN, PRIOR_PRECISION = np.array([0.0, 1.0]), np.array([1.0, 10.0])
"""Prior of (log level, power): v = g (1 - g), as for calibrated forecasts of 0/1 scores."""
NEAR_MODE = 0.1
CONVERGED = 1e-6
"""A Newton step shorter than this is the last: the next would be of the order of its square (see `logistic`)."""


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
    """log g (1 - g), with g kept a little away from 0 and 1, where squared errors are anyone's guess."""
    return np.asarray(np.log(np.maximum(mean * (1.0 - mean), 0.004)))


def fit_power_law(means: Floats, squares: Floats, start: PowerLaw) -> PowerLaw:
    """The posterior mode given forecasts and the squared errors that they went on to make.

    Gamma quasi-likelihood, half of log v + square / v per result: convex in (level, power).
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


def grading(scores: Floats) -> float:
    """The variance of scores as a share of that of 0/1 scores with the same mean; 1 until a score says otherwise.

    A score z in [0, 1] has E z^2 = E z - E z(1 - z), so its variance falls short of mean (1 - mean) by E z(1 - z).
    All scores count alike, however likely they were drawn.
    """
    mean = (float(scores.sum()) + 0.5) / (len(scores) + 1.0)
    missing = float(scores @ (1.0 - scores)) / max(len(scores), 1)
    return max(1.0 - missing / (mean * (1.0 - mean)), 0.0)


def expected_errors(mean: Floats, clipped: Floats, grading: float) -> Floats:
    """E (z - clipped)^2 if the score z has this mean and the share `grading` of the variance of a 0/1 score."""
    return np.asarray(np.maximum(grading * mean * (1.0 - mean), MIN_VARIANCE) + (mean - clipped) ** 2)


def expected_level(errors: Floats, spread: Floats, shares: Floats, weights: Floats) -> float:
    """The mean square of (z - g) pi / q for these expected errors, in units of the one that `spread` states."""
    open_items = (shares > 0) & (weights > 0)
    leverage = shares[open_items] ** 2 / weights[open_items]
    return float(leverage @ errors[open_items] / (leverage @ spread[open_items] ** 2))


def scaled_spread(spread: Floats, shares: Floats) -> Floats:
    """The spread, scaled so that its share-weighted root mean square is 1/2."""
    return np.asarray(spread * (0.5 / np.sqrt(shares @ spread**2 / shares.sum())))


# -- draw weights -----------------------------------------------------------------------------------------------------

REACH, MIN_REACH = 0.55, 1.2
"""The range allowed, in units of variance / eps, and at least: calls are flat from .45 to .6 and from 1.15 to 1.25; a
longer range saves more variance and ruins more accounts (`benchmarks.side_information`)."""


def draw_weights(
    mean: Floats, spread: Floats, eps: float | None, shares: Floats | None = None, least: float = MIN_REACH
) -> Floats:
    """Weights of the unseen items, share-weighted mean 1; draw item i with probability ~ shares_i weights_i.

    mean, spread: the forecast of each unseen item. shares: their parts in the target (None: equal parts of all of
    it). eps: the half-width aimed at (None: keep the range within twice that of uniform draws).
    least: the range that is allowed in any case.

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
        weights = _weights_above(spread, worst / reach, part)
        variance = float(part @ (spread**2 / weights))
    return weights


def _weights_above(spread: Floats, floor: Floats, part: Floats) -> Floats:
    """The weights max(c spread, floor) of mean 1: least variance among those above the floor."""
    if part @ floor >= 1.0:
        return np.asarray(floor / (part @ floor))
    ratio = floor / spread
    order = np.argsort(ratio, kind="stable")
    above = np.cumsum((part * spread)[order])
    below = part @ floor - np.cumsum((part * floor)[order])
    # With c = ratio[k] the weights of the first k items rise with c and the others rest on their floor.
    last = max(int(np.searchsorted(ratio[order] * above + below, 1.0)) - 1, 0)
    return np.asarray(np.maximum((1.0 - below[last]) / above[last] * spread, floor))


# -- clipped forecasts ------------------------------------------------------------------------------------------------

VARIANCE_COST, RANGE_COST, FREE_REACH = 4.3, 2.0, 0.35
"""A run needs about VARIANCE_COST variance / eps^2 + RANGE_COST (reach - FREE_REACH variance / eps)+ / eps draws: the
price of the variance, and that of a range that limits the bets, of which so much is free. Costs of 1 to 8 differ by 3%
of the calls."""
STEPS = np.array([1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 20.0, 40.0])
"""Candidate limits in units of the mean forecast."""


@dataclass(frozen=True, slots=True, eq=False)
class ClippedForecasts:
    """Forecasts inside [low, high], and the spreads about them."""

    mean: Floats
    spread: Floats
    low: float
    high: float


def clip_forecasts(mean: Floats, spread: Floats, eps: float | None, shares: Floats) -> ClippedForecasts:
    """Forecasts of the open items, clipped to where they save calls; `eps` None leaves them alone.

    >>> mean, spread = np.array([0.9] + [0.05] * 99), np.full(100, 0.1)
    >>> clip_forecasts(mean, spread, 0.05, np.full(100, 0.01)).mean[:2].round(2).tolist()
    [0.07, 0.06]
    >>> clip_forecasts(mean, spread, 0.001, np.full(100, 0.01)).mean[:2].round(2).tolist()
    [0.9, 0.05]
    """
    if eps is None or not shares.any():
        return ClippedForecasts(mean, spread, 0.0, 1.0)
    part = shares / shares.sum()
    # Draws in proportion to the spread have the variance (mean spread)^2.
    # Of the unseen part u the variance counts u^2 and the reach u: as if the goal were eps / u.
    eps = eps / min(float(shares.sum()), 1.0)
    free = FREE_REACH * float(part @ spread) ** 2 / eps
    low, high = 1.0 - _cheapest_limit(1.0 - mean, eps, free, part), _cheapest_limit(mean, eps, free, part)
    clipped = np.clip(mean, low, high)
    wider = np.sqrt(spread**2 + (mean - clipped) ** 2)
    # Continuous in `clipped`: whether a forecast lies just on a limit is left to rounding.
    return ClippedForecasts(clipped, np.minimum(wider, np.maximum(spread, 0.5)), low, high)


def _cheapest_limit(reach: Floats, eps: float, free: float, part: Floats) -> float:
    """The limit of the reach on one side; never under the mean, so that the two sides cannot cross."""
    largest = float(reach[part > 0].max())
    limits = np.minimum(np.append(STEPS * float(part @ reach), largest), largest)
    lost = np.array([part @ np.maximum(reach - limit, 0.0) ** 2 for limit in limits])
    cost = VARIANCE_COST * lost / eps**2 + RANGE_COST * np.maximum(limits - free, 0.0) / eps
    return float(limits[int(np.argmin(cost))])


# -- rankings ---------------------------------------------------------------------------------------------------------

PRIOR = 3.0
"""Imagined past models that disagree as on the average item, added to those that scored an item: few say little."""
EVEN = 0.5
"""Added to all squares: the pairs that matter most are close, and disagree elsewhere than the average pair does."""
LEVELS = 8
"""Weights are rounded to so many levels, evenly spaced in logarithms: bets along the order sum over levels."""
DECIMALS = 9  # To which distances from levels are rounded before the nearest is chosen
ALIKE = 1e-9  # Squares that differ by less do not tell items apart
NOISE = 0.1  # The share of the square of a difference that is expected to be the same on all items


def expected_squares(history: Floats | None) -> Floats | None:
    """The mean square of two past models' difference on each item, 1 on average; None where the past does not tell
    items apart.

    history: items x past models, NaN where one was not asked.

    >>> expected_squares(np.array([[1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])).round(3).tolist()
    [1.5, 0.5]
    >>> expected_squares(np.array([[1.0, np.nan], [0.0, np.nan]])) is None
    True
    """
    if history is None:
        return None
    there = np.isfinite(history)
    count = there.sum(axis=1)
    mean = np.where(there, history, 0.0).sum(axis=1) / np.maximum(count, 1)
    spread = (np.where(there, history - mean[:, None], 0.0) ** 2).sum(axis=1)
    several = count > 1
    square = 2 * spread / np.maximum(count - 1, 1)
    usual = float(square[several].mean()) if several.any() else 0.0
    if usual <= 0.0:
        return None
    known = np.where(several, count, 0)
    found: Floats = (known * square / usual + PRIOR) / (known + PRIOR)
    return found if found.max() - found.min() > ALIKE else None


def race_weights(squares: Floats) -> Floats:
    """The weights with which items race to come first, in a few levels.

    >>> race_weights(np.array([0.0, 1.0, 4.0])).round(3).tolist()
    [0.707, 1.132, 2.121]
    """
    exact = np.sqrt(squares + EVEN)
    levels = np.geomspace(exact.min(), exact.max(), LEVELS)
    # Rounded, so that an item half-way between two levels has the lower one on every machine.
    nearest = np.abs(np.log(exact)[:, None] - np.log(levels)[None, :]).round(DECIMALS).argmin(axis=1)
    return np.asarray(levels[nearest])
