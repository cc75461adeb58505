"""State what is certified about pairs of models at one moment, as matrices: entry [i, j] says something of i over j."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cereval.arrays import Bools, Floats, Ints
from cereval.stats.pairs import PairGames
from cereval.stats.rounding import sum_slack

EXACT = 1e-12
"""The least distance of two means that are told apart; more where the sums behind them may be off by more."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """List the pairs (first[p], second[p]) of `models` models that are played."""

    models: int
    first: Ints
    second: Ints

    def matrix(self, values: Floats, empty: float) -> Floats:
        """Return values[direction, pair] as a matrix: row 0 for first over second, row 1 for second over first."""
        found = np.full((self.models, self.models), empty)
        found[self.first, self.second], found[self.second, self.first] = values
        return found

    def each(self, matrix: Bools) -> Bools:
        found: Bools = matrix[self.first, self.second]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class PairClaims:
    """Hold what is certified. above: better, transitively closed. near: worse by less than the margin (or better).

    `order` is what may be listed as certified order beside the goal's own answer. `gap` and `error` are the
    estimated differences on shared items; they steer the draws and prove nothing.
    """

    above: Bools
    near: Bools
    order: Bools
    gap: Floats
    error: Floats

    @property
    def contradiction(self) -> bool:
        return bool((self.above & self.above.T).any() or (self.order & self.order.T).any())

    @property
    def unordered(self) -> Bools:
        found: Bools = ~(self.above | self.above.T)
        np.fill_diagonal(found, False)
        return found


def exact_claims(lower: Floats, upper: Floats, margin: float | None) -> PairClaims:
    """Return the claims that limits prove which hold with certainty: "above" where one's lower is over the other's
    upper."""
    lead, middle = lower[:, None] - upper[None, :], (lower + upper) / 2
    above = lead > EXACT
    near = np.zeros_like(above) if margin is None else lead >= -margin - EXACT
    spread = (upper - lower) / 2
    return PairClaims(
        above, near, above, middle[:, None] - middle[None, :], spread[:, None] + spread[None, :]
    )


def read(
    games: PairGames, pairs: Pairs, *, margin: float | None, needed: float, order_needed: float
) -> PairClaims:
    """Return the claims that the evidence supports.

    A wrong "above" against a pair that is further apart than the margin has to pass "near" as well: so the two
    wrong claims that such a pair allows are one event, and share one part of the error budget.
    """
    lead = pairs.matrix(games.evidence[0], empty=-np.inf)
    wins = lead >= needed
    near = np.zeros_like(wins)
    if margin is not None:
        lowest = pairs.matrix(games.total / games.n_items, empty=-np.inf)
        complete = pairs.matrix(np.tile(games.time, (2, 1)).astype(np.float64), empty=0) == games.n_items
        passed = pairs.matrix(games.evidence[-1], empty=-np.inf) >= needed
        near = passed | (complete & (lowest >= -margin - max(EXACT, sum_slack(games.n_items))))
        wins &= passed
    above = closed(wins)
    gap, error = games.estimates, games.errors
    return PairClaims(
        above=above,
        near=near | above,
        order=closed(wins & (lead >= order_needed)),
        gap=pairs.matrix(np.stack((gap, -gap)), empty=0.0),
        error=pairs.matrix(np.stack((error, error)), empty=0.0),
    )


def closed(claims: Bools) -> Bools:
    """Return the transitive closure: i above j and j above k give i above k without further evidence.

    >>> closed(np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)).astype(int).tolist()
    [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    """
    while True:
        steps = claims.astype(np.float32)
        further: Bools = claims | (steps @ steps > 0.5)
        if (further == claims).all():
            return claims
        claims = further


@dataclass(frozen=True, slots=True)
class Diagram:
    """List the models from top to bottom, and for each the ones below it: all, and those with nothing between.

    as_good: the others that are certified to be at least as good as each. best: the highest rank left to each, where
    models with equal scores may be ranked either way.
    """

    rows: tuple[str, ...]
    below: Mapping[str, frozenset[str]]
    lines: Mapping[str, tuple[str, ...]]
    as_good: Mapping[str, frozenset[str]]
    best: Mapping[str, int]

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Diagram:
        """Build the diagram from a ranking's fields.

        >>> limits = {"a": (0.9, 0.8, 1.0), "b": (0.5, 0.4, 0.6), "c": (0.6, 0.3, 0.5)}
        >>> intervals = {name: dict(zip(("estimate", "lower", "upper"), one)) for name, one in limits.items()}
        >>> known = {"models": ["c", "b", "a"], "intervals": intervals, "goal": {"goal": "order"}, "stopped": "goal"}
        >>> diagram = Diagram.of({**known, "order": [["b", "c"]]})
        >>> diagram.rows, diagram.text()
        (('a', 'b', 'c'), ['a > b', 'b > c'])
        """
        below: dict[str, set[str]] = {name: set() for name in result["models"]}
        for better, worse in (*result["order"], *_apart(result, ties=False)):
            below[better].add(worse)
        rows = _extension(below, {name: result["intervals"][name]["estimate"] for name in below})
        lines = {
            name: tuple(x for x in rows if x in below[name] and not any(x in below[y] for y in below[name]))
            for name in rows
        }
        as_good = {name: {better for better, others in below.items() if name in others} for name in rows}
        best = {name: 1 + len(betters) for name, betters in as_good.items()}
        for better, worse in _apart(result, ties=True):
            as_good[worse].add(better)
        if result["goal"]["goal"] == "top":
            best |= {name: max(best[name], 1 + result["goal"]["k"]) for name in result["eliminated"]}
        return cls(rows, _frozen(below), lines, _frozen(as_good), best)

    def ranks(self, name: str) -> str:
        first, last = self.best[name], len(self.rows) - len(self.below[name])
        return f"{first}" if first == last else f"{first}-{last}"

    def text(self) -> list[str]:
        groups: dict[tuple[str, ...], list[str]] = {}
        for name in self.rows:
            if self.lines[name]:
                groups.setdefault(self.lines[name], []).append(name)
        return [f"{', '.join(better)} > {', '.join(worse)}" for worse, better in groups.items()]


def _apart(result: Mapping[str, Any], *, ties: bool) -> list[tuple[str, str]]:
    """Return the pairs of which the intervals alone prove the first better, or with `ties` at least as good.

    None where the evidence contradicts itself: then an interval may be empty, or the order is withheld.
    """
    limits = {name: (one["lower"], one["upper"]) for name, one in result["intervals"].items()}
    if result.get("stopped") == "contradiction" or any(lower > upper for lower, upper in limits.values()):
        return []
    return [
        (one, other)
        for one, (lower, _) in limits.items()
        for other, (_, upper) in limits.items()
        if one != other and (lower > upper or (ties and lower == upper))
    ]


def _frozen(names: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(others) for name, others in names.items()}


def _extension(below: Mapping[str, set[str]], estimates: Mapping[str, float]) -> tuple[str, ...]:
    """Return the models by estimate, but never one before a model that is certified better."""
    above = {name: sum(name in others for others in below.values()) for name in below}
    waiting, rows = set(below), []
    while waiting:
        free = [name for name in waiting if above[name] == 0]
        best = max(free, key=lambda name: (estimates[name], name))
        waiting.remove(best)
        rows.append(best)
        for worse in below[best]:
            above[worse] -= 1
    return tuple(rows)
