"""The pool: the items, their weights, and everything known of them before the model is asked anything."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, inf, nan
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cereval.arrays import Bools, Floats, Ints
from cereval.errors import InvalidInput
from cereval.text import did_you_mean

SMALLEST_SHARE = 1e-300  # Of the weights: below it a float has no digits left to divide by
SORTED_AT_ONCE = 1 << 18  # Labels: a sort of millions of texts at once takes many times their memory


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """`size` items with their target weights (sum 1; None = equal) and side information.

    Weights that are all equal are kept as None: they ask the same questions as no weights.
    embeddings: items x dimensions, finite. groups: one integer label 0..K-1 per item.
    history: items x past models, scores in [0, 1], NaN where a past model was not asked.

    >>> Pool.build(3, weights=[1, 1, 2]).shares().tolist()
    [0.25, 0.25, 0.5]
    """

    size: int
    weights: Floats | None = None
    embeddings: NDArray[np.float32] | None = None
    groups: Ints | None = None
    history: Floats | None = None

    @classmethod
    def build(
        cls,
        size: int,
        *,
        weights: ArrayLike | None = None,
        embeddings: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        history: ArrayLike | None = None,
    ) -> Pool:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise InvalidInput("n_items", "a whole number >= 1", size)
        size = int(size)
        return cls(
            size,
            None if weights is None else _weights(weights, size),
            None if embeddings is None else _embeddings(embeddings, size),
            None if groups is None else _groups(groups, size),
            None if history is None else _history(history, size),
        )

    @property
    def has_side_information(self) -> bool:
        return not (self.embeddings is None and self.groups is None and self.history is None)

    def fingerprint(self) -> str:
        """A hash of the side information: two pools with the same one give the same draws and forecasts."""
        digest = hashlib.sha256()
        for part in (self.weights, self.embeddings, self.groups, self.history):
            digest.update(b"-" if part is None else str(part.shape).encode())
            if part is not None:
                # The bytes where they lie: a copy of a large history would take as much memory again.
                digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

    def history_digest(self) -> str:
        """A hash of the history alone, the same on every machine: scores are given, not computed."""
        if self.history is None:
            return ""
        # One zero and one NaN: both have several bit patterns.
        same = np.where(np.isnan(self.history), np.nan, self.history + 0.0)
        return hashlib.sha256(np.ascontiguousarray(same, dtype="<f8").tobytes()).hexdigest()

    def shares(self) -> Floats:
        return np.full(self.size, 1.0 / self.size) if self.weights is None else self.weights


def numbers(values: ArrayLike) -> Floats:
    """The values as floats, NaN where a masked array hides one."""
    if isinstance(values, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(values)
        return np.where(hidden, np.nan, np.asarray(values.data, dtype=np.float64))
    return np.asarray(values, dtype=np.float64)


def _array_of(field: str, values: ArrayLike, size: int, columns: str | None = None) -> Floats:
    try:
        array = numbers(values)
    except (TypeError, ValueError) as error:
        raise InvalidInput(field, "an array of numbers", values) from error
    if array.ndim == 1 and columns is not None:
        array = array[:, None]
    if array.ndim != (1 if columns is None else 2):
        shape = "items" if columns is None else f"items x {columns}"
        raise InvalidInput(field, f"an array of {shape}", array.shape)
    if len(array) != size:
        raise InvalidInput(field, f"one row for each of the {size} items", f"{len(array)} rows")
    return array


def _weights(values: ArrayLike, size: int) -> Floats | None:
    weights = _array_of("weights", values, size)
    bad = ~np.isfinite(weights) | (weights < 0)
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        raise InvalidInput("weights", "finite and >= 0", f"{weights[place]} at item {place}")
    try:
        # To the last digit, so that all machines have the same weights.
        total = fsum(weights.tolist())
    except OverflowError:
        total = inf
    if total <= 0:
        raise InvalidInput("weights", "not all zero", "all zero")
    if np.all(weights == weights[0]):
        return None
    normalised: Floats = weights / total
    tiny = (weights > 0) & (normalised < SMALLEST_SHARE)
    if tiny.any():
        place = int(np.flatnonzero(tiny)[0])
        allowed = f"0, or at least {SMALLEST_SHARE:g} of a finite sum"
        raise InvalidInput("weights", allowed, f"{weights[place]} at item {place}, sum {total:g}")
    return normalised


def _embeddings(values: ArrayLike, size: int) -> NDArray[np.float32]:
    array = _array_of("embeddings", values, size, "dimensions")
    _refuse("embeddings", "finite", array, ~np.isfinite(array), "dimension")
    return array.astype(np.float32)


def _history(values: ArrayLike, size: int) -> Floats:
    table = _array_of("history", values, size, "past models")
    bad = np.isinf(table) | (table < 0) | (table > 1)
    _refuse("history", "in [0, 1], or NaN", table, bad, "column")
    return table


def _refuse(field: str, allowed: str, table: Floats, bad: Bools, columns: str) -> None:
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise InvalidInput(field, allowed, f"{table[row, column]} at item {row}, {columns} {column}")


def _groups(values: ArrayLike, size: int) -> Ints:
    labels: NDArray[Any] = np.asarray(values)
    if labels.ndim != 1 or len(labels) != size:
        raise InvalidInput("groups", f"one label for each of the {size} items", f"shape {labels.shape}")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InvalidInput("groups", "finite labels", "NaN")
    if labels.dtype.kind == "O":
        labels = labels.astype(str)
    parts = [labels[start : start + SORTED_AT_ONCE] for start in range(0, size, SORTED_AT_ONCE)]
    names = np.unique(np.concatenate([np.unique(part) for part in parts]))
    return np.concatenate([np.searchsorted(names, part) for part in parts]).astype(np.int64, copy=False)


# -- weights from a mix of categories ---------------------------------------------------------------------------------


def mix_weights(groups: ArrayLike, mix: Mapping[str, float]) -> Floats:
    """Weights with which each category has its share of the mix; a category that is not named has none.

    Within a category all items count alike. Shares are relative: they need not sum to 1.
    """
    labels: NDArray[Any] = np.asarray(groups).astype(str)
    names, codes = np.unique(labels, return_inverse=True)
    counts = np.bincount(codes, minlength=len(names))
    there = names.tolist()
    for name, share in mix.items():
        if name not in there:
            raise InvalidInput("mix", f"made of the data's categories ({did_you_mean(name, there)})", name)
        if not 0 <= share < inf:
            raise InvalidInput("mix", f"shares >= 0 (category {name})", share)
    total, least = sum(map(float, mix.values())), len(codes) * SMALLEST_SHARE
    if not total > 0:
        raise InvalidInput("mix", "a share > 0 for at least one category", dict(mix))
    for name, share in mix.items():
        # Floats must be able to divide a share by the sum, and among the items of its category.
        if share and not share >= least * total:
            allowed = f"shares of 0, or of at least {least:g} of a finite sum (category {name})"
            raise InvalidInput("mix", allowed, f"{share:g}, sum {total:g}")
    shares = np.array([float(mix.get(name, 0.0)) for name in names])
    return np.asarray((shares / shares.sum() / np.maximum(counts, 1))[codes])


def parsed_mix(text: str) -> dict[str, float]:
    """Read a mix as a user types it.

    >>> parsed_mix("law=0.5, art=0.5")
    {'law': 0.5, 'art': 0.5}
    """
    pairs = [part.rpartition("=") for part in text.split(",") if part.strip()]
    return mix_from([(name.strip(), share) for name, _, share in pairs], text)


def mix_from(pairs: Sequence[tuple[str, object]], source: str) -> dict[str, float]:
    mix: dict[str, float] = {}
    for name, share in pairs:
        try:
            number = float(str(share))
        except ValueError:
            number = nan
        if not name or name in mix or not 0 <= number < inf:
            raise InvalidInput("mix", "name=share pairs such as law=0.7,art=0.3, each name once", source)
        mix[name] = number
    if not mix:
        raise InvalidInput("mix", "name=share pairs such as law=0.7,art=0.3", source)
    return mix


# -- the same item in several files -----------------------------------------------------------------------------------


def content_keys(items: Iterable[Mapping[str, Any]]) -> list[str]:
    """Name items by question, choices and right answers, so that what is known of one is known of it in every file
    that has it; the n-th copy of one is numbered. Ids, categories and other fields of a file may differ.

    Stores keep these keys, and runs rest on scores that were found by them: the rule may never change.

    >>> items = [{"input": "1+1?"}, {"input": "2+2?", "id": "1"}, {"input": "1+1?", "id": "9"}]
    >>> first, second, copy = content_keys(items)
    >>> first == second, copy == f"{first}-2"
    (False, True)
    """
    seen: Counter[str] = Counter()
    keys = []
    for item in items:
        content = [item.get("input"), *(_as_list(item.get(name)) for name in ("choices", "answers"))]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        seen[key] += 1
        keys.append(key if seen[key] == 1 else f"{key}-{seen[key]}")
    return keys


def _as_list(value: Any) -> list[Any]:
    """A list as it is; a store that was changed by hand may hold anything in its place."""
    return list(value or ()) if isinstance(value, list | tuple) or value is None else [value]
