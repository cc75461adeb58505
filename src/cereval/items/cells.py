"""Put the items of a large pool into cells: alike in history, category and order of weight, they share a forecast.

A forecast and a draw weight for each of ten million items take seconds and gigabytes whenever results come in. Most of
that is repetition: five past 0/1 models and fifty categories tell at most 12,150 kinds of items apart (1,600 where
every past model was asked everything). So large pools are forecast cell by cell, and a refit costs O(cells).

What is certified does not change. Increments are unbiased for any forecast g and any draw chances q that depend on the
past alone (`stats.increments`); forecasts that are constant within a cell are such, and an item of cell c is drawn with
the chance pi_i w_c / sum (`stats.crowds`). Rounding a history can cost calls, never validity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cereval.items.pool import Pool

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ALONE = 200_000
"""Items up to which each has a forecast of its own. With five past models and fifty categories, 100,000 take 3 ms a
draw, most of it for refits of up to 50 ms, and 1.3 s and 250 MB to open (`benchmarks.scale`): all of it linear."""

MOST_CELLS = 50_000
"""Cells at most: a refit stays below a second, and a cell's number fits into two bytes."""

LEVELS = (16, 8, 4, 2, 1)
"""Steps into which past scores are rounded, the finest that makes no more than `MOST_CELLS` cells."""

CHUNK = 1 << 18
"""Items looked at together: a few megabytes for every temporary array."""

LARGEST_CODE = 2**62

EXPONENTS = 1100
"""Binary exponents that a weight in [0, 1] can have, 0 for the weight 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Hold the cell of every item, and the cells as a pool of their own, with the mean history of their members.

    counts, masses: how many items that can be drawn a cell has, and their share of the target.

    >>> cells = cells_of(Pool.build(6, history=[0.0, 1.0, 0.98, 0.0, np.nan, 1.0]))
    >>> cells.of_item.tolist(), cells.counts.tolist()
    ([0, 1, 1, 0, 2, 1], [2, 3, 1])
    """

    pool: Pool
    of_item: NDArray[np.integer]
    counts: Integers
    masses: Floats


def suits(pool: Pool) -> bool:
    """Tell whether items can be told apart by cells: not by embeddings, where no two are alike."""
    return pool.embeddings is None and (pool.history is not None or pool.groups is not None)


