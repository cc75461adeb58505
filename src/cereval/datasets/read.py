"""Read a data set in one call; join several: one task for each, or a version and what was added to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cereval.datasets.base import DataSet, Item
from cereval.datasets.fields import Fields
from cereval.datasets.formats import HubSource, read_hub, read_rows
from cereval.datasets.items import items_from
from cereval.datasets.large import (
    ChainedItems,
    FileItems,
    OnDisk,
    categories_of,
    hash_of,
    is_large,
    read_large,
)
from cereval.errors import BadFile, InvalidInput, shown


def read_dataset(
    source: str | PathLike[str],
    fields: Fields | None = None,
    *,
    combined: bool = False,
    on_disk: bool = False,
) -> DataSet:
    """Return the items of a JSONL, CSV or Parquet file, or of `hf:org/name[:config][@split]`.

    combined: it is read beside other files, so that nothing may be guessed that another file may tell otherwise.
    on_disk: the questions of a large file may stay where they are, to be read when they are asked.
    """
    name = fspath(source)
    if on_disk and not name.startswith("hf:") and is_large(Path(name)):
        return read_large(name, fields or Fields(), combined=combined)
    rows = read_hub(HubSource.parse(name)) if name.startswith("hf:") else read_rows(Path(name))
    return DataSet.of(name, items_from(rows, fields or Fields(), name, combined=combined))


BY_CONTENT = re.compile(r"[0-9a-f]{16}(-[0-9]+)?")
"""The ids that `datasets.items` gives where the data has none."""


def joined(parts: Sequence[DataSet]) -> DataSet:
    """Return one data set whose categories are the tasks; of several, each item is named by its file too."""
    if len(parts) == 1:
        if not any(categories_of(parts[0].items)):
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


def grown_by(known: Sequence[Item], data: DataSet, examples: Sequence[str] = ()) -> Sequence[Item]:
    """Return the items of a version, followed by those that are new in `data`; large files stay on disk.

    An item that is known must not have changed. Ids are compared by 64-bit hashes; where two agree, the items are read.
    """
    before, now = _id_hashes(known, "the version before"), _id_hashes(data.items, data.source)
    order = np.argsort(before, kind="stable")
    place = order[np.minimum(np.searchsorted(before, now, sorter=order), len(before) - 1)]
    there = {
        one
        for one in np.flatnonzero(before[place] == now).tolist()
        if _is_known(data.items[one], known[int(place[one])], data.source)
    }
    there |= set(np.flatnonzero(np.isin(now, [hash(example) for example in examples])).tolist())
    if len(there) == len(data.items):
        raise BadFile(f"{data.source} has no new item: all {len(data.items):,} are in the version already")
    if isinstance(data.items, FileItems):
        fresh: Sequence[Item] = data.items.without(sorted(there))
    else:
        fresh = tuple(item for number, item in enumerate(data.items) if number not in there)
    if isinstance(known, OnDisk) or isinstance(fresh, FileItems):
        return ChainedItems([known, fresh], [hash_of(known), hash_of(fresh)])
    _check_questions_are_new(known, fresh, data.source)
    return (*known, *fresh)


def _check_questions_are_new(known: Sequence[Item], fresh: Sequence[Item], source: str) -> None:
    """Refuse a known question with another answer or category, where it passes for new: it is named by its content."""
    asked = {(item.input, item.choices) for item in known}
    for item in fresh:
        if BY_CONTENT.fullmatch(item.id) and (item.input, item.choices) in asked:
            raise BadFile(
                f"{source}: {shown(item.text)} is asked already, with another answer or category; a new "
                "version may only add items (or name the field with ids by --id)"
            )


def _is_known(item: Item, before: Item, source: str) -> bool:
    if item.id != before.id:
        return False
    if item != before:
        raise BadFile(
            f"{source}: the item {shown(item.id)} is not what it was; a new version may only add items"
        )
    return True


def _id_hashes(items: Sequence[Item], source: str) -> NDArray[np.int64]:
    if isinstance(items, ChainedItems):
        return np.concatenate([_id_hashes(version, source) for version in items.versions])
    if not isinstance(items, FileItems):
        return np.fromiter((hash(item.id) for item in items), dtype=np.int64, count=len(items))
    if items.id_hashes is None:
        wanted = f"a field of {source}: questions of large files that grow are told apart by their ids"
        raise InvalidInput("--id", wanted, None)
    return items.id_hashes


def named(source: str) -> str:
    """Return a file without its folder: what a run is does not depend on where files lie.

    >>> named("data/law.jsonl"), named("hf:org/name")
    ('law.jsonl', 'hf:org/name')
    """
    return source if source.startswith("hf:") else Path(source).name


def names_of(files: Sequence[str]) -> list[str]:
    """Return a file's own name, or its folder's where the files are called alike.

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
