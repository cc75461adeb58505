"""The frozen records that layers hand to one another."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Guarantee = Literal["anytime", "fixed-n", "heuristic"]
"""What the theorem behind a result promises: at every moment, at one planned n, or nothing proven."""

Stopped = Literal["goal", "exhausted", "budget", "contradiction", "running"]
"""Why a session ended (`running`: it has not)."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One question to put to the model: the `index`-th draw is item number `item`.

    `probability` is the chance with which the item was drawn among those not drawn before it.
    """

    index: int
    item: int
    probability: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval [lower, upper] inside [0, 1] that holds the target with the stated confidence."""

    lower: float
    upper: float

    @property
    def half_width(self) -> float:
        return (self.upper - self.lower) / 2

    @property
    def middle(self) -> float:
        return (self.upper + self.lower) / 2

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper


@dataclass(frozen=True, slots=True)
class Result:
    """What a session certifies when it is read: the estimate, its interval and what they rest on."""

    estimate: float
    lower: float
    upper: float
    half_width: float
    confidence: float
    n_evaluated: int
    n_items: int
    saved: float
    stopped: Stopped
    method: str
    guarantee: Guarantee
    target: str
    seed: int
    failures: int = 0
    decision: str | None = None
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values, in declaration order."""
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()
        }
