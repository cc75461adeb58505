"""Histories for measurements: the other models, hostile ones, and as many past models as wanted."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.datasets.tables import read_items
from cereval.paper.experiments import Series, load

Floats = NDArray[np.float64]
HOSTILE_COLUMNS = 5


def constant(series: Series, rng: np.random.Generator) -> Floats:
    """Models that score the same on every item."""
    return np.tile(rng.uniform(size=HOSTILE_COLUMNS), (len(series.scores), 1))


def random_guesser(series: Series, rng: np.random.Generator) -> Floats:
    """Models whose scores have nothing to do with the items."""
    return rng.integers(2, size=(len(series.scores), HOSTILE_COLUMNS)).astype(float)


def inverted_copy(series: Series, rng: np.random.Generator) -> Floats:
    """Models that are right where the target is wrong, but for one item in ten."""
    flips = rng.uniform(size=(len(series.scores), HOSTILE_COLUMNS)) < 0.1
    return np.where(flips, series.scores[:, None], 1.0 - series.scores[:, None])


def near_duplicates(series: Series, rng: np.random.Generator) -> Floats:
    """Fifty copies of one past model, each with one answer in fifty at random, and nothing else."""
    column = series.history[:, [int(rng.integers(series.history.shape[1]))]]
    noisy = rng.uniform(size=(len(column), 50)) < 0.02
    return np.where(noisy, rng.integers(2, size=noisy.shape), column)


def turncoat(series: Series, rng: np.random.Generator) -> Floats:
    """The target itself on one half of the items, its opposite on the other."""
    half = rng.uniform(size=len(series.scores)) < 0.5
    return np.where(half, series.scores, 1.0 - series.scores)[:, None]


HOSTILE: dict[str, Callable[[Series, np.random.Generator], Floats]] = {
    "constant": constant,
    "random guesser": random_guesser,
    "inverted copy": inverted_copy,
    "near-duplicates": near_duplicates,
    "turncoat": turncoat,
}


def crowd(history: Floats, models: int, rng: np.random.Generator) -> Floats:
    """Past models made by resampling: each takes every item's score from one of the real ones, at random."""
    chosen = rng.integers(history.shape[1], size=(len(history), models))
    return np.take_along_axis(history, chosen, axis=1)


@lru_cache(maxsize=4)
def categories(folder: Path) -> NDArray[Any] | None:
    """The items' categories in the order of the scores; None where there are none."""
    found = read_items(folder / "items.parquet").aligned_to(_items(folder)).categories
    return None if found is None or len(set(found)) < 2 else np.array(found)


def _items(folder: Path) -> tuple[str, ...]:
    from cereval.datasets.tables import read_scores

    return read_scores(folder / "scores.parquet").items


def side_information(folder: Path, series: Series, way: str, seed: int) -> dict[str, Any]:
    """The keywords of `replay` for a way: `uniform`, `history`, `history + groups`, `groups`, or a hostile one."""
    if way == "uniform":
        return {"method": "uniform"}
    if way in HOSTILE:
        return {"history": HOSTILE[way](series, np.random.default_rng([seed, 41]))}
    found: dict[str, Any] = {"history": series.history} if "history" in way else {}
    groups = categories(folder) if "groups" in way else None
    return found if groups is None else {**found, "groups": groups[series.kept]}


def varying_models(folder: Path) -> list[str]:
    """The models whose scores are not all the same."""
    benchmark = load(folder)
    return [
        model
        for model, spread in zip(benchmark.models, np.nanstd(benchmark.scores, axis=0), strict=True)
        if spread > 0
    ]
