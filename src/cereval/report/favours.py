"""Which questions were asked, and why: draw chances against those of a uniform draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from cereval.report.story import NO_CATEGORY, Asked

EVEN = 0.05


@dataclass(frozen=True, slots=True)
class CategoryFavour:
    """How much likelier than by chance the drawn questions of a category were, on average over its draws."""

    name: str
    asked: int
    favour: float


@dataclass(frozen=True, slots=True)
class Favours:
    """`even`: no draw was more than a little likelier than a uniform one."""

    even: bool
    least: float
    most: float
    categories: tuple[CategoryFavour, ...]


def category_favours(asked: Sequence[Asked]) -> Favours:
    """From the most to the least favoured category."""
    by_name: dict[str, list[float]] = {}
    for one in asked:
        by_name.setdefault(one.item.category or NO_CATEGORY, []).append(one.favour)
    rows = [CategoryFavour(name, len(values), fmean(values)) for name, values in by_name.items()]
    favours = [one.favour for one in asked] or [1.0]
    even = max(favours) <= 1 + EVEN and min(favours) >= 1 - EVEN
    return Favours(
        even, min(favours), max(favours), tuple(sorted(rows, key=lambda row: (-row.favour, row.name)))
    )
