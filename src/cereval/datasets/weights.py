"""Turn `--weights` and `--mix` into weights of the items: a target that is not the plain mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cereval.arrays import Floats
from cereval.errors import InvalidInput

if TYPE_CHECKING:
    pass


WEIGHTS, SHARE = "weight", "share"
ROUNDING = 0.005
"""Shares such as 1/3 that were rounded by hand still make a whole."""
TABLES = (".csv", ".tsv", ".parquet", ".pq", ".jsonl", ".ndjson")


def check_one(weights: str | None, mix: str | None) -> None:
    if weights is not None and mix is not None:
        raise InvalidInput("--mix", "left out when --weights is given", mix)


def is_table(value: str) -> bool:
    return Path(value).suffix.lower() in TABLES


def weights_of_items(value: str, ids: Sequence[str], column: Callable[[str], Iterable[Any]]) -> Floats:
    from cereval.datasets.tables import read_column

    values = read_column(value, WEIGHTS, ids) if is_table(value) else column(value)
    return numbers(values, value, lambda row: ids[row])


def numbers(values: Iterable[Any], source: str, id_of: Callable[[int], str]) -> Floats:
    import numpy as np

    from cereval.forecasts.pool import Pool

    def number(row: int, value: Any) -> float:
        try:
            found = float(value)
        except (TypeError, ValueError, OverflowError):
            found = float("nan")
        if not 0 <= found < float("inf"):
            raise InvalidInput("--weights", f"numbers >= 0 in {source}", f"{value!r} for item {id_of(row)}")
        return found

    found = np.fromiter((number(row, value) for row, value in enumerate(values)), dtype=np.float64)
    Pool.build(len(found), weights=found)  # refuses what cannot be divided by its sum
    return found


def mix_of(value: str) -> dict[str, float]:
    from cereval.datasets.formats import read_rows
    from cereval.forecasts.pool import mix_from, parsed_mix

    if not is_table(value):
        return parsed_mix(value)
    rows = [row.values for row in read_rows(Path(value))]
    return mix_from([(str(row.get("category", "")), row.get(SHARE, "")) for row in rows], value)


def mix_notes(value: str | None) -> tuple[str, ...]:
    """Say so where the shares of a mix are not those of a whole.

    >>> mix_notes("law=2,art=1"), mix_notes("law=0.7,art=0.3"), mix_notes(None)
    (('the shares of --mix sum to 3: they count relative to one another',), (), ())
    """
    total = 1.0 if value is None else sum(mix_of(value).values())
    if abs(total - 1) < ROUNDING:
        return ()
    return (f"the shares of --mix sum to {total:g}: they count relative to one another",)


def mixed(value: str, categories: Sequence[str | None] | None) -> Floats:
    from cereval.forecasts.pool import mix_weights

    if categories is None or not any(categories):
        raise InvalidInput("--mix", "given for items that have a category", value)
    return mix_weights([category or "" for category in categories], mix_of(value))
