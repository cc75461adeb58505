"""`Ranking`: what a rank session certifies when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cereval.records import Guarantee, Stopped

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ModelInterval:
    """One model's mean score on all items: estimated, certified limits, and how many items it answered."""

    estimate: float
    lower: float
    upper: float
    n: int

    def as_dict(self) -> dict[str, Any]:
        return {"estimate": self.estimate, "lower": self.lower, "upper": self.upper, "n": self.n}


@dataclass(frozen=True, slots=True)
class Ranking:
    """A certified partial order of models.

    order: every [better, worse] that is certified, transitively closed. ties: pairs left unordered as ties; with
    `ties_proven` their difference is certified to be below the tie, else it is only unlikely not to be.
    winners, eliminated: the top k and the models certified out of it, or those that beat the baseline and those
    that are worse. intervals: each model's mean. All that is certified holds at once, with
    probability >= confidence, at every moment of the session. calls_full: what asking every model
    every item takes.
    """

    models: tuple[str, ...]
    goal: Mapping[str, Any]
    order: tuple[Pair, ...]
    ties: tuple[Pair, ...]
    ties_proven: bool
    undecided: tuple[Pair, ...]
    winners: tuple[str, ...]
    eliminated: tuple[str, ...]
    intervals: Mapping[str, ModelInterval]
    calls: int
    calls_full: int
    saved: float
    n_items: int
    confidence: float
    stopped: Stopped
    seed: int
    failures: int = 0
    method: str = "pairs"
    guarantee: Guarantee = "anytime"
    target: str = "benchmark"
    notes: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values, in declaration order."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        pairs = {name: [list(pair) for pair in plain[name]] for name in ("order", "ties", "undecided")}
        lists = {name: list(plain[name]) for name in ("models", "winners", "eliminated", "notes")}
        intervals = {name: interval.as_dict() for name, interval in self.intervals.items()}
        return {**plain, **pairs, **lists, "goal": dict(self.goal), "intervals": intervals}
