"""The paper's confidence radii: adaptive Hoeffding (Seq), adaptive Bernstein (Cer-Eval), fixed-n Hoeffding.

Conventions. The paper writes `log` inside `ln(log(n) + 1)`: it is log2, because the proof cuts time at powers
of two. `n` may be an array. Radii are for a mean of values in [0, 1].

Why they also hold for draws without replacement (target `benchmark`). The mean of the first n draws is a
reverse martingale, so Doob's inequality bounds the largest later deviation by the moment generating function
at the *start* of a block 2^l .. 2^(l+1), and that function is at most the one of independent draws
(Hoeffding 1963, theorem 4). Summed over blocks this gives less than the paper's delta/2 for each side.

References: Zhao, Zhou, Sabharwal and Ermon 2016 (adaptive Hoeffding); Hoeffding 1963; Boucheron, Lugosi and
Massart 2013, theorems 2.8 and 2.10; the paper's lemmas B.3 and B.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cereval.errors import InvalidInput

Floats = NDArray[np.float64]


def check_delta(delta: float) -> float:
    """delta itself, when it is a failure probability."""
    if not 0 < delta < 1:
        raise InvalidInput("delta", "in (0, 1)", delta)
    return delta


def check_eps(eps: float) -> float:
    """eps itself, when it is a half-width."""
    if not 0 < eps < 1:
        raise InvalidInput("eps", "in (0, 1)", eps)
    return eps


def iterated_log(n: ArrayLike, budget: float) -> Floats:
    """u_n = 2 ln(log2(n) + 1) + budget, the price of looking at every n >= 1.

    sum over l >= 0 of exp(-u_(2^l)) = exp(-budget) pi^2/6: with budget = ln(4/delta) at most .42 delta.
    """
    return np.asarray(2.0 * np.log(np.log2(np.asarray(n, dtype=np.float64)) + 1.0) + budget)


def adaptive_hoeffding(n: ArrayLike, delta: float) -> Floats:
    """eps_n of Seq: P(exists n: |mean_n - R| >= eps_n) <= .83 delta.

    Theorem (lemma B.3, with S_n the plain sum: the printed n^-1 is a misprint). Assumes values in [0, 1],
    independent or drawn without replacement, in random order. It ignores the data: for a given eps the
    stopping time is a constant.

    >>> bool(adaptive_hoeffding(3798, 0.05) > 0.05 >= adaptive_hoeffding(3799, 0.05))
    True
    """
    return np.asarray(
        np.sqrt(iterated_log(n, math.log(4 / check_delta(delta))) / np.asarray(n, dtype=np.float64))
    )


def adaptive_bernstein(n: ArrayLike, variance: ArrayLike, delta: float, bound: float = 1.0) -> Floats:
    """eps_n of lemma B.5: P(exists n: mean_n - R >= eps_n) <= delta/2 when the variance is *known*.

    The lemma's v_2n, the summed variance of 2n draws, is 2 n `variance` for identically distributed draws;
    values lie at most `bound` above zero.

    >>> bool(adaptive_bernstein(1000, 0.01, 0.05) < adaptive_hoeffding(1000, 0.05))
    True
    """
    count = np.asarray(n, dtype=np.float64)
    u = iterated_log(count, math.log(4 / check_delta(delta)))
    summed = 2.0 * count * np.asarray(variance, dtype=np.float64)
    return np.asarray((bound * u + np.sqrt((bound * u) ** 2 + 18.0 * summed * u)) / (3.0 * count))


def group_radius(n: ArrayLike, variance: ArrayLike, n_groups: ArrayLike, delta: float) -> Floats:
    """eps_k of Algorithm 2: the radius of one group's mean when its variance is estimated too.

        eta = sqrt((2 ln(log2 n + 1) + ln(16 K/delta))/n)
        eps = 2 eta^2/3 + 2 sqrt((v + eta + eta^2) eta^2)

    Theorem (proof of theorem 5.2). For K groups fixed in advance and uniform draws inside each, all K means
    stay within their eps_k for all n at once with probability >= 1 - 3 delta/4. `variance` is the empirical
    one with divisor n. A group without draws has radius 1, and so has one whose formula exceeds 1: a mean in
    [0, 1] cannot be further off.

    >>> float(group_radius(0, 0.0, 3, 0.05))
    1.0
    >>> bool(group_radius(5722, 0.0, 1, 0.05) > 0.02 >= group_radius(5723, 0.0, 1, 0.05))
    True
    """
    eta2 = _eta_squared(n, n_groups, delta)
    eta = np.sqrt(eta2)
    radius = 2.0 * eta2 / 3.0 + 2.0 * np.sqrt((np.asarray(variance) + eta + eta2) * eta2)
    return np.asarray(np.where(np.asarray(n) > 0, np.minimum(radius, 1.0), 1.0))


def group_slope(n: ArrayLike, variance: ArrayLike, n_groups: ArrayLike, delta: float) -> Floats:
    """-d eps_k/d n_k, the decrease of the (uncapped) radius per further draw; infinite for n = 0.

    The paper's argmax of d eps/d n is over negative numbers: what it must look for is the largest decrease.
    With h = eta^2 = u/n:  dh/dn = (n u' - u)/n^2,  u' = 2/((log2 n + 1) n ln 2),
    d eps/dh = 2/3 + (v + 3/2 sqrt(h) + 2 h)/sqrt((v + sqrt(h) + h) h).

    >>> gap = float(group_radius(1000, 0.1, 2, 0.05) - group_radius(1001, 0.1, 2, 0.05))
    >>> abs(gap / float(group_slope(1000.5, 0.1, 2, 0.05)) - 1) < 1e-4
    True
    """
    count = np.maximum(np.asarray(n, dtype=np.float64), 1.0)
    h = _eta_squared(count, n_groups, delta)
    root, v = np.sqrt(h), np.asarray(variance, dtype=np.float64)
    step = (h - 2.0 / ((np.log2(count) + 1.0) * count * math.log(2))) / count
    gain = 2.0 / 3.0 + (v + 1.5 * root + 2.0 * h) / np.sqrt((v + root + h) * h)
    return np.asarray(np.where(np.asarray(n) > 0, step * gain, np.inf))


def group_decrease(n: ArrayLike, variance: ArrayLike, n_groups: ArrayLike, delta: float) -> Floats:
    """eps_k(n) - eps_k(n + 1) at an unchanged variance: the exact form of `group_slope`.

    >>> bool(group_decrease(500, 0.1, 2, 0.05) > group_decrease(501, 0.1, 2, 0.05) > 0)
    True
    """
    here = group_radius(n, variance, n_groups, delta)
    return np.asarray(here - group_radius(np.asarray(n) + 1, variance, n_groups, delta))


def hoeffding(n: ArrayLike, delta: float, *, two_sided: bool = True) -> Floats:
    """Fixed-n Hoeffding: sqrt(ln(sides/delta)/(2n)).

    Theorem (Hoeffding 1963). At one n planned in advance, |mean_n - R| <= radius with probability
    >= 1 - delta. The paper's eps* = sqrt(ln(1/delta)/(2n)) is the one-sided radius (`two_sided=False`): used
    on both sides it is proven only at 1 - 2 delta.

    >>> round(float(hoeffding(5000, 0.05, two_sided=False)), 4)
    0.0173
    """
    sides = 2.0 if two_sided else 1.0
    return np.asarray(np.sqrt(math.log(sides / check_delta(delta)) / (2.0 * np.asarray(n, dtype=np.float64))))


def hoeffding_items(eps: float, delta: float, *, two_sided: bool = True) -> int:
    """Smallest n whose fixed-n radius is at most eps.

    >>> hoeffding_items(0.05, 0.05)
    738
    """
    sides = 2.0 if two_sided else 1.0
    return math.ceil(math.log(sides / check_delta(delta)) / (2.0 * check_eps(eps) ** 2))


def adaptive_hoeffding_items(eps: float, delta: float) -> int:
    """Where Seq stops, whatever the data: the smallest n with eps_n <= eps.

    eps_n decreases over n = 1, 2, ... for every delta < 1, so bisection finds it.

    >>> adaptive_hoeffding_items(0.05, 0.05)
    3799
    """
    check_eps(eps)
    return first_count(lambda n: float(adaptive_hoeffding(n, delta)) <= eps)


def group_items(eps: float, delta: float, *, variance: float = 0.0, n_groups: int = 1) -> int:
    """Smallest n at which one group of empirical variance `variance` has radius at most eps.

    >>> group_items(0.02, 0.05)
    5723
    """
    check_eps(eps)
    return first_count(lambda n: float(group_radius(n, variance, n_groups, delta)) <= eps)


def first_count(reached: Callable[[int], bool]) -> int:
    """The smallest n >= 1 with `reached(n)`, for a condition that stays true once it is."""
    high = 1
    while not reached(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def worst_variance(n: ArrayLike, total: ArrayLike, squares: ArrayLike, unknown: ArrayLike) -> Floats:
    """The largest empirical variance that n values can have when `unknown` of them may be anything in [0, 1].

    `total` and `squares` are the sums over the known ones. The variance is convex in each value, so the
    extreme has m of the unknown values at 1 and the others at 0:
    (squares + m)/n - ((total + m)/n)^2 is concave in m with its peak at m = n/2 - total.

    >>> float(worst_variance(4, 2.0, 2.0, 0)), float(worst_variance(2, 0.0, 0.0, 1))
    (0.25, 0.25)
    """
    count = np.maximum(np.asarray(n, dtype=np.float64), 1.0)
    ones = np.clip(count / 2.0 - np.asarray(total), 0.0, np.asarray(unknown, dtype=np.float64))
    mean = (np.asarray(total) + ones) / count
    return np.asarray(np.maximum((np.asarray(squares) + ones) / count - mean**2, 0.0))


def _eta_squared(n: ArrayLike, n_groups: ArrayLike, delta: float) -> Floats:
    count = np.maximum(np.asarray(n, dtype=np.float64), 1.0)
    budget = np.log(16.0 * np.asarray(n_groups, dtype=np.float64) / check_delta(delta))
    return np.asarray((2.0 * np.log(np.log2(count) + 1.0) + budget) / count)
