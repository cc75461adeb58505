"""Two columns of a scores table, the items that both have, and what is known of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.cli.side_information import embedded, grouped, known_items, past_scores
from cereval.datasets.tables import read_scores
from cereval.errors import InvalidInput

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ScoredPair:
    """The scores of two models on the items that both were asked; `digest` names those items."""

    first: Floats
    second: Floats
    digest: str
    embeddings: NDArray[Any] | None = None
    groups: NDArray[Any] | None = None
    history: Floats | None = None
    notes: tuple[str, ...] = ()

    @property
    def truth(self) -> float:
        """The difference over all items, which a replay knows."""
        return fsum(float(a) - float(b) for a, b in zip(self.first, self.second, strict=True)) / len(
            self.first
        )


def read_pair(scores: str, models: Sequence[str], flags: Mapping[str, Any]) -> ScoredPair:
    """Two columns of SCORES with the side information that the flags name."""
    table = read_scores(scores)
    first, second = (table.model(name) for name in models)
    both = np.flatnonzero(~np.isnan(first) & ~np.isnan(second))
    if not len(both):
        raise InvalidInput("--model", "two models with scores on the same items", ", ".join(models))
    history, notes = past_scores(table, models[0], flags["history"], flags["store"], rival=models[1])
    missing = len(first) - len(both)
    if missing:
        notes.append(f"{missing:,} items that one of the two lacks are not part of the comparison")
    kept = [table.items[row] for row in both]
    known = known_items(flags["items"], kept)
    return ScoredPair(
        first[both],
        second[both],
        "sha256:" + hashlib.sha256("\n".join(kept).encode(errors="replace")).hexdigest(),
        embedded(known, None, "auto"),
        grouped(known, None),
        None if history is None else history[both],
        tuple(notes),
    )
