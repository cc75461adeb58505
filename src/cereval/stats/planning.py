"""How many calls a goal will take, method by method: the arithmetic behind `cereval plan`.

Three kinds of figures, told apart by `basis`: `exact` follows from the method's definition, `theory` is a
limit of normal theory that no method is promised to reach, `measured` is an approximation fitted to replays
of cereval itself.

The finite pool. n draws without replacement from N are worth n / (1 - n/N) independent ones, so a need of n0
becomes n0 / (1 + n0/N) calls for the target `benchmark`, and stays n0 for `population` and `expected`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from scipy.special import ndtri

from cereval.errors import InvalidInput
from cereval.stats.exact import clopper_pearson_items, exact_test_items, hypergeometric_items
from cereval.stats.paper_bounds import (
    PartitionCheck,
    SequentialBounds,
    adaptive_hoeffding_items,
    check_delta,
    check_eps,
    check_partition,
    hoeffding_items,
    partition_items,
    sequential_bounds,
)
from cereval.stats.rounding import upper_quantile

Basis = Literal["exact", "theory", "measured"]

ANYTIME_PRICE, PER_EPS, SKEWED = 1.09, 0.5, 1.25
"""Deadline bets need ANYTIME_PRICE z^2 v/eps^2 + (PER_EPS + SKEWED |1 - 2p|)/eps independent draws: the price of being
allowed to look all the time, and that of the scores' range, which limits the bets where scores are skewed. Within 10%
of replays of 0/1 scores with means .02 to .5, eps .015 to .1, N 1,000 to 20,000."""
DECIDING = 22.0
"""A threshold test needs 2 v ln(1/delta)/gap^2 + DECIDING sqrt(v)/gap independent draws, gap = |mean - threshold|: what
Wald's bet takes, which knows the gap, and the price of not knowing it. Within 15% of the mean of replays with means .55
to .95, gaps .02 and .05, N 5,000; one run in ten takes 1.6 times as many."""
FINEST = 1e-9  # The smallest half-width or gap that is planned for: calls grow with its square
MOST_ITEMS = 10**9
"""Items that are planned for: exact tests of larger pools take minutes, and their logarithms lose their digits."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is expected of the data before a plan is made: the pool's size, the target, and a guess at the scores.

    `mean` is for 0/1 scores and implies the variance; neither given: the worst case, 1/4.
    explained: the share of the variance that history, texts or groups predict; groups: (mass, variance) each.

    >>> Scenario(1000, mean=0.9).variance_or_worst
    0.09
    """

    size: int
    confidence: float = 0.95
    target: Literal["benchmark", "population", "expected"] = "benchmark"
    mean: float | None = None
    variance: float | None = None
    explained: float | None = None
    groups: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidInput("items", "a whole number >= 1", self.size)
        if not 0 < self.confidence < 1:
            raise InvalidInput("confidence", "a number in (0, 1)", self.confidence)
        if self.mean is not None and self.variance is not None:
            raise InvalidInput("variance", "left out when a mean is given", self.variance)
        for field, value, most in (("mean", self.mean, 1), ("variance", self.variance, 0.25)):
            if value is not None and not 0 <= value <= most:
                raise InvalidInput(field, f"a number in [0, {most}]", value)
        if self.explained is not None and not 0 <= self.explained < 1:
            raise InvalidInput("explained", "a share in [0, 1)", self.explained)

    @property
    def delta(self) -> float:
        return round(1 - self.confidence, 12)

    @property
    def variance_or_worst(self) -> float:
        if self.mean is not None:
            return round(self.mean * (1 - self.mean), 15)
        return 0.25 if self.variance is None else self.variance

    @property
    def masses(self) -> tuple[float, ...]:
        return tuple(mass for mass, _ in self.groups)

    @property
    def variances(self) -> tuple[float, ...]:
        return tuple(variance for _, variance in self.groups)

    @property
    def skew(self) -> float:
        return math.sqrt(max(1 - 4 * self.variance_or_worst, 0.0))

    def calls(self, independent: float) -> int | None:
        """Calls that give as much as so many independent draws; None when the pool cannot."""
        if self.target == "benchmark":
            return max(1, math.ceil(independent / (1 + independent / self.size) - 1e-9))
        needed = max(1, math.ceil(independent - 1e-9))
        return needed if self.target == "expected" or needed <= self.size else None

    def capped(self, items: int) -> int | None:
        """Calls of a method that ignores the finite pool: at worst all, after which a benchmark is known."""
        if items <= self.size or self.target == "expected":
            return items
        return self.size if self.target == "benchmark" else None


@dataclass(frozen=True, slots=True)
class MethodForecast:
    """Calls that one method is expected to need; None: it cannot get there with this pool, see `needed`."""

    method: str
    calls: int | None
    needed: int
    guarantee: str
    basis: Basis
    remark: str

    def saved(self, size: int) -> float | None:
        return None if self.calls is None else 1 - self.calls / size


@dataclass(frozen=True, slots=True)
class GoalForecast:
    """All forecasts for a goal, the paper's bounds beside them, and what to beware of."""

    scenario: Scenario
    eps: float
    forecasts: tuple[MethodForecast, ...]
    bounds: SequentialBounds
    partition: PartitionCheck | None
    warnings: tuple[str, ...]


