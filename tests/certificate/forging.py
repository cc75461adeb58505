"""What a forger does to a certificate: change a field, and repair every hash (`repaired`)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from benchmarks.seals import repaired as repaired


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """Every field that holds no others: where it is, what holds it, and its key there."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        inner = value[key]
        if isinstance(inner, dict | list) and inner:
            yield from leaves(inner, (*path, key))
        else:
            yield (*path, key), value, key


def other(value: Any, rng: random.Random) -> Any:
    """A value of the same type that is not the same."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice((-1, 1, 7))
    if isinstance(value, float):
        return rng.choice((value + 1e-6, 1 - value if value != 0.5 else 0.25, value * 0.999 + 2e-3))
    if isinstance(value, str):
        spot = rng.randrange(len(value) + 1)
        return value[:spot] + "x" + value[spot:]
    return 0.5 if value is None else None


def forge(value: Any, rng: random.Random, only: str | None = None) -> str:
    """Changes one field somewhere; returns where."""
    found = [(".".join(map(str, path)), holder, key) for path, holder, key in leaves(value)]
    if only == "draws":
        found = [one for one in found if one[2] in ("item", "probability")]
    elif only is not None:
        found = [one for one in found if one[0].startswith(only)]
    where, holder, key = rng.choice(found)
    holder[key] = other(holder[key], rng)
    return where
