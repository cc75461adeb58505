"""Files into tasks: the categories of one scores table, or one task for each of several."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.cli.side_information import past_scores
from cereval.cli.task_data import names_of
from cereval.datasets.tables import ScoresTable, read_column, read_scores
from cereval.errors import InvalidInput
from cereval.known import UNNAMED
from cereval.sessions.tasks import TasksResult

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class TaskTable:
    """One model's scored items: the task of each, past models' scores, and a hash over the items' ids."""

    items: tuple[str, ...]
    scores: Floats
    groups: NDArray[np.str_]
    history: Floats | None

    @property
    def digest(self) -> str:
        return "sha256:" + hashlib.sha256("\n".join(self.items).encode(errors="replace")).hexdigest()

    def truth(self, result: TasksResult) -> dict[str, Any]:
        """A replay knows all scores: the macro mean, and whether every interval holds its mean."""
        means = {}
        for name in result.tasks:
            mine = self.scores[self.groups == name]
            means[name] = fsum(mine.tolist()) / len(mine)
        macro = fsum(means.values()) / len(means)
        inside = [
            task.lower - 1e-12 <= means[name] <= task.upper + 1e-12 for name, task in result.tasks.items()
        ]
        inside.append(result.macro.lower - 1e-12 <= macro <= result.macro.upper + 1e-12)
        return {"truth": macro, "truth_inside": all(inside)}


def read_task_table(
    files: Sequence[str], model: str, items: str | None, by: str | None, history: Sequence[str]
) -> TaskTable:
    """The tasks that the flags of `cereval tasks` describe."""
    if len(files) > 1:
        if items is not None or by is not None:
            raise InvalidInput("--items", "left out when each of several SCORES files is a task", items or by)
        table, groups = _joined(files, model)
    else:
        table = read_scores(files[0])
        if items is None:
            raise InvalidInput("--items", "given for one SCORES file (the tasks are its categories)", None)
        labels = read_column(items, by or "category", table.items)
        groups = np.array([UNNAMED if label in (None, "") else str(label) for label in labels])
    scores = table.model(model)
    past, _ = past_scores(table, model, history)
    kept = np.flatnonzero(~np.isnan(scores))
    if not len(kept):
        raise InvalidInput("--model", "a column with scores", model)
    return TaskTable(
        tuple(table.items[int(row)] for row in kept),
        scores[kept],
        groups[kept],
        None if past is None else past[kept],
    )


def _joined(files: Sequence[str], model: str) -> tuple[ScoresTable, NDArray[np.str_]]:
    """Several tables below one another; a model that one of them lacks was not asked there."""
    names = names_of(files)
    tables = [read_scores(file) for file in files]
    for file, table in zip(files, tables, strict=True):
        if np.isnan(table.model(model)).all():
            raise InvalidInput("--model", f"a column with scores in every file ({file} has none)", model)
    columns = dict.fromkeys(name for table in tables for name in table.models)
    models = {
        name: np.concatenate([table.models.get(name, np.full(len(table.items), np.nan)) for table in tables])
        for name in columns
    }
    items = tuple(f"{name}/{item}" for name, table in zip(names, tables, strict=True) for item in table.items)
    groups = np.repeat(np.array(names), [len(table.items) for table in tables])
    return ScoresTable(items, models), groups
