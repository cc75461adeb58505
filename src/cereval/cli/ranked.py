"""The columns of a scores table that are ranked, and what a replay knows of them beforehand: the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.datasets.tables import read_scores
from cereval.errors import InvalidInput
from cereval.sessions.rank import Ranking

Floats = NDArray[np.float64]
EXACT = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class ScoredModels:
    """Scores of the named models, items x models, on the items that all of them were asked."""

    names: tuple[str, ...]
    scores: Floats
    notes: tuple[str, ...] = ()

    def truth(self, result: Ranking) -> dict[str, Any]:
        """Every model's mean over all items, certified pairs that contradict them, and intervals that miss."""
        means = {
            name: fsum(self.scores[:, i].tolist()) / len(self.scores) for i, name in enumerate(self.names)
        }
        wrong = [[one, other] for one, other in result.order if means[one] < means[other]]
        missed = [
            name
            for name, interval in result.intervals.items()
            if not interval.lower - EXACT <= means[name] <= interval.upper + EXACT
        ]
        return {
            "truth": means,
            "wrong_orders": wrong,
            "intervals_missed": missed,
            **_wrong_top(result, means),
        }


def read_models(path: str, wanted: Sequence[str], baseline: str | None = None) -> ScoredModels:
    """The named columns, or all that are complete; items that one of them lacks are left out."""
    table = read_scores(path)
    complete = [name for name, column in table.models.items() if not np.isnan(column).any()]
    names = list(dict.fromkeys(wanted or complete))
    if baseline is not None and baseline not in names:
        names.append(baseline)
    if len(names) < 2:
        raise InvalidInput("--model", "two models or more", ", ".join(names) or "none that is complete")
    columns = np.column_stack([table.model(name) for name in names])
    kept = ~np.isnan(columns).any(axis=1)
    if not kept.any():
        raise InvalidInput("--model", "models with scores on the same items", ", ".join(names))
    notes = []
    left_out = [name for name in table.models if name not in names]
    if left_out and not wanted:
        notes.append(f"left out for missing scores: {', '.join(left_out)}; name it with --model to rank it")
    if not kept.all():
        notes.append(f"{int((~kept).sum()):,} items that one of the models lacks are not part of the ranking")
    return ScoredModels(tuple(names), columns[kept], tuple(notes))


def _wrong_top(result: Ranking, means: Mapping[str, float]) -> dict[str, Any]:
    """Of a top k: models named that are not within reach of the k-th best, and models ruled out that belong to it."""
    if result.goal["goal"] != "top":
        return {}
    k, within = result.goal["k"], result.goal["within"]
    needed = sorted(means.values(), reverse=True)[k - 1] - within
    wrong = [name for name in result.winners if means[name] < needed - EXACT]
    betters = {name: sum(mean > means[name] + EXACT for mean in means.values()) for name in result.eliminated}
    return {
        "wrong_winners": wrong,
        "wrongly_eliminated": [name for name, count in betters.items() if count < k],
    }


def truth_in_words(result: Ranking, truth: Mapping[str, Any]) -> str:
    """How many of the claims of a ranking the recorded scores bear out."""
    made = {"certified pairs": len(result.order)}
    wrong = {"certified pairs": len(truth["wrong_orders"])}
    if result.goal["goal"] == "top":
        made = {"models named": len(result.winners), "models ruled out": len(result.eliminated)} | made
        wrong |= {
            "models named": len(truth["wrong_winners"]),
            "models ruled out": len(truth["wrongly_eliminated"]),
        }
    said = [
        f"{count - wrong[what]:,} of {count:,} {what} right"
        + (f", {wrong[what]:,} WRONG" if wrong[what] else "")
        for what, count in made.items()
        if count
    ]
    return ", ".join(said) or "nothing was certified"
