"""Draw items, or take the draws that a log has.

The log decides. A run that goes on, perhaps on another machine, takes the draws that it made with the probabilities
that they were made with, and draws on from what they left. The theorem (`stats.increments`) needs no more: the
probability of a draw is the one that was used, whatever is drawn later comes from this machine's own random numbers,
which know nothing of the scores, and the forecasts are functions of the past, on whatever machine they are computed.

A log whose probabilities differ from those computed here by more than a millionth is refused in any case: bets are
limited by the largest increment that this machine's weights allow.

Only `verify` asks whether the seed leads to these draws (`check`). Processors add in different orders, so a draw that
lost by less than a millionth may have won elsewhere, and is no contradiction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cereval.arrays import Floats, Ints
from cereval.errors import LogMismatch
from cereval.records import Draw

TOLERANCE = 1e-6
"""By how much, relative to it, a number of a log may differ from the same number computed here."""
SUM_TOLERANCE = 1e-9  # The same of a sum over all items


def draw_order(rng: np.random.Generator, size: int, log: Sequence[Draw], *, check: bool = False) -> Ints:
    order = rng.permutation(size)
    if not log:
        return order
    drawn = _logged_items(log, np.ones(size), once=True)
    if check:
        check_items(log, order[: len(drawn)])
    return np.concatenate((drawn, order[~np.isin(order, drawn)]))


def draw_without_replacement(
    rng: np.random.Generator, weights: Floats, count: int, log: Sequence[Draw] = (), *, check: bool = False
) -> tuple[Ints, Floats]:
    """The first `count` items drawn one after the other, each with chance w / (sum of the w left), and these chances.

    The exponential race: give item i the arrival time E_i / w_i with E_i standard exponential; the next to
    arrive among those left is i with chance w_i / sum w, by the memoryless property (Rosen 1997). One partial sort.
    The items of the log are taken to have arrived first, in its order.
    """
    positive = np.flatnonzero(weights > 0)
    arrivals = np.full(len(weights), np.inf)
    arrivals[positive] = rng.standard_exponential(len(positive)) / weights[positive]
    if log:
        drawn = _logged_items(log, weights, once=True)
        if check:
            _check_race(log, drawn, arrivals)
        arrivals[drawn] = np.arange(-len(drawn), 0)
    arrivals, count = arrivals[positive], min(count, len(positive))
    first = np.arange(len(positive))
    if count < len(positive):
        first = np.argpartition(arrivals, count - 1)[:count]
    first = first[np.argsort(arrivals[first], kind="stable")]
    items = positive[first]
    chosen = weights[items]
    rest = float(np.delete(weights[positive], first).sum())
    left = np.cumsum(chosen[::-1])[::-1] + rest
    return items.astype(np.int64), logged_chances(np.minimum(chosen / left, 1.0), log)


def draw_with_replacement(
    rng: np.random.Generator, weights: Floats, count: int, log: Sequence[Draw] = (), *, check: bool = False
) -> tuple[Ints, Floats]:
    ends = np.cumsum(weights)
    points = rng.random(count) * ends[-1]
    last = int(np.flatnonzero(weights)[-1])
    items = np.minimum(np.searchsorted(ends, points, side="right"), last)
    if log:
        drawn = _logged_items(log, weights)
        if check:
            # Sums of many weights differ by more than one weight does; but no neighbour may pass for an item.
            slack, near = np.minimum(SUM_TOLERANCE * ends[-1], 1e-3 * weights[drawn]), points[: len(drawn)]
            fits = (near <= ends[drawn] + slack) & (near >= ends[drawn] - weights[drawn] - slack)
            check_items(log, np.where(fits, drawn, items[: len(drawn)]))
        items[: len(drawn)] = drawn
    return items.astype(np.int64), logged_chances(weights[items] / weights.sum(), log)


def logged_chances(chances: Floats, log: Sequence[Draw]) -> Floats:
    """The chances, those of the log as it has them; refuse a log that other chances were used for."""
    if not log:
        return chances
    stored = np.array([draw.probability for draw in log])
    wrong = ~(np.abs(stored - chances[: len(log)]) <= TOLERANCE * chances[: len(log)])
    if wrong.any():
        draw, own = log[int(wrong.argmax())], chances[int(wrong.argmax())]
        raise LogMismatch(
            f"draw {draw.index} has item {draw.item} with probability {draw.probability:.9g}, "
            f"where {own:.9g} is computed"
        )
    return np.concatenate((stored, chances[len(log) :]))


def _logged_items(log: Sequence[Draw], weights: Floats, *, once: bool = False) -> Ints:
    """The items of a log, each of which could be drawn; once: none may come twice."""
    for draw in log:
        named = f"draw {draw.index} has item {draw.item}, which"
        if not 0 <= draw.item < len(weights):
            raise LogMismatch(f"{named} is not in 0..{len(weights) - 1}")
        if not weights[draw.item] > 0:
            raise LogMismatch(f"{named} was drawn before or has no weight")
    if once:
        seen: set[int] = set()
        for draw in log:
            if draw.item in seen:
                raise LogMismatch(f"draw {draw.index} has item {draw.item}, which was drawn before")
            seen.add(draw.item)
    return np.array([draw.item for draw in log], dtype=np.int64)


def check_items(log: Sequence[Draw], expected: Ints) -> None:
    for draw, item in zip(log, expected.tolist(), strict=True):
        if draw.item != item:
            raise _other_item(draw, item)


def _check_race(log: Sequence[Draw], drawn: Ints, arrivals: Floats) -> None:
    """Refuse a log in which an item comes before one that arrived noticeably sooner."""
    others = arrivals.copy()
    others[drawn] = np.inf
    soonest, item = float(others.min()), int(others.argmin())
    for draw in reversed(log):
        arrival = float(arrivals[draw.item])
        if arrival > (1 + TOLERANCE) * soonest:
            raise _other_item(draw, item)
        if arrival < soonest:
            soonest, item = arrival, draw.item


def _other_item(draw: Draw, item: int) -> LogMismatch:
    return LogMismatch(f"draw {draw.index} would have been item {item}; the log has item {draw.item}")
