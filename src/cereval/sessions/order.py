"""`Diagram`: a certified order from top to bottom: who is above whom, without the lines that follow from others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Diagram:
    """The models from top to bottom, and for each the ones below it: all, and those with nothing between."""

    rows: tuple[str, ...]
    below: Mapping[str, frozenset[str]]
    lines: Mapping[str, tuple[str, ...]]
    best: Mapping[str, int]

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Diagram:
        """From a ranking's fields.

        >>> means = {name: {"estimate": value} for name, value in (("a", 0.9), ("b", 0.5), ("c", 0.6))}
        >>> pairs = [["a", "b"], ["a", "c"], ["b", "c"]]
        >>> goal = {"goal": "order"}
        >>> diagram = Diagram.of({"models": ["c", "b", "a"], "order": pairs, "intervals": means, "goal": goal})
        >>> diagram.rows, diagram.text()
        (('a', 'b', 'c'), ['a > b', 'b > c'])
        """
        below: dict[str, set[str]] = {name: set() for name in result["models"]}
        for better, worse in result["order"]:
            below[better].add(worse)
        rows = _extension(below, {name: result["intervals"][name]["estimate"] for name in below})
        lines = {
            name: tuple(x for x in rows if x in below[name] and not any(x in below[y] for y in below[name]))
            for name in rows
        }
        best = {name: 1 + sum(name in others for others in below.values()) for name in rows}
        if result["goal"]["goal"] == "top":
            best |= {name: max(best[name], 1 + result["goal"]["k"]) for name in result["eliminated"]}
        return cls(rows, {name: frozenset(names) for name, names in below.items()}, lines, best)

    def ranks(self, name: str) -> str:
        """The ranks that are left to a model: after all that are above it, before all that are below it."""
        first, last = self.best[name], len(self.rows) - len(self.below[name])
        return f"{first}" if first == last else f"{first}-{last}"

    def text(self) -> list[str]:
        """The lines in words, models with the same ones together: `a, b > c, d`."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for name in self.rows:
            if self.lines[name]:
                groups.setdefault(self.lines[name], []).append(name)
        return [f"{', '.join(better)} > {', '.join(worse)}" for worse, better in groups.items()]


def _extension(below: Mapping[str, set[str]], estimates: Mapping[str, float]) -> tuple[str, ...]:
    """The models by estimate, but never one before a model that is certified better."""
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
