"""Keep the questions of a run in the store, and find them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cereval.datasets.base import Item, content_hash
from cereval.errors import StoreError, shown
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
    store.add_items(data_hash, (item.as_dict() for item in items))


def stored_items(plan: Plan, store: Store) -> Sequence[Item]:
    return items_of(plan.data_hash, store, f"run {plan.run_id}")


def items_of(data_hash: str, store: Store, whose: str) -> Sequence[Item]:
    items = kept_items(data_hash, store)
    if content_hash(items) != data_hash:
        raise StoreError(f"the items of {whose} in the store were changed; start a new run")
    return items


def kept_items(data_hash: str, store: Store) -> tuple[Item, ...]:
    """Return the items that stand under a hash, whether or not they still have it."""
    return tuple(item_from(row) for row in store.items(data_hash))
