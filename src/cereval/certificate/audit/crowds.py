"""Count over cells instead of items, where items that are alike share a forecast (`stats.crowds`).

The masses of the cells are counted once from the items; what is left of a cell is that less the exact sum of what was
seen of it. So n results on N items in C cells with F forecasts cost O(N + n + (F + 100)(C + n)).
"""

from __future__ import annotations

from collections import defaultdict
from math import fsum

import numpy as np
from numpy.typing import NDArray

from cereval.certificate.audit.book import BeforeResult, Book, Case, ForecastSince, Seen


class CrowdBook(Book):
    """Keep which items are in, and the sums over the cells of the others: `Book`, with an entry for each cell."""

    def __init__(self, case: Case) -> None:
        assert case.of_item is not None
        self.cells = case.of_item
        self.masses = np.bincount(case.of_item, case.shares)
        self.members = np.bincount(case.of_item[case.shares > 0], minlength=len(self.masses))
        self.seen_of: defaultdict[int, list[float]] = defaultdict(list)
        super().__init__(case)

    def _take(self, forecast: ForecastSince) -> None:
        weight = np.where(forecast.weights > 0, forecast.weights, np.inf)
        self.terms = {
            "shares": np.ones(len(weight)),
            "forecasts": forecast.mean,
            "weights": forecast.weights,
            "variances": forecast.spread**2 / weight,
        }
        self.reach = forecast.mean / weight, (1 - forecast.mean) / weight

    def _open(self) -> NDArray[np.bool_]:
        gone = [cell for cell, seen in self.seen_of.items() if len(seen) == self.members[cell]]
        there = (self.members > 0) & (self.forecast.weights > 0)
        there[gone] = False
        return np.asarray(there)

    def _count(self, name: str) -> float:
        left = self.masses.copy()
        for cell, seen in self.seen_of.items():
            left[cell] = fsum([self.masses[cell], *(-share for share in seen)])
        there = self._open()
        return fsum((left * self.terms[name])[there].tolist())

    def _term(self, name: str, item: int) -> float:
        return float(self.case.shares[item] * self.terms[name][self.cells[item]])

    def increment(self, position: BeforeResult, result: Seen) -> tuple[float, float, float]:
        cell, share = self.cells[result.item], float(self.case.shares[result.item])
        mean, chance = float(self.forecast.mean[cell]), self._term("weights", result.item) / position.race
        low = position.seen_low + position.expected + (result.low - mean) * share / chance
        high = position.seen_high + position.expected + (result.high - mean) * share / chance
        return chance, low, high

    def enter(self, result: Seen) -> None:
        super().enter(result)
        if not self.case.replacement:
            self.seen_of[int(self.cells[result.item])].append(float(self.case.shares[result.item]))


def book_of(case: Case) -> Book:
    """Return the book of a case: over items, or over cells where it has some."""
    return Book(case) if case.of_item is None else CrowdBook(case)
