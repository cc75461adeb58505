"""State how far a judge agrees with people, from two certified shares.

A judge has called every answer right or wrong, and people have labelled a few. Let p be the share that people call
right among the answers that the judge calls right, and r that share among those it calls wrong. The judge's own counts
are known, so p and r fill the whole table of verdicts and labels, and every measure is a function of them.

Theorem. Let p lie in [p1, p2] and r in [r1, r2]. Then agreement, kappa, sensitivity and specificity lie between their
values at (p1, r2) and at (p2, r1); the judge's leniency, its share of right answers less that of people, lies between
its values at (p2, r2) and at (p1, r1). Two intervals that hold at once so give all measures at once, at no further
cost.

Proof. Let a be the share that the judge calls right, x = a p, y = (1 - a) r. Agreement x + 1 - a - y, sensitivity
x / (x + y) and specificity (1 - a - y) / (1 - x - y) grow with x and fall with y. So does kappa (Cohen 1960), which is
2 ((1 - a) x - a y) / (a + (1 - 2a)(x + y)): the sign of its slope in x is that of a (1 - a) + (1 - 2a) y, and in y
that of -a^2 - (1 - 2a) x. Both are linear; at the ends y = 0 and y = 1 - a the first is a (1 - a) and (1 - a)^2, at
x = 0 and x = a the second is -a^2 and -a (1 - a). Leniency a - x - y falls with both.
"""

from __future__ import annotations

from typing import NamedTuple

from cereval.records import Interval, Part

NAMES = ("agreement", "kappa", "sensitivity", "specificity", "leniency")


class Share(NamedTuple):
    """Hold a share of `size` answers, as it is estimated and what it certainly lies in."""

    size: int
    estimate: float
    limits: Interval


def measures(right: Share, wrong: Share) -> tuple[Part, ...]:
    """Return the measures in the order of `NAMES`. right, wrong: what people call right, by the judge's verdict.

    >>> for one in measures(Share(60, 0.9, Interval(0.8, 0.95)), Share(40, 0.2, Interval(0.1, 0.3))):
    ...     print(f"{one.name} {one.estimate:.3f} ({one.lower:.3f} to {one.upper:.3f})")
    agreement 0.860 (0.760 to 0.930)
    kappa 0.706 (0.500 to 0.854)
    sensitivity 0.871 (0.800 to 0.934)
    specificity 0.842 (0.700 to 0.923)
    leniency -0.020 (-0.090 to 0.080)
    """
    a = right.size / (right.size + wrong.size)
    (p, low_p, high_p), (r, low_r, high_r) = (
        (one.estimate, one.limits.lower, one.limits.upper) for one in (right, wrong)
    )
    least, most, middle = _table(a, low_p, high_r, 0.0), _table(a, high_p, low_r, 1.0), _table(a, p, r, 0.5)
    least[-1], most[-1] = _table(a, high_p, high_r, 0.0)[-1], _table(a, low_p, low_r, 0.0)[-1]
    values = zip(NAMES, middle, least, most, strict=True)
    return tuple(Part(name, min(max(value, low), high), low, high) for name, value, low, high in values)


def _table(a: float, p: float, r: float, undefined: float) -> list[float]:
    """Return the measures at one point. undefined: what a share of nothing is taken for."""
    x, y = a * p, (1 - a) * r

    def ratio(part: float, whole: float) -> float:
        return part / whole if whole > 1e-12 else undefined

    kappa = ratio(2 * ((1 - a) * x - a * y), a + (1 - 2 * a) * (x + y))
    return [x + 1 - a - y, kappa, ratio(x, x + y), ratio(1 - a - y, 1 - x - y), a - x - y]
