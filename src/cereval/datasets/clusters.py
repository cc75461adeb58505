"""Put questions that belong together into one item each: a cluster, such as the questions about one text.

A population is sampled by clusters: questions of one cluster are right and wrong together, so that they are not
independent of one another, and an interval that takes them to be is too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence

from cereval.datasets.base import DataSet, Item
from cereval.errors import InvalidInput
from cereval.text import did_you_mean

MEMBERS = "members"
"""The field of a cluster that has its questions."""
MOST_TOGETHER = 1000
"""Questions of one cluster, whose answers are kept as one."""


def clustered(data: DataSet, field: str) -> DataSet:
    """Return the clusters as items, in the order of their first questions."""
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
