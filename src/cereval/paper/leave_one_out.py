"""Leave one model out: what each model of a scores table would have cost, had the others been known before.

Each model is evaluated twice with the same seed: `uniform`, which knows nothing, and `auto`, which has the
other models' scores and whatever is known of the items. What a team needs to decide whether to adopt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.datasets.tables import ScoresTable, read_scores
from cereval.errors import BadFile
from cereval.paper.figures import Rows, Task, grouped, run_tasks
from cereval.paper.replays import misses
from cereval.questions.mean.goal import Estimate
from cereval.questions.replay import replay


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """A table, a goal, seeds, and a file of what is known of the items (see `save_features`)."""

    scores: Path
    eps: float = 0.02
    confidence: float = 0.95
    seeds: tuple[int, ...] = (0,)
    features: Path | None = None

    def tasks(self) -> list[Task]:
        known = {"scores": self.scores, "features": self.features}
        goal = {"eps": self.eps, "confidence": self.confidence}
        return [
            Task(both_ways, **known, model=model, seed=seed, **goal)
            for model in scored_models(self.scores)
            for seed in self.seeds
        ]


@dataclass(frozen=True, slots=True)
class Saving:
    """Mean calls of one model, or the sums over all: asked of everyone, drawn uniformly, and with history."""

    model: str
    items: float
    uniform: float
    auto: float
    runs: int
    misses: int

    @property
    def saved(self) -> float:
        """The calls that `auto` saves against asking every question."""
        return self.items - self.auto

    @property
    def ratio(self) -> float:
        """The calls of `auto` by those of `uniform`; 1 where a goal takes none."""
        return self.auto / self.uniform if self.uniform else 1.0

    def as_dict(self) -> dict[str, Any]:
        names = ("model", "items", "uniform", "auto", "saved", "ratio", "runs", "misses")
        return {name: getattr(self, name) for name in names}


def leave_one_out(plan: LeaveOneOut, memory: Path, *, jobs: int = 2, quiet: bool = False) -> list[Saving]:
    """Run what is not yet in the CSV `memory`, and sum up each model."""
    return savings(run_tasks(plan.tasks(), memory, jobs=jobs, title="all models", quiet=quiet))


def both_ways(
    scores: Path, features: Path | None, model: str, seed: int, eps: float, confidence: float
) -> list[dict[str, Any]]:
    """Evaluate one model with one seed: without and with what is known beforehand."""
    table = _table(scores)
    column = table.model(model)
    truth = float(np.nanmean(column))
    others = table.others(model)
    history = table.history(others) if others else None
    ways: dict[str, dict[str, Any]] = {"uniform": {}, "auto": {"history": history, **_features(features)}}
    rows = []
    for method, known in ways.items():
        goal = Estimate(eps)
        result = replay(column, goal=goal, confidence=confidence, method=method, seed=seed, **known)
        rows.append(
            {
                "model": model,
                "seed": seed,
                "method": method,
                "mean": round(truth, 6),
                "items": result.n_items,
                "calls": result.n_evaluated,
                "missed": misses(result.lower, result.upper, truth) or result.stopped == "contradiction",
            }
        )
    return rows


def savings(rows: Rows) -> list[Saving]:
    found = []
    for (model,), runs in grouped(rows, "model").items():
        calls = {
            way: [float(row["calls"]) for row in mine] for (way,), mine in grouped(runs, "method").items()
        }
        missed, items = sum(bool(row["missed"]) for row in runs), float(runs[0]["items"])
        found.append(
            Saving(str(model), items, fmean(calls["uniform"]), fmean(calls["auto"]), len(runs), missed)
        )
    return found


def total(parts: Sequence[Saving]) -> Saving:
    return Saving(
        "all models",
        items=float(sum(one.items for one in parts)),
        uniform=float(sum(one.uniform for one in parts)),
        auto=float(sum(one.auto for one in parts)),
        runs=sum(one.runs for one in parts),
        misses=sum(one.misses for one in parts),
    )


def most_misses(runs: int, delta: float, certainty: float = 0.99) -> int:
    """The one-sided binomial bound: more misses refute a miss rate of delta.

    >>> most_misses(2000, 0.05)
    123
    """
    from scipy.stats import binom

    return int(binom.ppf(certainty, runs, delta))


def scored_models(path: Path) -> list[str]:
    found = [model for model, scores in _table(path).models.items() if not np.isnan(scores).all()]
    if not found:
        raise BadFile(f"{path} has no scores: every column is empty")
    return found


def save_features(path: Path, groups: NDArray[Any] | None, embeddings: NDArray[Any] | None) -> Path | None:
    """Save what is known of the items in one file that workers read; None where nothing is."""
    parts = {"groups": groups, "embeddings": embeddings}
    known = {name: part for name, part in parts.items() if part is not None}
    if not known:
        return None
    np.savez(path, **known)  # type: ignore[arg-type]
    return path


@lru_cache(maxsize=2)
def _table(path: Path) -> ScoresTable:
    return read_scores(path)


@lru_cache(maxsize=2)
def _features(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    with np.load(path) as saved:
        return dict(saved)
