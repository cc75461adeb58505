"""Miss rates over the families of `benchmarks.families`, pooled by what could break validity in them.

Every pool has 50 runs at delta = .3, each with a seed of its own, so that the runs are independent: misses summed over
the pool exceed the bound (23) with probability at most .6% where no family misses more often than stated, and with
probability 96.8% where they miss twice as often (`benchmarks.coverage.power`; 90 runs at .2 would find that as surely,
and 30 at .05 with 7%). Seeds are fixed: none of these tests fails by chance. Each family by itself,
at delta = .05: `python -m benchmarks.coverage --runs 2000`.
"""

from __future__ import annotations

import pytest
from benchmarks.coverage import Cell, cells, most_misses, power
from scipy.stats import binom

DELTA = 0.3
RUNS = 50

PLAIN = ("Bernoulli 0.5", "Bernoulli 0.1", "Bernoulli 0.02", "S1", "S2", "S3", "two-point", "N = 10")
SURE = [(name, method) for name in ("constant", "N = 1", "N = 2") for method in ("uniform", "active")]
"""Where nothing is left to chance: in a pool they would make room for the misses of others."""

POOLS: dict[str, list[tuple[str, str]]] = {
    "uniform draws": [(name, "uniform") for name in PLAIN],
    "forecasts from embeddings": [(name, "active") for name in PLAIN],
    "partitions and hubs": [
        ("S2, by the paper's partition", "partition"),
        ("hubness", "partition"),
        ("hubness", "active"),
        ("Bernoulli 0.1, N = 5000", "uniform"),
        ("Bernoulli 0.1, N = 5000", "active"),
    ],
    "history, also one that lies": [
        ("adversarial predictor", "active"),
        ("adversarial history", "active"),
        *((f"history, a typical item {mean}", "active") for mean in ("0.03", "0.5", "0.97")),
        ("history, rare graded scores", "active"),
        *((f"history, 40 past models {how}", "active") for how in ("alike", "unlike")),
    ],
    "weights, failures, calls in flight": [
        (name, method)
        for name in (
            "adversarial weights",
            "10% failed calls",
            *(f"{count} in flight, shuffled" for count in (1, 16, 64)),
        )
        for method in ("uniform", "active")
    ],
    "goals that change": [
        (name, method)
        for name in ("goal changed mid-run", "threshold given up")
        for method in ("uniform", "active")
    ],
    "closer goals, money and time": [
        (name, method)
        for name in (
            "resumed with a goal 0.9 x as wide, mean 0.5",
            "resumed with a goal 0.6 x as wide, mean 0.1",
            "stopped by money or time, mean 0.5",
            "stopped by money or time, mean 0.1",
        )
        for method in ("uniform", "active")
    ],
    "thresholds near the mean": [
        (f"threshold mean {gap}", method)
        for gap in ("-0.05", "-0.02", "+0.02", "+0.05", "+0.02, rare")
        for method in ("uniform", "active")
    ],
    "fresh answers, remembered": [
        (cell.family, cell.method) for cell in cells() if cell.family.startswith("rates: ")
    ],
    "other targets": [
        ("population, mean 0.5", "uniform"),
        ("population, mean 0.1", "uniform"),
        ("expected, random responses", "uniform"),
        ("expected, random responses", "active"),
        ("expected, random responses", "memory"),
        ("hedged, Bernoulli 0.1", "hedged"),
        ("weights in groups", "active"),
    ],
}


@pytest.mark.parametrize("pool", POOLS)
def test_what_is_shown_is_wrong_at_most_as_often_as_stated(pool: str) -> None:
    first = 1000 * list(POOLS).index(pool)
    members = [Cell(*POOLS[pool][number % len(POOLS[pool])]) for number in range(RUNS)]
    misses = sum(cell.outcome(first + number, DELTA).missed for number, cell in enumerate(members))
    assert misses <= most_misses(RUNS, DELTA) == 23


@pytest.mark.parametrize(("family", "method"), SURE)
def test_where_nothing_is_left_to_chance_nothing_is_wrong(family: str, method: str) -> None:
    assert not any(Cell(family, method).outcome(seed, DELTA).missed for seed in range(20))


def test_every_family_is_in_a_pool() -> None:
    pooled = [pair for members in POOLS.values() for pair in members]
    assert sorted((cell.family, cell.method) for cell in cells()) == sorted([*pooled, *SURE])


def test_the_bound_is_kept_by_valid_methods_and_catches_a_miss_rate_twice_as_high() -> None:
    assert binom.sf(most_misses(RUNS, DELTA), RUNS, DELTA) < 0.01
    assert power(RUNS, DELTA) > 0.96
    assert most_misses(2000) < 2000 * 0.1
    assert power(2000) > 0.999
