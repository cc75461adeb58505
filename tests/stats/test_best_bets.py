"""The limit of bets is that of the most powerful test where bets can replicate every test: scores of two values."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.limits import Chance, even_chance, win
from scipy.stats import binom

COIN = Chance(np.array([-1.0, 1.0]), np.array([0.5, 0.5]), lowest=-1.0, highest=1.0)


def power(draws: int, away: float, alpha: float) -> float:
    """Of the most powerful test, which draws lots on its boundary, that the mean of +-1 is `away` where it is 0."""
    heads = np.arange(draws + 1)
    under_null, under_truth = binom.pmf(heads, draws, (1 + away) / 2), binom.pmf(heads, draws, 0.5)
    boundary = int(np.searchsorted(np.cumsum(under_null), alpha))
    lots = (alpha - under_null[:boundary].sum()) / under_null[boundary]
    return float(under_truth[:boundary].sum() + lots * under_truth[boundary])


@pytest.mark.parametrize(("draws", "away", "alpha"), [(60, 0.2, 0.025), (60, 0.2, 0.04), (200, 0.1, 0.025)])
@pytest.mark.parametrize("side", [1, -1])
def test_best_bets_on_a_coin_are_nearly_the_most_powerful_test(draws, away, alpha, side):
    best = power(draws, away, alpha)
    assert 0.95 * best < win([COIN] * draws, side * away, alpha) <= best + 1e-3


def test_an_even_chance_takes_as_many_draws_as_that_test():
    found = even_chance([COIN] * 150, 0.2, 0.025)
    assert power(round(0.95 * found), 0.2, 0.025) < 0.5 <= power(round(1.02 * found), 0.2, 0.025)


def test_too_few_draws_are_said_to_be():
    assert even_chance([COIN] * 30, 0.1, 0.025) == float("inf")
