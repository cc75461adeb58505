"""Turn a target mix of categories into weights of the items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cereval.errors import InvalidInput
from cereval.forecasts.pool import SMALLEST_SHARE
from cereval.text import did_you_mean


def mix_weights(groups: ArrayLike, mix: Mapping[str, float]) -> NDArray[np.float64]:
    """Return weights with which each category has its share of the mix; a category that is not named has none.

    Within a category all items count alike. Shares are relative: they need not sum to 1.

    >>> mix_weights(["law", "law", "art"], {"law": 0.5, "art": 0.5}).tolist()
    [0.25, 0.25, 0.5]
    """
    labels: NDArray[Any] = np.asarray(groups).astype(str)
    names, codes = np.unique(labels, return_inverse=True)
    return shared_weights(names.tolist(), codes, mix)


def shared_weights(
    names: Sequence[str], codes: NDArray[np.int64], mix: Mapping[str, float]
) -> NDArray[np.float64]:
    """Return the same, for items whose categories are given by the numbers of their names."""
    counts = np.bincount(codes, minlength=len(names))
    there = [name for name, count in zip(names, counts, strict=True) if count]
    for name, share in mix.items():
        if name not in there:
            raise InvalidInput("mix", f"made of the data's categories ({did_you_mean(name, there)})", name)
        if not 0 <= share < float("inf"):
            raise InvalidInput("mix", f"shares >= 0 (category {name})", share)
    _check_sum(mix, len(codes))
    shares = np.array([float(mix.get(name, 0.0)) for name in names])
    return np.asarray((shares / shares.sum() / np.maximum(counts, 1))[codes])


def _check_sum(mix: Mapping[str, float], size: int) -> None:
    """Refuse shares that floats cannot divide by their sum, and among the items of their category."""
    total = sum(map(float, mix.values()))
    if not total > 0:
        raise InvalidInput("mix", "a share > 0 for at least one category", dict(mix))
    least = size * SMALLEST_SHARE
    for name, share in mix.items():
        if share and not share >= least * total:
            allowed = f"shares of 0, or of at least {least:g} of a finite sum (category {name})"
            raise InvalidInput("mix", allowed, f"{share:g}, sum {total:g}")


def parsed_mix(text: str) -> dict[str, float]:
    """Return a mix as a user types it.

    >>> parsed_mix("law=0.5, art=0.5")
    {'law': 0.5, 'art': 0.5}
    """
    pairs = [part.rpartition("=") for part in text.split(",") if part.strip()]
    return mix_from([(name.strip(), share) for name, _, share in pairs], text)


def mix_from(pairs: Sequence[tuple[str, object]], source: str) -> dict[str, float]:
    """Read names and shares, each name once."""
    mix: dict[str, float] = {}
    for name, share in pairs:
        try:
            number = float(str(share))
        except ValueError:
            number = float("nan")
        if not name or name in mix or not 0 <= number < float("inf"):
            raise InvalidInput("mix", "name=share pairs such as law=0.7,art=0.3, each name once", source)
        mix[name] = number
    if not mix:
        raise InvalidInput("mix", "name=share pairs such as law=0.7,art=0.3", source)
    return mix
