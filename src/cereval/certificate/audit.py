"""The interval computed a second time, slowly and obviously, straight from the formulas.

The audit shares nothing with `stats.increments`, `stats.betting`, `stats.bets` and `stats.evidence` but their
tuning constants: sums over the unseen items are taken anew at every step, and every value has its own wealth.
The forecasts g, draw weights w and the variance expected of an increment are handed in: the theorem holds for any
that depend on the past alone.

With S the items seen, U those unseen, pi the target's weights, q = w / W on U, W = sum_U w:

    X = sum_S pi z + sum_U pi g + (z_I - g_I) pi_I / q_I
    K+(m) *= 1 + lambda (X - m)        K-(m) *= 1 - lambda (X - m)
"""

from __future__ import annotations

from dataclasses import dataclass

from cereval.certificate.book import Book
from cereval.certificate.case import Case
from cereval.certificate.clock import SlowClock
from cereval.certificate.games import Table, Test
from cereval.methods.certified import LOGICAL_SLACK, RESERVE
from cereval.records import Interval


@dataclass(frozen=True, slots=True)
class Audited:
    """What the audit found; `chances` are those of the draws under the stated weights."""

    interval: Interval
    mean: float
    contradiction: bool
    chances: tuple[float, ...]


def audit(case: Case) -> Audited:
    """Replays all results through the formulas."""
    book, clock = Book(case), SlowClock()
    threshold = case.aims[0].threshold
    test = None if threshold is None or case.given_up else Test(threshold, (1 - RESERVE) * case.delta)
    table = None if test is not None else Table(case)
    chances = []
    for number, result in enumerate(case.seen):
        position = book.position(number)
        chance, low, high = book.increment(position, result)
        chances.append(chance)
        for game in (test, table):
            if game is not None:
                game.play(number, position, clock, low, high)
        clock.add((low + high) / 2, position.variance, position.largest_square, position.level)
        book.enter(result)
    bets = test.interval if test is not None else table.interval if table is not None else Interval(0.0, 1.0)
    return _concluded(book, bets, clock.mean, table is not None and table.crossed, tuple(chances))


def _concluded(book: Book, bets: Interval, mean: float, crossed: bool, chances: tuple[float, ...]) -> Audited:
    logical = book.logical()
    lower, upper = max(logical.lower, bets.lower), min(logical.upper, bets.upper)
    contradiction = crossed or lower > upper + LOGICAL_SLACK
    interval = logical if contradiction or book.complete else Interval(lower, upper)
    return Audited(interval, mean, contradiction, chances)
