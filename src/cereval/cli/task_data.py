"""Questions of many tasks: the categories of one data set, or one task for each of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cereval.datasets.base import DataSet
from cereval.errors import InvalidInput


def joined(parts: Sequence[DataSet]) -> DataSet:
    """One data set whose categories are the tasks; of several, each item is named by its file too."""
    if len(parts) == 1:
        if not any(item.category for item in parts[0].items):
            raise InvalidInput(
                "--by", "the field that names each question's task: no category is there", None
            )
        return parts[0]
    names = names_of([part.source for part in parts])
    items = [
        replace(item, id=f"{name}/{item.id}", category=name)
        for name, part in zip(names, parts, strict=True)
        for item in part.items
    ]
    return DataSet.of(parts[0].source, items)


def named(source: str) -> str:
    """A file without its folder: what a run is does not depend on where files lie.

    >>> named("data/law.jsonl"), named("hf:org/name")
    ('law.jsonl', 'hf:org/name')
    """
    return source if source.startswith("hf:") else Path(source).name


def names_of(files: Sequence[str]) -> list[str]:
    """A file's own name, or its folder's where the files are called alike.

    >>> names_of(["a/scores.csv", "b/scores.csv"]), names_of(["x.csv", "y.csv"])
    (['a', 'b'], ['x', 'y'])
    """
    stems = [Path(file).stem for file in files]
    if len(set(stems)) == len(stems):
        return stems
    folders = [Path(file).absolute().parent.name for file in files]
    if len(set(folders)) < len(folders):
        raise InvalidInput(
            "several files", "of different names, or in folders of different names", list(files)
        )
    return folders
