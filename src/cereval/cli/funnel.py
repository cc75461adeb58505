"""The interval over the calls as a few rows of half-block characters: a funnel that narrows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cereval.records import Interval


@dataclass(frozen=True, slots=True)
class Moment:
    """What was certified after so many calls."""

    calls: int
    estimate: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Cell:
    """One character, and whether the estimate lies in it."""

    letter: str
    estimate: bool = False


def funnel(moments: Sequence[Moment], calls: int, width: int, height: int) -> list[list[Cell]]:
    """Rows of cells, the top first; the last column stands for `calls`, columns not reached yet are blank.

    >>> moments = [Moment(0, 0.5, Interval(0.0, 1.0)), Moment(4, 0.5, Interval(0.25, 0.75))]
    >>> for row in funnel(moments, calls=4, width=4, height=2):
    ...     "".join(cell.letter for cell in row)
    '███▄'
    '███▀'
    """
    # The first column is there from the start: an empty picture would look broken.
    reached = [
        min(calls / width, moments[-1].calls),
        *(calls * (column + 2) / width for column in range(width - 1)),
    ]
    columns = [_at(moments, at) for at in reached]
    low, high = value_range(moments)
    return [[_cell(moment, row, height, low, high) for moment in columns] for row in range(height)]


def value_range(moments: Sequence[Moment]) -> tuple[float, float]:
    """From the interval at a tenth of the moments, in steps of 5%: the first ones may leave the picture."""
    early = moments[len(moments) // 10].interval
    low, high = math.floor(early.lower * 20 + 1e-9) / 20, math.ceil(early.upper * 20 - 1e-9) / 20
    return low, max(high, low + 0.05)


def _at(moments: Sequence[Moment], calls: float) -> Moment | None:
    """The newest moment that a column reaches; None beyond the last."""
    from bisect import bisect_right

    if calls > moments[-1].calls:
        return None
    return moments[bisect_right(moments, calls, key=lambda moment: moment.calls) - 1]


def _cell(moment: Moment | None, row: int, height: int, low: float, high: float) -> Cell:
    if moment is None:
        return Cell(" ")
    step = (high - low) / (2 * height)
    top = high - 2 * row * step
    upper, lower = (_covers(moment.interval, top - half * step - step, step) for half in (0, 1))
    inside = top - 2 * step < moment.estimate <= top
    return Cell({(True, True): "█", (True, False): "▀", (False, True): "▄"}.get((upper, lower), " "), inside)


def _covers(interval: Interval, floor: float, step: float) -> bool:
    """Whether the middle of a half cell lies in the interval; a narrow one still fills the half it is in."""
    middle = floor + step / 2
    return interval.lower <= middle <= interval.upper or floor < interval.middle <= floor + step