def plan_estimate(scenario: Scenario, eps: float) -> GoalForecast:
    """Calls until the mean is known within eps.

    >>> forecast = plan_estimate(Scenario(5000, mean=0.5), 0.02)
    >>> {row.method: row.calls for row in forecast.forecasts}
    {'static': 5000, 'hoeffding': 4612, 'normal': 1623, 'exact': 1634, 'seq': 5000, 'uniform': 1729}
    """
    _check_plannable(scenario)
    check_eps(eps)
    if eps < FINEST:
        raise InvalidInput("eps", f"a number in [{FINEST:g}, 1) to plan for", eps)
    delta, variance = scenario.delta, scenario.variance_or_worst
    hoeffding = hoeffding_items(eps, delta)
    base, every = (hoeffding, "") if scenario.target == "population" else (scenario.size, ": every item")
    normal = variance * (upper_quantile(delta / 2) / eps) ** 2
    rows = [
        _fixed(scenario, "static", base, f"the paper's Base{every}"),
        _fixed(scenario, "hoeffding", hoeffding, "any scores, n in advance"),
        _normal(scenario, normal, "a limit: variance known, n in advance"),
    ]
    if scenario.mean is not None:
        if scenario.target == "benchmark":
            interval, items = "hypergeometric", hypergeometric_items(scenario.mean, eps, delta, scenario.size)
        else:
            interval, items = "Clopper-Pearson", clopper_pearson_items(scenario.mean, eps, delta)
        rows.append(_fixed(scenario, "exact", items, f"{interval}, 0/1 scores, n in advance"))
    rows.append(_fixed(scenario, "seq", adaptive_hoeffding_items(eps, delta), "the paper's Seq", "anytime"))
    if scenario.groups:
        items = partition_items(scenario.masses, scenario.variances, eps, delta)
        rows.append(_fixed(scenario, "oracle", items, "the paper's Algorithm 2, groups known", "anytime"))
    for method, explained in certified_methods(scenario):
        draws = deadline_draws(variance * (1 - explained), scenario.skew, eps, delta)
        rows.append(_measured(scenario, method, draws, explained))
    return _goal_forecast(scenario, eps, rows)


def plan_threshold(scenario: Scenario, threshold: float) -> GoalForecast:
    """Calls until it is certain on which side of the threshold the mean lies; the scenario must have a mean.

    >>> forecast = plan_threshold(Scenario(5000, mean=0.85), 0.8)
    >>> {row.method: row.calls for row in forecast.forecasts}
    {'normal': 498, 'exact': 192, 'seq': 3799, 'uniform': 424}
    """
    _check_plannable(scenario)
    if not 0 < threshold < 1:
        raise InvalidInput("threshold", "a number in (0, 1)", threshold)
    if scenario.mean is None:
        raise InvalidInput("mean", "given, in [0, 1], to plan for a threshold", None)
    gap = abs(scenario.mean - threshold)
    if gap < FINEST:
        raise InvalidInput("mean", "different from the threshold (a tie needs every item)", scenario.mean)
    delta, variance = scenario.delta, scenario.variance_or_worst
    normal = variance * (2 * max(float(ndtri(1 - delta)), 0.0) / gap) ** 2
    size = scenario.size if scenario.target == "benchmark" else None
    exact = exact_test_items(scenario.mean, threshold, delta, size)
    assert exact is not None
    seq, exactly = (
        "the paper's Seq at the gap as eps",
        "0/1 scores, n in advance, decides in about half of the runs",
    )
    rows = [
        _normal(scenario, normal, "a limit: n in advance, decides with probability 1 - delta"),
        _fixed(scenario, "exact", exact, exactly),
        _fixed(scenario, "seq", adaptive_hoeffding_items(gap, delta), seq, "anytime"),
    ]
    for method, explained in certified_methods(scenario):
        left = variance * (1 - explained)
        draws = 2 * left * math.log(1 / delta) / gap**2 + DECIDING * math.sqrt(left) / gap
        rows.append(_measured(scenario, method, draws, explained))
    return _goal_forecast(scenario, gap, rows)


