"""Small scores tables with a shared difficulty, for the tests of side information."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

Floats = NDArray[np.float64]


def alike(items: int, models: int, seed: int = 0) -> Floats:
    """0/1 scores of models that find the same items hard."""
    rng = np.random.default_rng(seed)
    easiness = rng.normal(scale=3.0, size=items)
    skill = rng.normal(loc=1.0, scale=0.7, size=models)
    chances = 1 / (1 + np.exp(-(easiness[:, None] + skill)))
    return (rng.uniform(size=chances.shape) < chances).astype(float)


def write_benchmark(folder: Path, scores: Floats) -> Path:
    """`scores.parquet` and `items.parquet` in the layout of shared/data."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"q{row}" for row in range(len(scores))]
    columns: dict[str, Any] = {f"m{column}": scores[:, column] for column in range(scores.shape[1])}
    parquet.write_table(pa.table({"item": names, **columns}), folder / "scores.parquet")
    texts = [f"question {row % 7} on {row % 5}" for row in range(len(scores))]
    kinds = [f"kind {row % 3}" for row in range(len(scores))]
    parquet.write_table(pa.table({"item": names, "text": texts, "category": kinds}), folder / "items.parquet")
    return folder
