"""Arrays of numbers: their types, and tables packed into short JSON: little-endian 64-bit values, row by row, zlib,
base64.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.errors import InvalidInput

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

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