def cells_of(pool: Pool) -> Cells:
    """Put the items into cells: by rounded scores, or where that makes too many by their place on a few main axes."""
    kinds = _kinds(pool)
    if pool.history is None:
        return _summed(pool, _numbered(kinds, _distinct(kinds, pool.size), pool.size))
    for levels in LEVELS:
        codes = kinds.within(_rounded(pool.history, levels))
        found = _distinct(codes, pool.size, MOST_CELLS)
        if len(found) <= MOST_CELLS:
            return _summed(pool, _numbered(codes, found, pool.size))
    codes = kinds.within(_placed(pool.history, MOST_CELLS // len(_distinct(kinds, pool.size))))
    return _summed(pool, _numbered(codes, _distinct(codes, pool.size), pool.size))


@dataclass(frozen=True, slots=True, eq=False)
class _Codes:
    """Number items by what they have in common: `of` gives the numbers of a stretch of them, all below `size`."""

    size: int
    of: Callable[[slice], Integers]

    def within(self, other: _Codes) -> _Codes:
        """Tell apart what either tells apart."""
        return _Codes(other.size * self.size, lambda part: other.of(part) * self.size + self.of(part))


def _kinds(pool: Pool) -> _Codes:
    """Number items by their category and the binary exponent of their weight.

    Weights of one cell are then within a factor of 2 of one another, so that drawing an item of it takes no more than
    two tries on average (`methods.crowded`).
    """
    groups, weights = pool.groups, pool.weights
    codes = _Codes(1, lambda part: np.zeros(part.stop - part.start, dtype=np.int64))
    if groups is not None:
        codes = _Codes(int(groups.max()) + 1, lambda part: groups[part])
    if weights is not None:
        codes = codes.within(_Codes(EXPONENTS, lambda part: _exponents(weights[part])))
    return codes


def _exponents(weights: Floats) -> Integers:
    return np.where(weights > 0, np.frexp(weights)[1].astype(np.int64) + EXPONENTS - 2, 0)


def _rounded(history: Floats, levels: int) -> _Codes:
    """Number items by their past scores, rounded to so many steps; a missing score is a step of its own."""
    base = levels + 2

    def of(part: slice) -> Integers:
        rows = history[part]
        steps = np.where(np.isnan(rows), levels + 1.0, np.rint(rows * levels)).astype(np.int64)
        codes = np.zeros(len(rows), dtype=np.int64)
        for column in steps.T:
            codes = codes * base + column
        return codes

    return _Codes(base ** history.shape[1], of)


def _placed(history: Floats, bins: int) -> _Codes:
    """Number items by bins of their places on the main axes of the past scores: for many past models.

    The first axis gets half of the bits that are there, the second half of the rest, and so on. Bins hold about as
    many items each (quantiles of a sample).
    """
    sample = history[:: -(-len(history) // CHUNK)]
    means = np.where(np.isfinite(sample), sample, 0.0).sum(axis=0)
    means = means / np.maximum(np.isfinite(sample).sum(axis=0), 1)
    centred = np.where(np.isfinite(sample), sample - means, 0.0)
    bits, edges = int(np.log2(max(bins, 1))), []
    for axis in np.linalg.eigh(centred.T @ centred)[1].T[::-1]:
        mine = -(-bits // 2)
        bits -= mine
        inner = np.linspace(0.0, 1.0, 2**mine + 1)[1:-1]
        edges.append((axis, np.unique(np.quantile(centred @ axis, inner))))

    def of(part: slice) -> Integers:
        rows = history[part]
        there = np.where(np.isfinite(rows), rows - means, 0.0)
        codes = np.zeros(len(rows), dtype=np.int64)
        for axis, ends in edges:
            if len(ends):
                codes = codes * (len(ends) + 1) + np.searchsorted(ends, there @ axis)
        return codes

    return _Codes(2 ** int(np.log2(max(bins, 1))), of)


# -- numbers of cells -------------------------------------------------------------------------------------------------


def _numbered(codes: _Codes, found: Integers, size: int) -> NDArray[np.integer]:
    """Return the cell of every item: the place of its code among those found."""
    of_item: NDArray[np.integer] = np.empty(size, dtype=np.uint16 if len(found) <= 2**16 else np.int32)
    for part in _parts(size):
        of_item[part] = np.searchsorted(found, codes.of(part))
    return of_item


def _distinct(codes: _Codes, size: int, most: int | None = None) -> Integers:
    """Return the codes that there are, in order; where they are more than `most`, the first that were found.

    Codes that do not fit into an integer are not looked at: what is returned has one more than `most`.
    """
    if codes.size >= LARGEST_CODE:
        assert most is not None
        return np.arange(most + 1)
    found = np.empty(0, dtype=np.int64)
    for part in _parts(size):
        found = np.union1d(found, codes.of(part))
        if most is not None and len(found) > most:
            break
    return found


def _parts(size: int) -> Iterator[slice]:
    return (slice(start, min(start + CHUNK, size)) for start in range(0, size, CHUNK))


# -- sums over cells --------------------------------------------------------------------------------------------------


def _summed(pool: Pool, of_item: NDArray[np.integer]) -> Cells:
    """Count the members of each cell, and take the mean of their histories."""
    size = int(of_item.max()) + 1
    members, masses = np.zeros(size, dtype=np.int64), np.zeros(size)
    width = 0 if pool.history is None else pool.history.shape[1]
    sums, seen = np.zeros((size, width)), np.zeros((size, width))
    groups = None if pool.groups is None else np.zeros(size, dtype=np.int64)
    for part in _parts(pool.size):
        cells = of_item[part]
        if pool.weights is None:
            members += np.bincount(cells, minlength=size)
        else:
            weights = pool.weights[part]
            members += np.bincount(cells[weights > 0], minlength=size)
            masses += np.bincount(cells, weights, minlength=size)
        if groups is not None and pool.groups is not None:
            groups[cells] = pool.groups[part]
        for column in range(width):
            assert pool.history is not None
            values = pool.history[part, column]
            there = np.isfinite(values)
            sums[:, column] += np.bincount(cells[there], values[there], minlength=size)
            seen[:, column] += np.bincount(cells[there], minlength=size)
    means = np.where(seen > 0, sums / np.maximum(seen, 1.0), np.nan) if width else None
    # Where no item of a cell can be drawn, none counts.
    alone = Pool(size, None, None, groups, means, members.astype(np.float64))
    return Cells(alone, of_item, members, masses if pool.weights is not None else members / pool.size)
