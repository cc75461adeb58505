"""Draw charts as SVG, by small pure functions. Colours are CSS classes, so that the page's themes apply."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from cereval.records import Step
from cereval.text import money

MOST_POINTS = 300
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 12, 30


class Ends(Protocol):
    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Frame:
    """Map values to the paper: x in calls, y in shares."""

    width: int
    height: int
    calls: int
    low: float
    high: float
    bottom: int = BOTTOM

    def x(self, calls: float) -> float:
        return LEFT + (self.width - LEFT - RIGHT) * calls / max(self.calls, 1)

    def y(self, share: float) -> float:
        inside = min(max(share, self.low), self.high)
        return TOP + (self.height - TOP - self.bottom) * (self.high - inside) / (self.high - self.low)


def narrowing(steps: Sequence[Step], width: int, height: int = 280, least: float = 0.0) -> str:
    """Return the interval over the calls: a band that narrows, the estimate inside it, the final ends as lines.

    least: the smallest value there is; -1 for differences.
    """
    shown, last = thinned(steps), steps[-1]
    frame = Frame(width, height, last.calls, *vertical_range(steps, least))
    forth = [f"{frame.x(step.calls):.1f},{frame.y(step.upper):.1f}" for step in shown]
    back = [f"{frame.x(step.calls):.1f},{frame.y(step.lower):.1f}" for step in reversed(shown)]
    # Before the first result there is no estimate, only the middle of the interval.
    known = [step for step in shown if step.calls] or shown
    line = " ".join(f"{frame.x(step.calls):.1f},{frame.y(step.estimate):.1f}" for step in known)
    parts = [
        *_grid(frame),
        f'<polygon class="band" points="{" ".join(forth + back)}"/>',
        f'<polyline class="line" points="{line}"/>',
        *(_end_line(frame, value) for value in (last.lower, last.upper)),
        f'<circle class="dot" cx="{frame.x(last.calls):.1f}" cy="{frame.y(last.estimate):.1f}" r="4"/>',
    ]
    return _svg(width, height, "".join(parts), "The certified interval after every call")


class Point(Protocol):
    @property
    def eps(self) -> float: ...
    @property
    def calls(self) -> int: ...


def frontier(
    taken: Sequence[Point], expected: Sequence[Point], width: int, usd_each: float | None, height: int = 260
) -> str:
    """Return half-widths over calls: a line for what was taken, dashed what is expected; money below the calls."""
    last = taken[-1]
    high = min(3 * last.eps, 0.5)
    most_calls = max(one.calls for one in expected)
    frame = Frame(width, height, most_calls, 0.0, high, BOTTOM + (16 if usd_each else 0))
    line, dashes = (
        " ".join(f"{frame.x(one.calls):.1f},{frame.y(one.eps):.1f}" for one in points if one.eps <= high)
        for points in (thinned(taken), expected)
    )
    parts = [
        *_grid(frame, "±", usd_each),
        f'<polyline class="line" points="{line}"/>',
        f'<polyline class="line ahead" points="{dashes}"/>',
        f'<circle class="dot" cx="{frame.x(last.calls):.1f}" cy="{frame.y(last.eps):.1f}" r="4"/>',
    ]
    return _svg(width, height, "".join(parts), "The precision over the calls and what they cost")


def fitted(limits: Sequence[Ends]) -> tuple[float, float]:
    """Find the part of [0, 1], in steps of 5%, that holds all intervals: a scale on which they can be told apart.

    >>> from cereval.records import Interval
    >>> fitted([Interval(0.62, 0.71), Interval(0.7, 0.84)])
    (0.6, 0.85)
    """
    low = math.floor(min(one.lower for one in limits) * 20 - 1e-9) / 20
    high = math.ceil(max(one.upper for one in limits) * 20 + 1e-9) / 20
    return max(low, 0.0), min(max(high, low + 0.05), 1.0)


def interval_bar(estimate: float | None, limits: Ends | None, least: float = 0.0, most: float = 1.0) -> str:
    """Return one interval on a line from `least` to `most`; stretches to its cell. Without ends only the estimate is
    marked."""
    parts = ['<rect class="track" x="0" y="8" width="1000" height="4"/>']
    if limits is not None:
        left, right = (1000 * (value - least) / (most - least) for value in (limits.lower, limits.upper))
        parts.append(
            f'<rect class="span" x="{left:.1f}" y="4" width="{max(right - left, 6):.1f}" height="12"/>'
        )
    if estimate is not None:
        place = min(max(1000 * (estimate - least) / (most - least) - 4, 0), 992)
        parts.append(f'<rect class="mark" x="{place:.1f}" y="0" width="8" height="20"/>')
    return (
        '<svg class="bar" viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


T = TypeVar("T")


def thinned(steps: Sequence[T], most: int = MOST_POINTS) -> list[T]:
    """Return at most `most` steps, closer at the start, where most happens; the last is kept."""
    if len(steps) <= most:
        return list(steps)
    last = len(steps) - 1
    places = sorted({round(last * (k / (most - 1)) ** 2) for k in range(most)})
    return [steps[place] for place in places]


def vertical_range(steps: Sequence[Step], least: float = 0.0) -> tuple[float, float]:
    """Give a range in steps of 5% that holds every interval from the first result on: none leaves the paper."""
    shown = [step for step in steps if step.calls] or steps
    low = math.floor(min(step.lower for step in shown) * 20 - 1e-9) / 20
    high = math.ceil(max(step.upper for step in shown) * 20 + 1e-9) / 20
    return max(low, least), min(max(high, low + 0.05), 1.0)


def _grid(frame: Frame, sign: str = "", usd_each: float | None = None) -> list[str]:
    """Return the lines and their labels. usd_each: of a call, where money is told below the calls."""
    parts = []
    for share in ticks(frame.low, frame.high):
        y = frame.y(share)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{frame.width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick end" x="{LEFT - 8}" y="{y + 4:.1f}">{sign}{100 * share:g}%</text>')
    for calls in ticks(0, frame.calls, 4 if frame.width < 500 else 8):
        where = "end" if calls == frame.calls else "middle"
        x, y = frame.x(calls), frame.height - 10 - (frame.bottom - BOTTOM)
        parts.append(f'<text class="tick {where}" x="{x:.1f}" y="{y}">{calls:,.0f}</text>')
        if usd_each:
            usd = money(calls * usd_each) if calls else "$0"
            parts.append(f'<text class="tick {where}" x="{x:.1f}" y="{y + 16}">{usd}</text>')
    return parts


def _end_line(frame: Frame, share: float) -> str:
    y = frame.y(share)
    return f'<line class="final" x1="{LEFT}" x2="{frame.width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values from low to high, `most` or fewer.

    >>> ticks(0, 1940), ticks(0.3, 0.55)
    ([0.0, 500.0, 1000.0, 1500.0], [0.3, 0.35, 0.4, 0.45, 0.5, 0.55])
    """
    room = max(high - low, 1e-9)
    power = 10.0 ** math.floor(math.log10(room / most))
    step = next(power * k for k in (1, 2, 5, 10, 20) if room / (power * k) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(step * k, 10) for k in range(first, last + 1)]


def _svg(width: int, height: int, inside: str, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{title}" '
        f'width="{width}" height="{height}">{inside}</svg>'
    )
