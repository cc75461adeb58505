"""The paper's theorems as numbers: how many items, and whether a partition helps.

Bounds with a constant are given with it; where the paper states only an order, the field is called `order`
and its constant is unknown. `eps` is the half-width, `delta` the failure probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cereval.errors import InvalidInput
from cereval.stats.concentration import (
    adaptive_hoeffding_items,
    check_delta,
    check_eps,
    group_radius,
    group_slope,
    hoeffding_items,
)

Floats = NDArray[np.float64]


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

    >>> bounds = sequential_bounds(0.05, 0.05)
    >>> bounds.fixed_n, bounds.stopping_time, round(bounds.upper), round(bounds.order)
    (738, 3799, 26300, 1637)
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
    mass, variance = _groups(masses, variances)
    floor = check_eps(eps) ** (2 / 3)
    required = math.log(len(mass) + 1) * np.maximum(variance, floor)
    groups = tuple(GroupCheck(*map(float, row)) for row in zip(mass, variance, required, strict=True))
    return PartitionCheck(eps, floor, float(required.sum()), groups)


def check_groups(scores: ArrayLike, groups: ArrayLike, eps: float) -> PartitionCheck:
    """`check_partition` for evaluated items and their labels: is this partition benign for my data?

    >>> check_groups([0.9, 0.8, 0.1, 0.2], ["easy", "easy", "hard", "hard"], eps=0.05).benign
    True
    """
    values, labels = np.asarray(scores, dtype=np.float64), np.asarray(groups)
    if values.shape != labels.shape or values.ndim != 1 or not len(values):
        raise InvalidInput(
            "groups", f"one label for each of the {values.size} scores", f"shape {labels.shape}"
        )
    members = [values[labels == label] for label in np.unique(labels)]
    return check_partition([len(m) / len(values) for m in members], [m.var() for m in members], eps)


def largest_benign(eps: float) -> int:
    """The largest K for which *any* partition into K groups can be benign: K ln(K + 1) eps^(2/3) <= 1.

    >>> largest_benign(0.02), largest_benign(0.1)
    (6, 3)
    """
    floor, k = check_eps(eps) ** (2 / 3), 1
    while (k + 1) * math.log(k + 2) * floor <= 1:
        k += 1
    return k


@dataclass(frozen=True, slots=True)
class SuperGaussian:
    """Corollary 5.3: the K that it allows at eps and what they promise.

    `smallest`..`largest` is the allowed range (empty when smallest > largest, or None when no K satisfies the
    mass condition below the search limit); `rho` = ln(K + 1)/K at the largest allowed K, without constant.
    """

    eps: float
    smallest: int | None
    largest: int
    rho: float | None

    @property
    def applies(self) -> bool:
        return self.rho is not None


def super_gaussian(height: float, sigma2: float, eps: float) -> SuperGaussian:
    """Corollary 5.3: losses with density >= A exp(-z^2/sigma^2) on [0, 1], cut into K equal intervals.

    Allowed: K/ln(K + 1) >= exp(1/sigma^2)/A and K <= eps^(-1/3). The interval of an item's loss is known only
    after evaluation, so this partition exists on paper: embeddings can at best approximate it.
    `sigma2` may be infinite (uniform losses).

    >>> super_gaussian(height=1.0, sigma2=math.inf, eps=0.001)
    SuperGaussian(eps=0.001, smallest=1, largest=10, rho=0.23978952727983707)
    >>> super_gaussian(height=0.5, sigma2=1.0, eps=0.02).applies
    False
    """
    if not height > 0 or not sigma2 > 0:
        raise InvalidInput("height and sigma2", "> 0", (height, sigma2))
    # Rounded before the floor: eps = .001 must give 10, and .001 ** (-1/3) is 9.999...
    largest = math.floor(round(check_eps(eps) ** (-1 / 3), 9))
    need = math.exp(1 / sigma2) / height
    smallest = next((k for k in range(1, largest + 1) if k / math.log(k + 1) >= need), None)
    rho = None if smallest is None else math.log(largest + 1) / largest
    return SuperGaussian(eps, smallest, largest, rho)


def equal_difficulty(levels: int, eps: float) -> PartitionCheck:
    """Example 5.4: K levels of equal size, losses of level k uniform on [(k - 1)/K, k/K], v_k = 1/(12 K^2).

    >>> check = equal_difficulty(3, eps=0.02)
    >>> check.benign, round(check.rho, 3)
    (True, 0.306)
    """
    if levels < 1:
        raise InvalidInput("levels", ">= 1", levels)
    return check_partition(np.full(levels, 1 / levels), np.full(levels, 1 / (12 * levels**2)), eps)


def partition_items(masses: ArrayLike, variances: ArrayLike, eps: float, delta: float) -> int:
    """Items that Algorithm 2 needs with its printed constants, for groups that never run out.

    The smallest total of the n_k with sum_k mass_k eps_k(n_k) <= eps. At the optimum all groups have the same
    decrease mass_k |d eps_k/d n_k|, which is where the algorithm's choice of groups drifts to.

    >>> partition_items([1.0], [0.0], eps=0.02, delta=0.05)
    5723
    >>> partition_items([1/3, 1/3, 1/3], [0.02, 0.02, 0.02], eps=0.02, delta=0.05) > 5723
    True
    """
    mass, variance = _groups(masses, variances)
    check_eps(eps)

    def radius(decrease: float) -> float:
        return float(mass @ group_radius(counts(decrease), variance, len(mass), delta))

    def counts(decrease: float) -> Floats:
        return _counts_at(lambda n: mass * group_slope(n, variance, len(mass), delta), len(mass), decrease)

    low, high = 1e-9, 1.0
    while radius(low) > eps:
        low /= 1e3
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if radius(middle) <= eps else (low, middle)
    return int(counts(low).sum())


def _counts_at(slope: Callable[[Floats], Floats], n_groups: int, decrease: float) -> Floats:
    low, high = np.ones(n_groups), np.full(n_groups, 2.0**50)
    for _ in range(60):
        middle = np.floor((low + high) / 2)
        steep = slope(middle) > decrease
        low, high = np.where(steep, middle, low), np.where(steep, high, middle)
    return high


def _groups(masses: ArrayLike, variances: ArrayLike) -> tuple[Floats, Floats]:
    mass = np.atleast_1d(np.asarray(masses, dtype=np.float64))
    variance = np.atleast_1d(np.asarray(variances, dtype=np.float64))
    if mass.ndim != 1 or mass.shape != variance.shape:
        raise InvalidInput("variances", f"one for each of the {mass.size} masses", f"shape {variance.shape}")
    if not (mass >= 0).all() or not math.isclose(float(mass.sum()), 1.0, abs_tol=1e-6):
        raise InvalidInput("masses", ">= 0 with sum 1", masses)
    if not ((variance >= 0) & (variance <= 0.25)).all():
        raise InvalidInput("variances", "in [0, 1/4]", variances)
    return mass, variance
