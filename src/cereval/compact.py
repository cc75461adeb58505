"""Long lists of draws and numbers at eight bytes a number, so that a run of millions of calls stays small.

A list of Python objects takes some 200 bytes for one draw and 400 for one prospect; these give the same values
back, bit for bit.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from math import isnan, nan
from operator import attrgetter
from typing import Generic, TypeVar, overload

from cereval.records import Draw

T = TypeVar("T")


class Rows:
    """Append-only rows of `width` floats.

    >>> rows = Rows(2)
    >>> rows.append((0.5, 1.0))
    >>> rows[0], len(rows), list(rows)
    ((0.5, 1.0), 1, [(0.5, 1.0)])
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._numbers = array("d")

    def append(self, row: Sequence[float]) -> None:
        assert len(row) == self.width
        self._numbers.extend(row)

    def __len__(self) -> int:
        return len(self._numbers) // self.width

    def __getitem__(self, index: int) -> tuple[float, ...]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return tuple(self._numbers[index * self.width : (index + 1) * self.width])

    def __iter__(self) -> Iterator[tuple[float, ...]]:
        return (self[index] for index in range(len(self)))


class Records(Generic[T]):
    """Append-only instances of a dataclass of two or more floats.

    >>> from cereval.records import Interval
    >>> records = Records(Interval)
    >>> records.append(Interval(0.25, 0.5))
    >>> list(records)
    [Interval(lower=0.25, upper=0.5)]
    """

    def __init__(self, kind: Callable[..., T]) -> None:
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
        self._kind, self._values, self._rows = kind, attrgetter(*names), Rows(len(names))

    def append(self, record: T) -> None:
        self._rows.append(self._values(record))

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[T]:
        return (self._kind(*row) for row in self._rows)


class Draws(Sequence[Draw]):
    """Draws in draw order: the index is the place.

    >>> draws = Draws()
    >>> draws.append(Draw(0, 7, 0.1))
    >>> draws[0], draws[-1] == Draw(0, 7, 0.1)
    (Draw(index=0, item=7, probability=0.1), True)
    """

    def __init__(self) -> None:
        self._items, self._chances = array("q"), array("d")

    def append(self, draw: Draw) -> None:
        assert draw.index == len(self)
        self._items.append(draw.item)
        self._chances.append(draw.probability)

    def extend(self, draws: Iterable[Draw]) -> None:
        for draw in draws:
            self.append(draw)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Draw: ...
    @overload
    def __getitem__(self, index: slice) -> list[Draw]: ...
    def __getitem__(self, index: int | slice) -> Draw | list[Draw]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        return Draw(place, self._items[place], self._chances[place])


class Scores(Sequence[float | None]):
    """Scores, None where there is none.

    >>> scores = Scores()
    >>> scores.extend([None, None])
    >>> scores[1] = 0.25
    >>> list(scores)
    [None, 0.25]
    """

    def __init__(self) -> None:
        self._numbers = array("d")

    def extend(self, scores: Iterable[float | None]) -> None:
        self._numbers.extend(nan if score is None else score for score in scores)

    def __setitem__(self, index: int, score: float | None) -> None:
        self._numbers[index] = nan if score is None else score

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> float | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[float | None]: ...
    def __getitem__(self, index: int | slice) -> float | list[float | None] | None:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        number = self._numbers[index]
        return None if isnan(number) else number
