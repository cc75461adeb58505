"""Keep the questions of a run, and find them again: in the store, or in the large file where they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cereval.arrays import packed, unpacked
from cereval.datasets.base import Item
from cereval.datasets.fields import Fields
from cereval.datasets.large import ChainedItems, FileItems, OnDisk, hash_of, read_large
from cereval.errors import BadFile, StoreError, shown
from cereval.plan import Plan
from cereval.store.base import Store


def item_from(row: Mapping[str, Any]) -> Item:
    """Return an item as the store keeps it; one that is not as it was written is refused."""
    try:
        values = dict(row) | {"answers": tuple(row["answers"]), "choices": tuple(row["choices"])}
        values["input"] = row["input"] if isinstance(row["input"], str) else tuple(row["input"])
        item = Item(**values)
    except (KeyError, TypeError):
        item = None
    if item is None or not _well_formed(item):
        raise StoreError(
            f"an item in the store was changed: {shown(row)}; restore a copy, or start a new run"
        )
    return item


def _well_formed(item: Item) -> bool:
    texts = (item.id, item.category or "", *item.answers, *item.choices)
    turns = () if isinstance(item.input, str) else item.input
    chat = all(isinstance(turn, Mapping) and isinstance(turn.get("content"), str) for turn in turns)
    return chat and all(isinstance(text, str) for text in texts) and isinstance(item.metadata, Mapping)


def keep_items(data_hash: str, items: Sequence[Item], store: Store) -> None:
    """Keep the items of a run in the store; of a large file, where it lies and how it was read."""
    if isinstance(items, OnDisk):
        store.add_source(data_hash, _whereabouts(items, store))
    else:
        store.add_items(data_hash, (item.as_dict() for item in items))


def _whereabouts(items: OnDisk, store: Store) -> dict[str, Any]:
    if isinstance(items, FileItems):
        return {
            "file": str(Path(items.source).absolute()),
            "fields": asdict(items.parts),
            "left_out": packed(items.left_out),
        }
    for data_hash, version in zip(items.hashes, items.versions, strict=True):
        keep_items(data_hash, version, store)
    return {"versions": list(items.hashes)}


def stored_items(plan: Plan, store: Store) -> Sequence[Item]:
    """Return the items of a run, as they were when it began."""
    return items_of(plan.data_hash, store, f"run {plan.run_id}")


def items_of(data_hash: str, store: Store, whose: str) -> Sequence[Item]:
    """Return the items with this hash; those of a large file from where it lies, if it is what it was."""
    items, source = items_there(data_hash, store, whose), store.source(data_hash)
    if hash_of(items) != data_hash:
        place = "in the store" if source is None or "file" not in source else f"in {source['file']}"
        raise StoreError(f"the items of {whose} {place} were changed; start a new run")
    return items


def items_there(data_hash: str, store: Store, whose: str) -> Sequence[Item]:
    """Return the items that stand under a hash, whether or not they still have it."""
    source = store.source(data_hash)
    return _kept_items(data_hash, store) if source is None else _items_elsewhere(source, store, whose)


def _kept_items(data_hash: str, store: Store) -> tuple[Item, ...]:
    return tuple(item_from(row) for row in store.items(data_hash))


def _items_elsewhere(source: Mapping[str, Any], store: Store, whose: str) -> OnDisk:
    if "versions" in source:
        hashes = source["versions"]
        return ChainedItems([items_of(one, store, whose) for one in hashes], hashes)
    try:
        left_out = unpacked("left_out", source["left_out"], "<i8", int(source["left_out"]["shape"][0]))
        items = read_large(source["file"], Fields(**source["fields"]), left_out=left_out).items
    except (KeyError, TypeError, ValueError, IndexError):
        raise StoreError(
            f"where the items of {whose} lie was changed in the store; start a new run"
        ) from None
    except BadFile as error:
        raise StoreError(f"the items of {whose} are not where they were: {error}") from None
    assert isinstance(items, FileItems)
    return items
