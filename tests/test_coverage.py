"""Miss rates in every family of `benchmarks.families`: a quick version of `python -m benchmarks.coverage`.

Fixed seeds and a stated bound: a true miss rate of delta exceeds it with probability at most 1%, and these
seeds do not; a change that breaks validity does, in most families at once.
"""

from __future__ import annotations

import pytest
from benchmarks.coverage import Cell, cells, most_misses, summary

SLOW = {"Bernoulli 0.1, N = 5000": 4, "adversarial predictor": 15, "Bernoulli 0.02": 12}
RUNS = 30


def runs_of(cell: Cell) -> int:
    return SLOW.get(cell.family, 12 if cell.family.startswith("threshold mean") else RUNS)


@pytest.mark.parametrize("cell", cells(), ids=lambda cell: f"{cell.family} ({cell.method})")
def test_what_is_shown_is_wrong_at_most_as_often_as_stated(cell: Cell) -> None:
    measured = summary(cell, [cell.outcome(seed) for seed in range(runs_of(cell))])
    assert measured.misses <= most_misses(measured.runs)


def test_all_families_together_miss_at_most_as_often_as_stated() -> None:
    """Seeds that no two cells share, so that the runs are independent and the bound is one of all of them."""
    runs = 8
    outcomes = [
        cell.outcome(seed)
        for number, cell in enumerate(cells())
        if cell.family not in SLOW
        for seed in range(1000 + number * runs, 1000 + (number + 1) * runs)
    ]
    assert sum(outcome.missed for outcome in outcomes) <= most_misses(len(outcomes))


def test_the_bound_catches_a_miss_rate_twice_as_high() -> None:
    assert most_misses(2000) < 2000 * 0.1
