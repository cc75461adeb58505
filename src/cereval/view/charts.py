"""Charts that only the view has: every run on one data set, over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from cereval.report.svg import ticks
from cereval.text import interval, printable, shortened

WIDTH, LEFT, RIGHT, TOP, ROW = 720, 230, 20, 14, 26
LONGEST_NAME = 30


def trend(found: Sequence[Mapping[str, Any]]) -> str:
    """Draw an interval for every run that has one, oldest first, on one scale that holds them all."""
    rows = [one for one in found if one["lower"] is not None and one["estimate"] is not None]
    if not rows:
        return ""
    low = min(one["lower"] for one in rows)
    high = max(one["upper"] for one in rows)
    room = max(high - low, 0.02)
    low, high = max(low - 0.05 * room, 0.0), min(high + 0.05 * room, 1.0)
    height = TOP + ROW * len(rows) + 24

    def x(share: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (share - float(low)) / float(high - low)

    parts = []
    for share in ticks(low, high):
        place = x(share)
        parts.append(
            f'<line class="grid" x1="{place:.1f}" x2="{place:.1f}" y1="{TOP - 6}" y2="{height - 22}"/>'
        )
        parts.append(f'<text class="tick middle" x="{place:.1f}" y="{height - 6}">{100 * share:g}%</text>')
    for number, one in enumerate(rows):
        parts.append(
            _row(one, TOP + ROW * number + ROW / 2, x(one["lower"]), x(one["estimate"]), x(one["upper"]))
        )
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="The certified interval of every run, oldest first">{"".join(parts)}</svg>'
    )


def _row(one: Mapping[str, Any], y: float, left: float, middle: float, right: float) -> str:
    name = escape(printable(shortened(str(one["model"]), LONGEST_NAME), LONGEST_NAME))
    when = escape(printable(str(one["at"])[:10], 10))
    said = escape(f"{when} {interval(one['lower'], one['upper'])}")
    return (
        f"<g><title>{name}: {said}</title>"
        f'<text class="model end" x="{LEFT - 12}" y="{y + 4:.1f}">{name} <tspan class="tick">{when[5:]}</tspan></text>'
        f'<rect class="span" x="{left:.1f}" y="{y - 6:.1f}" width="{max(right - left, 2):.1f}" height="12"/>'
        f'<rect class="mark" x="{middle - 2:.1f}" y="{y - 9:.1f}" width="4" height="18"/></g>'
    )
