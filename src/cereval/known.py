"""What a run knows of its items before it asks: their categories, and the scores of earlier runs."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.errors import InvalidInput
from cereval.plan import Plan, digest_of
from cereval.session import Session

MOST_GROUPS = 200
ITEMS_PER_GROUP = 4
"""Fewer items than this per category, on average, teach nothing about the others."""

LARGEST = 2**31
"""Bytes of one table after unpacking: a certificate is not to be trusted with more."""


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """`groups`: one whole number per item. `history`: items x earlier runs, NaN where one was not asked.

    >>> known = Known(groups=np.array([0, 1, 1]), history=np.array([[1.0], [np.nan], [0.0]]))
    >>> again = Known.from_dict(known.as_dict(), n_items=3)
    >>> again.groups.tolist(), again.fingerprint == known.fingerprint
    ([0, 1, 1], True)
    """

    groups: NDArray[np.int64] | None = None
    history: NDArray[np.float64] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What of it there is, as a plan names it."""
        return tuple(name for name in ("groups", "history") if getattr(self, name) is not None)

    @property
    def fingerprint(self) -> str:
        return digest_of(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """JSON-able and whole: zlib in base64, little-endian."""
        return {name: _packed(getattr(self, name)) for name in self.names}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], n_items: int) -> Known:
        kinds = {"groups": "<i8", "history": "<f8"}
        unknown = sorted(set(values) - set(kinds))
        if unknown:
            raise InvalidInput("side information", "groups or history", unknown[0])
        return cls(**{name: _unpacked(name, values[name], kinds[name], n_items) for name in values})


def session_for(plan: Plan, known: Known) -> Session:
    """The session that a plan describes, before its first draw."""
    return Session(
        plan.n_items,
        goal=plan.first_goal,
        confidence=plan.confidence,
        method=plan.method,
        target=plan.target,
        groups=known.groups,
        history=known.history,
        budget=plan.max_calls,
        seed=plan.seed,
    )


def groups_of(categories: Sequence[str | None]) -> NDArray[np.int64] | None:
    """Categories as whole numbers; None where there is only one, or where there are too many to learn from.

    >>> groups_of(["b", "a", "b", "a", "b", "b", "a", "a"]).tolist()
    [1, 0, 1, 0, 1, 1, 0, 0]
    """
    names, codes = np.unique(
        np.array([category or "" for category in categories], dtype=np.str_), return_inverse=True
    )
    if not 1 < len(names) <= min(MOST_GROUPS, len(categories) // ITEMS_PER_GROUP):
        return None
    return np.asarray(codes, dtype=np.int64)


def _packed(table: NDArray[Any]) -> dict[str, Any]:
    kind = "<i8" if table.dtype.kind == "i" else "<f8"
    # One bit pattern for "not asked", whatever produced it.
    clean = np.where(np.isnan(table), np.nan, table) if kind == "<f8" else table
    data = zlib.compress(np.ascontiguousarray(clean, dtype=kind).tobytes(), 9)
    return {"shape": list(table.shape), "zlib": base64.b64encode(data).decode()}


def _unpacked(name: str, packed: Any, kind: str, n_items: int) -> NDArray[Any]:
    try:
        shape = tuple(int(size) for size in packed["shape"])
        if shape[0] != n_items or len(shape) != (1 if kind == "<i8" else 2):
            raise ValueError(f"shape {shape}")
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(packed["zlib"], validate=True), LARGEST)
        return np.frombuffer(data, dtype=kind).reshape(shape).astype(kind[1:])
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, zlib.error, binascii.Error) as error:
        raise InvalidInput(name, f"a packed table of {n_items} rows", str(error)) from None
