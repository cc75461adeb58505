"""Read a data set in one call; join several: one task for each, or a version and what was added to it;
put questions that belong together into clusters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path

from cereval.datasets.base import DataSet, Item
from cereval.datasets.formats import HubSource, read_hub, read_rows
from cereval.datasets.items import Fields, items_from
from cereval.errors import BadFile, InvalidInput, shown
from cereval.text import did_you_mean


def read_dataset(
    source: str | PathLike[str], fields: Fields | None = None, *, combined: bool = False
) -> DataSet:
    """Return the items of a JSONL, CSV or Parquet file, or of `hf:org/name[:config][@split]`.

    combined: it is read beside other files, so that nothing may be guessed that another file may tell otherwise.
    """
    name = fspath(source)
    rows = read_hub(HubSource.parse(name)) if name.startswith("hf:") else read_rows(Path(name))
    return DataSet.of(name, items_from(rows, fields or Fields(), name, combined=combined))


BY_CONTENT = re.compile(r"[0-9a-f]{16}(-[0-9]+)?")
"""The ids that `datasets.items` gives where the data has none."""


def joined(parts: Sequence[DataSet]) -> DataSet:
    """Return one data set whose categories are the tasks; of several, each item is named by its file too."""
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


def grown_by(known: Sequence[Item], data: DataSet, examples: Sequence[str] = ()) -> tuple[Item, ...]:
    """Return the items of a version, followed by those that are new in `data`; known ones must not have changed."""
    before = {item.id: item for item in known}
    for item in data.items:
        if item.id in before and item != before[item.id]:
            raise BadFile(
                f"{data.source}: the item {shown(item.id)} is not what it was; a new version may only add items"
            )
    fresh = [item for item in data.items if item.id not in before and item.id not in examples]
    if not fresh:
        raise BadFile(f"{data.source} has no new item: all {len(data.items):,} are in the version already")
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


# -- clusters ---------------------------------------------------------------------------------------------------------


MEMBERS = "members"
"""The field of a cluster that has its questions."""
MOST_TOGETHER = 1000
"""Questions of one cluster, whose answers are kept as one."""


def clustered(data: DataSet, field: str) -> DataSet:
    """Return the clusters as items, in the order of their first questions.

    A population is sampled by clusters, such as the questions about one text: they are right and wrong together, so
    that an interval that takes them to be independent is too narrow.
    """
    places: dict[str, list[int]] = {}
    for place, item in enumerate(data.items):
        places.setdefault(_cluster_of(item, field, data.items), []).append(place)
    largest = max(places.values(), key=len)
    if len(largest) > MOST_TOGETHER:
        name = _cluster_of(data.items[largest[0]], field, data.items)
        raise InvalidInput(
            "cluster", f"a field that at most {MOST_TOGETHER:,} questions share ({name})", field
        )
    items = [
        Item(
            name,
            f"{len(group)} questions of {field} {name}: {data.items[group[0]].text}",
            metadata={MEMBERS: [data.items[place].as_dict() for place in group]},
        )
        for name, group in places.items()
    ]
    return DataSet.of(data.source, items)


def _cluster_of(item: Item, field: str, items: Sequence[Item]) -> str:
    value = item.category if field == "category" else item.metadata.get(field)
    if value is None or value == "":
        known = dict.fromkeys([*(key for one in items for key in one.metadata), "category"])
        wanted = f"a field that every question has ({did_you_mean(field, known)}; item {item.id} lacks it)"
        raise InvalidInput("cluster", wanted, field)
    return str(value)