def fixed_sizes(half_width: float, delta: float, size: int | None) -> dict[str, int]:
    """Return how many scores in [0, 1] a plan of fixed size needs for this half-width, nothing being known beforehand.

    By the normal approximation at the largest variance, and by Hoeffding's bound (Serfling 1974 without replacement).
    size: of the pool; None: draws with replacement.

    >>> fixed_sizes(0.05, 0.05, 1990), fixed_sizes(0.05, 0.05, None)
    ({'normal': 323, 'hoeffding': 539}, {'normal': 385, 'hoeffding': 738})
    """
    normal = (upper_quantile(delta / 2) / half_width) ** 2 / 4
    hoeffding = math.log(2 / delta) / (2 * half_width**2)
    if size is not None:
        normal = normal / (1 + (normal - 1) / size)
        hoeffding = min(hoeffding * (size + 1) / (size + hoeffding), size)
    return {"normal": math.ceil(normal - SLIGHT), "hoeffding": math.ceil(hoeffding - SLIGHT)}


SLIGHT = 1e-9
"""A count that exceeds a whole number by less is that number."""


def deadline_draws(variance: float, skew: float, eps: float, delta: float) -> float:
    """Independent draws that deadline bets need for a half-width of eps: see `ANYTIME_PRICE`.

    >>> round(deadline_draws(0.25, 0.0, 0.02, 0.05))
    2642
    """
    limit = variance * (upper_quantile(check_delta(delta) / 2) / eps) ** 2
    return ANYTIME_PRICE * limit + (PER_EPS + SKEWED * skew) / eps


def eps_bought(scenario: Scenario, calls: int, explained: float = 0.0) -> float:
    """Return the half-width that so many calls are expected to reach: the reverse of `deadline_draws`.

    >>> scenario = Scenario(5000, mean=0.5)
    >>> round(eps_bought(scenario, 1729), 4), eps_bought(scenario, 5000), eps_bought(scenario, 1)
    (0.02, 0.0, 0.5)
    """
    if scenario.target == "benchmark":
        if calls >= scenario.size:
            return 0.0
        calls = int(calls / (1 - calls / scenario.size))
    quantile = upper_quantile(check_delta(scenario.delta) / 2)
    square = ANYTIME_PRICE * scenario.variance_or_worst * (1 - explained) * quantile**2
    line = PER_EPS + SKEWED * scenario.skew
    return min((line + math.sqrt(line**2 + 4 * square * calls)) / (2 * max(calls, 1)), 0.5)


def _check_plannable(scenario: Scenario) -> None:
    if scenario.size > MOST_ITEMS:
        raise InvalidInput("items", f"a whole number in 1..{MOST_ITEMS:,} to plan for", scenario.size)
    if not 0 < scenario.delta < 1:
        raise InvalidInput("confidence", "at least 1e-12 away from 0 and 1 to plan for", scenario.confidence)


def certified_methods(scenario: Scenario) -> list[tuple[str, float]]:
    """The certified methods that apply, each with the share of the variance that it can predict."""
    found = [("uniform", 0.0)]
    if scenario.explained is not None and scenario.target != "population":
        found.append(("active", scenario.explained))
    return found


def _fixed(
    scenario: Scenario, method: str, items: int, remark: str, guarantee: str = "fixed-n"
) -> MethodForecast:
    """A method whose number of items is known, and which ignores that the pool is finite."""
    return MethodForecast(method, scenario.capped(items), items, guarantee, "exact", remark)


def _normal(scenario: Scenario, draws: float, remark: str) -> MethodForecast:
    return MethodForecast("normal", scenario.calls(draws), math.ceil(draws), "none", "theory", remark)


def _measured(scenario: Scenario, method: str, draws: float, explained: float) -> MethodForecast:
    remark = f"side information explains {explained:.0%}" if explained else "no side information"
    return MethodForecast(method, scenario.calls(draws), math.ceil(draws), "anytime", "measured", remark)


def _goal_forecast(scenario: Scenario, eps: float, rows: list[MethodForecast]) -> GoalForecast:
    partition = check_partition(scenario.masses, scenario.variances, eps) if scenario.groups else None
    bounds = sequential_bounds(eps, scenario.delta)
    return GoalForecast(scenario, eps, tuple(rows), bounds, partition, tuple(_warnings(scenario, rows)))


def _warnings(scenario: Scenario, rows: list[MethodForecast]) -> list[str]:
    found = []
    if scenario.target == "population":
        found += [
            f"{row.method}: {scenario.size:,} items are too few for this goal, it needs about {row.needed:,}"
            for row in rows
            if row.calls is None
        ]
    if scenario.target == "benchmark":
        found += [
            f"{row.method}: asks all {scenario.size:,} items; it stops early with more than {row.needed:,}"
            for row in rows
            if row.method in ("seq", "oracle", "hoeffding") and row.needed > scenario.size
        ]
        best = min((row for row in rows if row.basis == "measured"), key=lambda row: row.calls or 0)
        if best.calls is not None and best.calls > 0.9 * scenario.size:
            found.append(
                f"{best.method}: the goal is so fine that nearly all {scenario.size:,} items are asked; "
                f"half could be saved from about {best.needed:,} items on"
            )
    if scenario.mean is None and scenario.variance is None:
        found.append("no mean or variance given: planned for the worst case, scores 0 or 1 with mean 0.5")
    return found
