"""Keep numbers in little room: long lists at eight bytes a number in memory, tables as short JSON.

A list of Python objects takes some 200 bytes for one draw and 400 for one prospect; the lists here give the same
values back, bit for bit. Packed tables are little-endian 64-bit values, row by row, zlib, base64.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan, nan
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from cereval.errors import InvalidInput
from cereval.records import Draw

T = TypeVar("T")


class Rows:
    """Keep append-only rows of `width` floats.

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


class Draws(Sequence[Draw]):
    """Keep draws in draw order: the index is the place.

    >>> draws = Draws()
    >>> draws.append(Draw(0, 7, 0.1))
    >>> draws[0], draws[-1] == Draw(0, 7, 0.1)
    (Draw(index=0, item=7, probability=0.1, models=(0,)), True)
    """

    def __init__(self, models: tuple[int, ...] | None = (0,)) -> None:
        """Take the `models` that every draw asks; None: each draw asks one, and says which."""
        self._items, self._chances = array("q"), array("d")
        self._models, self._asked = models, array("i")

    def append(self, draw: Draw) -> None:
        assert draw.index == len(self)
        self._items.append(draw.item)
        self._chances.append(draw.probability)
        if self._models is None:
            self._asked.append(draw.model)

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
        models = (self._asked[place],) if self._models is None else self._models
        return Draw(place, self._items[place], self._chances[place], models)


class Scores(Sequence[float | None]):
    """Keep scores, None where there is none.

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


LARGEST = 2**31
"""Bytes of one table after unpacking: a certificate is not to be trusted with more."""


def packed(table: NDArray[Any]) -> dict[str, Any]:
    """Return the table, whole: whole numbers as `<i8`, all others as `<f8`.

    >>> unpacked("x", packed(np.array([0.5, np.nan])), "<f8", 2).tolist()
    [0.5, nan]
    """
    kind = "<i8" if table.dtype.kind == "i" else "<f8"
    # One bit pattern for "not asked", whatever produced it.
    clean = np.where(np.isnan(table), np.nan, table) if kind == "<f8" else table
    data = zlib.compress(np.ascontiguousarray(clean, dtype=kind).tobytes(), 9)
    return {"shape": list(table.shape), "zlib": base64.b64encode(data).decode()}


def unpacked(name: str, table: Mapping[str, Any], kind: str, rows: int, dimensions: int = 1) -> NDArray[Any]:
    """Return what `packed` wrote, if it has this many rows and dimensions."""
    try:
        shape = tuple(int(size) for size in table["shape"])
        if shape[0] != rows or len(shape) != dimensions:
            raise ValueError(f"shape {shape}")
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(table["zlib"], validate=True), LARGEST)
        return np.frombuffer(data, dtype=kind).reshape(shape).astype(kind[1:])
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, zlib.error, binascii.Error) as error:
        raise InvalidInput(name, f"a packed table of {rows} rows", str(error)) from None
