"""The paper's confidence radii, and what its theorems promise: adaptive Hoeffding (Seq), adaptive Bernstein (Cer-Eval).

Conventions. The paper writes `log` inside `ln(log(n) + 1)`: it is log2, because the proof cuts time at powers
of two. `n` may be an array. Radii are for a mean of values in [0, 1]. `eps` is a half-width, `delta` a failure
probability. Where the paper states only an order, the field is called `order` and its constant is unknown.

Why the radii also hold for draws without replacement (target `benchmark`). The mean of the first n draws is a
reverse martingale, so Doob's inequality bounds the largest later deviation by the moment generating function
at the *start* of a block 2^l .. 2^(l+1), and that function is at most the one of independent draws
(Hoeffding 1963, theorem 4). Summed over blocks this gives less than the paper's delta/2 for each side.

References: Zhao, Zhou, Sabharwal and Ermon 2016 (adaptive Hoeffding); Hoeffding 1963; Boucheron, Lugosi and
Massart 2013, theorems 2.8 and 2.10; the paper's lemmas B.3 and B.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cereval.arrays import Floats
from cereval.errors import InvalidInput


def check_delta(delta: float) -> float:
    if not 0 < delta < 1:
        raise InvalidInput("delta", "in (0, 1)", delta)
    return delta


def check_eps(eps: float) -> float:
    if not 0 < eps < 1:
        raise InvalidInput("eps", "in (0, 1)", eps)
    return eps


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


# -- radii ------------------------------------------------------------------------------------------------------------


def iterated_log(n: ArrayLike, budget: float | Floats) -> Floats:
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
    u = iterated_log(n, math.log(4 / check_delta(delta)))
    return np.asarray(np.sqrt(u / np.asarray(n, dtype=np.float64)))


def adaptive_hoeffding_items(eps: float, delta: float) -> int:
    """Where Seq stops, whatever the data: the smallest n with eps_n <= eps."""
    check_eps(eps)
    return first_count(lambda n: float(adaptive_hoeffding(n, delta)) <= eps)


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
    """
    count = np.maximum(np.asarray(n, dtype=np.float64), 1.0)
    h = _eta_squared(count, n_groups, delta)
    root, v = np.sqrt(h), np.asarray(variance, dtype=np.float64)
    step = (h - 2.0 / ((np.log2(count) + 1.0) * count * math.log(2))) / count
    gain = 2.0 / 3.0 + (v + 1.5 * root + 2.0 * h) / np.sqrt((v + root + h) * h)
    return np.asarray(np.where(np.asarray(n) > 0, step * gain, np.inf))


def _eta_squared(n: ArrayLike, n_groups: ArrayLike, delta: float) -> Floats:
    count = np.maximum(np.asarray(n, dtype=np.float64), 1.0)
    budget = np.log(16.0 * np.asarray(n_groups, dtype=np.float64) / check_delta(delta))
    return np.asarray(iterated_log(count, budget) / count)


def group_items(eps: float, delta: float, *, variance: float = 0.0, n_groups: int = 1) -> int:
    check_eps(eps)
    return first_count(lambda n: float(group_radius(n, variance, n_groups, delta)) <= eps)


def hoeffding(n: ArrayLike, delta: float, *, two_sided: bool = True) -> Floats:
    """Fixed-n Hoeffding: sqrt(ln(sides/delta)/(2n)).

    Theorem (Hoeffding 1963). At one n planned in advance, |mean_n - R| <= radius with probability
    >= 1 - delta. The paper's eps* = sqrt(ln(1/delta)/(2n)) is the one-sided radius (`two_sided=False`): used
    on both sides it is proven only at 1 - 2 delta.
    """
    sides = 2.0 if two_sided else 1.0
    return np.asarray(np.sqrt(math.log(sides / check_delta(delta)) / (2.0 * np.asarray(n, dtype=np.float64))))


def hoeffding_items(eps: float, delta: float) -> int:
    return math.ceil(math.log(2.0 / check_delta(delta)) / (2.0 * check_eps(eps) ** 2))


def worst_variance(n: ArrayLike, total: ArrayLike, squares: ArrayLike, unknown: ArrayLike) -> Floats:
    """The largest empirical variance that n values can have when `unknown` of them may be anything in [0, 1].

    `total` and `squares` are the sums over the known ones. The variance is convex in each value, so the
    extreme has m of the unknown values at 1 and the others at 0:
    (squares + m)/n - ((total + m)/n)^2 is concave in m with its peak at m = n/2 - total.
    """
    count = np.maximum(np.asarray(n, dtype=np.float64), 1.0)
    ones = np.clip(count / 2.0 - np.asarray(total), 0.0, np.asarray(unknown, dtype=np.float64))
    mean = (np.asarray(total) + ones) / count
    return np.asarray(np.maximum((np.asarray(squares) + ones) / count - mean**2, 0.0))


