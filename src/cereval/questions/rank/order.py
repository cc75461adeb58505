"""Draw a certified order from top to bottom: who is above whom, without the lines that follow from others: `Diagram`.

The order and the intervals of a ranking hold at once, so a model whose lower limit exceeds another's upper one is above
it, also where the two were never compared. The limits respect the order (the better of two has the higher ones): so
both together are an order again, and need no further closure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
        """Return the ranks that are left to a model: after all that are above it, before all that are below it."""
        first, last = self.best[name], len(self.rows) - len(self.below[name])
        return f"{first}" if first == last else f"{first}-{last}"

    def text(self) -> list[str]:
        """Return the lines in words, models with the same ones together: `a, b > c, d`."""
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
