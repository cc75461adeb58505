"""What a growing session certifies: one record for each version, and all of them together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from cereval.records import Guarantee, Stopped


@dataclass(frozen=True, slots=True)
class Version:
    """One version and what is certified of it: its first `n_items` items, of which it added `n_new`.

    calls: results that it took by itself. n_evaluated: those of all versions so far.
    """

    version: int
    n_items: int
    n_new: int
    calls: int
    n_evaluated: int
    estimate: float
    lower: float
    upper: float
    half_width: float
    stopped: Stopped
    failures: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class GrowingResult:
    """All versions; with the stated confidence everything in it holds at once. Top fields: the last version."""

    versions: tuple[Version, ...]
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
        versions = [version.as_dict() for version in self.versions]
        return {**asdict(self), "versions": versions, "notes": list(self.notes)}
