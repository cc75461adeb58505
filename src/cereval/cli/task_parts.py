"""What a task says, read from files and flags: data, goal, weights, address and texts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cereval.arrays import packed
from cereval.cli.task import Task, read_text
from cereval.cli.weighting import check_one, is_table, mixed, weights_of_items
from cereval.datasets.base import DataSet, Item
from cereval.datasets.fields import Fields
from cereval.datasets.prompts import split_examples
from cereval.datasets.read import read_dataset
from cereval.errors import InvalidInput
from cereval.goals import Estimate, Goal, Threshold
from cereval.models.openai_model import checked_url
from cereval.text import did_you_mean


def read_data(task: Task, *, combined: bool = False) -> tuple[DataSet, tuple[Item, ...]]:
    parts = ("input", "answer", "choices", "category", "id")
    fields = Fields(**{part: getattr(task, part) for part in parts})
    data = read_dataset(str(task.data), fields, combined=combined)
    if not task.few_shot:
        return data, ()
    examples, left = split_examples(data.items, task.few_shot)
    return DataSet.of(data.source, left), examples


def goal_of(task: Task) -> Goal:
    if task.at_least is not None:
        return Threshold(task.at_least)
    return Estimate() if task.eps is None else Estimate(task.eps)


def weights_for(task: Task, items: Sequence[Item]) -> dict[str, Any]:
    """The items' weights in the target, for the plan: whole, so that a run needs no other file to go on."""
    check_one(task.weights, task.mix)
    if task.mix is not None:
        found = mixed(task.mix, [item.category for item in items])
        return {"source": f"mix {_named(task.mix)}", **packed(found)}
    if task.weights is None:
        return {}
    found = weights_of_items(task.weights, [item.id for item in items], lambda name: _fields(items, name))
    return {"source": _named(task.weights), **packed(found)}


def _named(value: str) -> str:
    """A file's name without its folder: a plan does not depend on where files lie."""
    return Path(value).name if is_table(value) else value


def _fields(items: Sequence[Item], name: str) -> list[Any]:
    names = dict.fromkeys(key for item in items for key in item.metadata)
    if name not in names:
        raise InvalidInput("--weights", f"a file, or a field of the data ({did_you_mean(name, names)})", name)
    return [item.metadata.get(name) for item in items]


def address_of(task: Task) -> str | None:
    if not str(task.model).startswith("openai/"):
        return task.base_url
    address = task.base_url or os.environ.get("OPENAI_BASE_URL") or None
    return None if address is None else checked_url(address)


def text_of(value: str | None) -> str | None:
    """A text, or the content of the file that `@FILE` names."""
    if value is None or not value.startswith("@"):
        return value
    return read_text(Path(value[1:]))
