"""What floating point may cost, and how to pay for it: bounds on sums, exact sums, and quantiles of thin tails.

Rounding may only widen an interval, so limits that come from sums are moved outwards by these bounds. An addition errs
by at most 2^-53 of its result; a sum that stays within [0, 1] by at most 2^-53 for each of its terms (Higham 2002,
chapter 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from math import fsum
from sys import float_info

from scipy.special import ndtri

UNIT = 2.0**-53
SUM_SLACK = 1e-12  # The least absolute widening: enough for 2,251 terms
RANGE_SLACK = 1e-9  # The least relative widening


def sum_slack(terms: float) -> float:
    """How far off a limit may be that adds a sum over the seen items and one over the unseen, with a factor 2 to spare.

    >>> sum_slack(1000), sum_slack(100_000) > 4e-11
    (1e-12, True)
    """
    return max(SUM_SLACK, 4 * terms * UNIT)


def range_slack(terms: int, left: float) -> float:
    """How far off a sum may be, relative to itself, once subtractions have left this share of it.

    >>> range_slack(10_000, 1 / 64), range_slack(1_000_000, 1 / 64) > 1e-8
    (1e-09, True)
    """
    return max(RANGE_SLACK, 2 * terms * UNIT / left)


def within(width: float, eps: float) -> bool:
    """Whether a width is at most eps, up to rounding: limits lie on grids that eps is a multiple of, and whether their
    difference is eps or its neighbour among the floats must not depend on the processor.

    >>> within(0.3 - 0.1, 0.2), within(0.1 + 0.2, 0.3), within(0.3001, 0.3)
    (True, True, False)
    """
    return width <= eps + 16 * UNIT


class RunningSum:
    """A growing sum, exact to the last digit: what `fsum` gives for all terms, without going through them again.

    It keeps a handful of numbers that do not overlap and add up to the exact sum (Shewchuk 1997).
    """

    def __init__(self) -> None:
        self._parts: list[float] = []

    def add(self, term: float) -> None:
        kept = 0
        for part in self._parts:
            large, small = (term, part) if abs(term) >= abs(part) else (part, term)
            term = large + small
            rest = small - (term - large)
            if rest:
                self._parts[kept] = rest
                kept += 1
        self._parts[kept:] = [term]

    @property
    def value(self) -> float:
        return fsum(self._parts)


def mean_of(values: Sequence[float]) -> float:
    """The mean, exact to the last digit: the mean of equal numbers is that number.

    A correctly rounded sum divided by the count may be one digit off, which would put a mean below a threshold that it
    equals. What the first quotient leaves over is exact, and is divided once more.

    >>> fsum([0.1] * 43) / 43 < 0.1, mean_of([0.1] * 43) == 0.1
    (True, True)
    """
    count = len(values)
    first = fsum(values) / count
    return first + fsum(chain(values, repeat(-first, count))) / count


def upper_quantile(tail: float) -> float:
    """What a standard normal number exceeds with probability `tail`, also where 1 - tail rounds to 1.

    >>> round(upper_quantile(0.025), 3), round(upper_quantile(1e-17), 3)
    (1.96, 8.494)
    """
    # Two forms: their last digits differ, and all certificates so far rest on the first.
    return float(ndtri(1 - tail) if tail > float_info.epsilon else -ndtri(tail))
