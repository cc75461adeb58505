"""Recorded results of real benchmarks: folders with `scores.parquet` and `items.parquet`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.datasets.tables import read_items, read_scores
from cereval.errors import BadFile
from cereval.forecasts.embeddings import embed

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Benchmark:
    """Scores (items x models, NaN = not asked) and texts of one folder."""

    name: str
    models: tuple[str, ...]
    scores: Floats
    texts: tuple[str, ...]

    def series(self, model: str) -> Series:
        """One model's scored items, and every other model's scores on them."""
        column = self.models.index(model)
        kept = np.flatnonzero(~np.isnan(self.scores[:, column]))
        others = np.delete(self.scores[kept], column, axis=1)
        return Series(self.scores[kept, column], kept, others)


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Scores of one model, the rows of the benchmark they belong to, and the other models' scores there."""

    scores: Floats
    kept: NDArray[np.int64]
    history: Floats

    @property
    def eps_star(self) -> float:
        """The paper's eps* = sqrt(ln(1/delta)/(2n)) for delta = .05, which Base reaches after a full pass."""
        return float(np.sqrt(np.log(20) / (2 * len(self.scores))))


@lru_cache(maxsize=4)
def load(folder: Path) -> Benchmark:
    """Read one folder; cached, because every replication in a process needs it."""
    table = read_scores(_file(folder, "scores"))
    items = read_items(_file(folder, "items")).aligned_to(table.items)
    if items.texts is None:
        raise BadFile(f"{_file(folder, 'items')} has no column `text`")
    scores = np.column_stack([table.models[name] for name in table.models])
    return Benchmark(folder.name, tuple(table.models), scores, items.texts)


def folders(data: Path) -> list[Path]:
    """The benchmarks under `data`, or `data` itself when it is one."""
    if (data / "scores.parquet").exists():
        return [data]
    found = sorted(path.parent for path in data.glob("*/scores.parquet"))
    if not found:
        raise BadFile(f"{data} holds no folder with scores.parquet and items.parquet")
    return found


def saved_embeddings(benchmark: Benchmark, embedder: str, dimensions: int, out: Path) -> Path:
    """The file with the benchmark's embeddings, computed at most once for the same texts."""
    digest = hashlib.sha256("\0".join(benchmark.texts).encode()).hexdigest()[:12]
    path = out / "embeddings" / f"{benchmark.name}-{embedder}-{dimensions}-{digest}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Renamed when complete: an interrupted write must not be taken for finished embeddings.
        partial = path.with_suffix(".part.npy")
        np.save(partial, embed(benchmark.texts, embedder, dimensions))
        partial.rename(path)
    return path


@lru_cache(maxsize=4)
def load_embeddings(path: Path) -> NDArray[Any]:
    return np.asarray(np.load(path))


def _file(folder: Path, stem: str) -> Path:
    path = folder / f"{stem}.parquet"
    if not path.exists():
        layout = "DIR/NAME/scores.parquet and DIR/NAME/items.parquet"
        raise BadFile(f"{path} does not exist; the layout is {layout}")
    return path
