"""Make the order of a ranking with history again, and the bets along it, in plain numbers (`SlowRace`).

It shares no code with `forecasts.draw_weights` and `stats.race`: the water level of the bets is found by raising one
level after the other, where the session takes a minimum over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, exp, fsum, isnan, log, sqrt

import numpy as np

from cereval.forecasts.draw_weights import ALIKE, EVEN, LEVELS, NOISE, PRIOR
from cereval.stats.race import CARE, SAFE
from cereval.stats.rounding import RANGE_SLACK


@dataclass(frozen=True, slots=True)
class SlowRace:
    """Hold the order, each item's weight along it, and at each place the unseen items of every level, lowest first."""

    order: list[int]
    weights: list[float]
    unseen: list[list[tuple[float, int]]]
    sums: list[float]
    variances: list[float]
    information: list[float]

    @classmethod
    def of(cls, history: Sequence[Sequence[float]], rng: np.random.Generator) -> SlowRace | None:
        """Return the race that past scores ask for; None where they do not tell items apart."""
        squares = expected_squares(history)
        if squares is None:
            return None
        weight = levels_of(squares)
        clocks = rng.exponential(size=len(weight)).tolist()
        order = sorted(range(len(weight)), key=lambda item: clocks[item] / weight[item])
        return cls.along(order, [weight[item] for item in order], [squares[item] for item in order])

    @classmethod
    def along(cls, order: list[int], weights: list[float], squares: list[float]) -> SlowRace:
        """Return what is known at each place of an order."""
        items = len(order)
        count = dict.fromkeys(sorted(set(weights)), 0)
        usual = fsum(squares) / items
        unseen, sums, variances, energy = [], [], [], 0.0
        for weight, square in zip(reversed(weights), reversed(squares), strict=True):
            count[weight] += 1
            energy += (NOISE + (1 - NOISE) * square) / (NOISE + (1 - NOISE) * usual) / weight
            unseen.append([(level, number) for level, number in count.items() if number])
            sums.append(fsum(level * number for level, number in unseen[-1]))
            variances.append(sums[-1] * energy / items**2)
        for one in (unseen, sums, variances):
            one.reverse()
        return cls(order, weights, unseen, sums, variances, [0.0, *accumulate(1 / one for one in variances)])

    def factor(self, place: int) -> float:
        """Return by how much the score at a place counts."""
        return self.sums[place] / (self.weights[place] * len(self.order))

    def reach(self, place: int) -> float:
        """Return by how much the score of any unseen item may count, at most."""
        return self.sums[place] / (self.unseen[place][0][0] * len(self.order)) * (1 + RANGE_SLACK)

    def largest(self, place: int, owed: float, cap: float) -> float:
        """Return the largest stake."""
        left = 1 - place / len(self.order)
        room = owed + left + CARE * (self.reach(place) - left)
        return min(cap / max(room, 1e-12), 1 / max(owed + left / SAFE, 1e-12))

    def payoff(self, place: int, stake: float, owed: float, gain: float) -> float:
        """Return what a unit of an account becomes if the difference on the item at a place is `gain`."""
        items, race = len(self.order), self.sums[place]
        least, rest, weight = stake / (items * SAFE), 1 - stake * owed, race
        level = rest / weight
        for value, number in self.unseen[place]:
            if level * value >= least:
                break
            rest, weight = rest - least * number, weight - value * number
            level = rest / weight if weight > 1e-9 * race else 0.0
        part = max(level * self.weights[place], least)
        return (part + stake * gain / items) * race / self.weights[place]


def expected_squares(history: Sequence[Sequence[float]]) -> list[float] | None:
    """Return the mean square of two past models' difference on each item, 1 on average, shrunk to that.

    >>> expected_squares([[1.0, 0.0], [1.0, 1.0]])
    [1.4, 0.6]
    """
    told = [[score for score in row if not isnan(score)] for row in history]
    squares = [_square(row) if len(row) > 1 else None for row in told]
    known = [square for square in squares if square is not None]
    usual = fsum(known) / len(known) if known else 0.0
    if usual <= 0.0:
        return None
    found = [
        1.0 if square is None else (len(row) * square / usual + PRIOR) / (len(row) + PRIOR)
        for row, square in zip(told, squares, strict=True)
    ]
    return found if max(found) - min(found) > ALIKE else None


def _square(scores: Sequence[float]) -> float:
    mean = fsum(scores) / len(scores)
    return 2 * fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1)


def levels_of(squares: Sequence[float]) -> list[float]:
    """Return the weights, rounded to the nearest of the levels."""
    exact = [log(sqrt(square + EVEN)) for square in squares]
    step = (max(exact) - min(exact)) / (LEVELS - 1)
    # Half-way between two levels: the lower one.
    return [exp(min(exact) + step * ceil((one - min(exact)) / step - 0.5 - 1e-9)) for one in exact]
