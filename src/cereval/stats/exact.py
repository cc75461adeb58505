"""Exact intervals for 0/1 scores at one n planned in advance: hypergeometric and Clopper-Pearson.

Theorem (Clopper and Pearson 1934; for finite pools Chung and DeLury 1950, Wright 1991). Let the model be
right on `size * mean` of the pool's items and X be the number right among n drawn uniformly. The values whose
two one-sided tests at delta/2 both accept the seen count hold the truth with probability >= 1 - delta.
Assumes scores 0 or 1, uniform draws and an n fixed before the first one: looking earlier, and stopping
because of it, is not covered (guarantee `fixed-n`). Here they are the yardstick for methods that may stop at
any time.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import betaincinv

from cereval.errors import InvalidInput
from cereval.records import Interval
from cereval.stats.paper_bounds import check_delta, check_eps, first_count

SLACK = 1e-6
"""A tail probability counts as larger by this share than it was computed: numerical error widens."""
ROUNDING = 1e-12

ExactInterval = Callable[[int, int], Interval]
"""(right, n) -> interval."""


def hypergeometric_interval(right: int, n: int, size: int, delta: float) -> Interval:
    """The interval for the mean of `size` 0/1 scores when n of them, drawn uniformly, had `right` ones.

    The smallest and largest K/size with P(X >= right) > delta/2 and P(X <= right) > delta/2 under K ones.

    >>> hypergeometric_interval(820, 1640, 5000, 0.05)
    Interval(lower=0.48, upper=0.52)
    >>> hypergeometric_interval(3, 4, 4, 0.05)
    Interval(lower=0.75, upper=0.75)
    """
    _check_counts(right, n, size)
    lower = _fewest_ones(right, n, size, check_delta(delta) / 2)
    # Ones and zeros change roles: the most ones that fit is what the fewest zeros leave.
    upper = size - _fewest_ones(n - right, n, size, delta / 2)
    return Interval(lower / size, upper / size)


def clopper_pearson(right: int, n: int, delta: float) -> Interval:
    """The interval for a probability when n independent draws had `right` successes.

    The tails are beta functions: lower = B(delta/2; x, n - x + 1), upper = B(1 - delta/2; x + 1, n - x).

    >>> interval = clopper_pearson(0, 100, 0.05)
    >>> interval.lower, round(interval.upper, 4)
    (0.0, 0.0362)
    """
    _check_counts(right, n, n)
    tail = check_delta(delta) / 2
    lower = 0.0 if right == 0 else float(betaincinv(right, n - right + 1, tail))
    upper = 1.0 if right == n else float(betaincinv(right + 1, n - right, 1 - tail))
    return Interval(max(lower - ROUNDING, 0.0), min(upper + ROUNDING, 1.0))


def hypergeometric_items(mean: float, eps: float, delta: float, size: int) -> int:
    """The n at which the exact interval of a typical draw gets down to a half-width of eps.

    Typical: the count is n * mean, and the half-width that of the two nearest whole counts, weighted by how
    near they are (with the count rounded instead, the width is a saw-tooth in n). Limits lie on the lattice K/size, so
    the width still jitters by 1/size, and n by a few items; bisection finds one of them.

    >>> [hypergeometric_items(mean, 0.02, 0.05, 5000) for mean in (0.5, 0.1, 0.03)]
    [1634, 774, 313]
    """
    _check_mean(mean)
    check_eps(eps)

    def interval(right: int, n: int) -> Interval:
        return hypergeometric_interval(right, n, size, delta)

    def reached(n: int) -> bool:
        return n >= size or _typical_half_width(interval, mean, n) <= eps + ROUNDING

    return first_count(reached)


def clopper_pearson_items(mean: float, eps: float, delta: float) -> int:
    """`hypergeometric_items` for a pool without end.

    >>> clopper_pearson_items(0.5, 0.05, 0.05)
    402
    """
    _check_mean(mean)
    check_eps(eps)
    return first_count(
        lambda n: _typical_half_width(lambda right, n: clopper_pearson(right, n, delta), mean, n) <= eps
    )


def exact_test_items(mean: float, threshold: float, delta: float, size: int | None) -> int | None:
    """The n at which the exact one-sided test at level delta tells a typical draw from the threshold.

    Typical: a count of n * mean, rounded towards the threshold. None when mean and threshold are equal: no
    number of draws decides. `size` None: a pool without end.

    >>> exact_test_items(0.85, 0.8, 0.05, 2000)
    190
    """
    _check_mean(mean)
    if mean == threshold:
        return None

    def interval(right: int, n: int) -> Interval:
        one_sided = min(2 * delta, 1 - 1e-9)
        if size is None:
            return clopper_pearson(right, n, one_sided)
        return hypergeometric_interval(right, n, size, one_sided)

    def decided(n: int) -> bool:
        n = n if size is None else min(n, size)
        right = math.floor(n * mean) if mean > threshold else math.ceil(n * mean)
        return n == size or threshold not in interval(right, n)

    return first_count(decided)


def _typical_half_width(interval: ExactInterval, mean: float, n: int) -> float:
    below = min(math.floor(n * mean + ROUNDING), n)
    share = max(n * mean - below, 0.0)
    width = interval(below, n).half_width
    return width if share < ROUNDING else (1 - share) * width + share * interval(below + 1, n).half_width


def _fewest_ones(right: int, n: int, size: int, tail: float) -> int:
    """The smallest K with P(X >= right | K ones) > tail; that probability grows with K."""
    low, high = right - 1, size - n + right
    while high - low > 1:
        middle = (low + high) // 2
        accepted = _upper_tail(right, n, size, middle) * (1 + SLACK) > tail
        low, high = (low, middle) if accepted else (middle, high)
    return high


def _upper_tail(right: int, n: int, size: int, ones: int) -> float:
    """P(X >= right), X the ones among n of `size` items of which `ones` are ones; never too small.

    Log-concave terms: once they fall they fall ever faster, so what the cut (some 40 standard deviations on)
    leaves out is below a geometric series, which is added. Terms that still grow at the cut lie far below the
    mean.
    """
    if right <= max(0, n - (size - ones)):
        return 1.0
    last = min(n, ones)
    cut = min(last, right + 64 + 20 * math.isqrt(n))
    count = np.arange(right, cut, dtype=np.float64)
    ratios = (ones - count) * (n - count) / ((count + 1) * (size - ones - n + count + 1))
    first = _log_choose(ones, right) + _log_choose(size - ones, n - right) - _log_choose(size, n)
    terms = np.exp(first + np.concatenate(([0.0], np.cumsum(np.log(ratios)))))
    if cut == last:
        return min(float(terms.sum()), 1.0)
    fall = float(ratios[-1])
    return 1.0 if fall >= 1 else min(float(terms.sum() + terms[-1] * fall / (1 - fall)), 1.0)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _check_counts(right: int, n: int, size: int) -> None:
    if not 1 <= n <= size:
        raise InvalidInput("n", f"in 1..{size}", n)
    if not 0 <= right <= n:
        raise InvalidInput("right", f"in 0..{n}", right)


def _check_mean(mean: float) -> None:
    if not 0 <= mean <= 1:
        raise InvalidInput("mean", "in [0, 1]", mean)