# -- theorem 4.2 ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SequentialBounds:
    """Theorem 4.2 at one (eps, delta): what looking at every n costs without any knowledge of the data.

    fixed_n: two-sided Hoeffding at one planned n, for comparison. stopping_time: where Seq stops exactly.
    upper: the proof's n' = 12 (ln(4/delta) + ln ln(1/eps))/eps^2.
    order: (ln(1/delta) + ln ln(1/eps))/eps^2, of which no certified algorithm needs only a vanishing share.
    """

    eps: float
    delta: float
    fixed_n: int
    stopping_time: int
    upper: float
    order: float


def sequential_bounds(eps: float, delta: float) -> SequentialBounds:
    """Theorem 4.2. Assumes only losses in [0, 1].

    The printed lower bound has its condition inverted: what cannot be certified is an n' whose ratio to
    `order` tends to *zero*, as the proof says. ln ln(1/eps) is taken as 0 above 1/e, where it is negative.
    """
    iterated = max(math.log(math.log(1 / check_eps(eps))), 0.0)
    return SequentialBounds(
        eps=eps,
        delta=check_delta(delta),
        fixed_n=hoeffding_items(eps, delta),
        stopping_time=adaptive_hoeffding_items(eps, delta),
        upper=12 * (math.log(4 / delta) + iterated) / eps**2,
        order=(math.log(1 / delta) + iterated) / eps**2,
    )


# -- partitions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupCheck:
    """One group of a partition against the condition of definition 5.1: `mass` >= `required`."""

    mass: float
    variance: float
    required: float

    @property
    def benign(self) -> bool:
        return self.mass >= self.required


@dataclass(frozen=True, slots=True)
class PartitionCheck:
    """Whether a partition is benign at eps, and the saving ratio rho of theorem 5.2.

    rho is the order of n'/n, without its constant: the share of Seq's items that Algorithm 2 needs. Summing
    the condition over groups shows that a benign partition always has rho <= 1. `floor` = eps^(2/3) is the
    price of estimating variances: a group counts as if it had at least that variance.
    """

    eps: float
    floor: float
    rho: float
    groups: tuple[GroupCheck, ...]

    @property
    def benign(self) -> bool:
        return all(group.benign for group in self.groups)


def check_partition(masses: ArrayLike, variances: ArrayLike, eps: float) -> PartitionCheck:
    """Definition 5.1 and theorem 5.2 for groups with masses n_k/n and loss variances v_k.

        benign:  n_k/n >= ln(K + 1) max(v_k, eps^(2/3)) for every k
        rho   =  ln(K + 1) sum_k max(v_k, eps^(2/3))

    >>> check = check_partition([0.5, 0.5], [0.02, 0.02], eps=0.05)
    >>> check.benign, round(check.rho, 3)
    (True, 0.298)
    >>> check_partition([0.9, 0.1], [0.25, 0.25], eps=0.05).benign
    False
    """
    mass, variance = _check_groups(masses, variances)
    floor = check_eps(eps) ** (2 / 3)
    required = math.log(len(mass) + 1) * np.maximum(variance, floor)
    groups = tuple(GroupCheck(*map(float, row)) for row in zip(mass, variance, required, strict=True))
    return PartitionCheck(eps, floor, float(required.sum()), groups)


def partition_items(masses: ArrayLike, variances: ArrayLike, eps: float, delta: float) -> int:
    """Items that Algorithm 2 needs with its printed constants, for groups that never run out.

    The smallest total of the n_k with sum_k mass_k eps_k(n_k) <= eps. At the optimum all groups have the same
    decrease mass_k |d eps_k/d n_k|, which is where the algorithm's choice of groups drifts to.
    """
    mass, variance = _check_groups(masses, variances)
    check_eps(eps)

    def counts(decrease: float) -> Floats:
        """Where each group's weighted radius falls by `decrease` per item."""
        low, high = np.ones(len(mass)), np.full(len(mass), 2.0**50)
        for _ in range(60):
            middle = np.floor((low + high) / 2)
            steep = mass * group_slope(middle, variance, len(mass), delta) > decrease
            low, high = np.where(steep, middle, low), np.where(steep, high, middle)
        return high

    def radius(decrease: float) -> float:
        return float(mass @ group_radius(counts(decrease), variance, len(mass), delta))

    low, high = 1e-9, 1.0
    while radius(low) > eps:
        low /= 1e3
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if radius(middle) <= eps else (low, middle)
    return int(counts(low).sum())


def _check_groups(masses: ArrayLike, variances: ArrayLike) -> tuple[Floats, Floats]:
    mass = np.atleast_1d(np.asarray(masses, dtype=np.float64))
    variance = np.atleast_1d(np.asarray(variances, dtype=np.float64))
    if mass.ndim != 1 or mass.shape != variance.shape:
        raise InvalidInput("variances", f"one for each of the {mass.size} masses", f"shape {variance.shape}")
    if not (mass >= 0).all() or not math.isclose(float(mass.sum()), 1.0, abs_tol=1e-6):
        raise InvalidInput("masses", ">= 0 with sum 1", masses)
    if not ((variance >= 0) & (variance <= 0.25)).all():
        raise InvalidInput("variances", "in [0, 1/4]", variances)
    return mass, variance
