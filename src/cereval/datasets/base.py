"""State the contract of a data set: frozen items with stable ids, in a fixed order, and one hash over all of them.

Obligations of every reader:
- the same content gives the same ids and the same hash, wherever it is read from;
- ids are unique; items that the data does not name are named by their content;
- what is wrong is said in one line that names the file, the line or row, the field and the remedy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import ValidationError, convert

from cereval.errors import StoreError, shown


@dataclass(frozen=True, slots=True)
class Item:
    """Hold one question. `input` is a text or a chat; `answers` are the accepted ones, the first the canonical.

    Items with `choices` have letters (`A`, `B`, ...) as answers. `metadata` holds the data's other fields.

    >>> Item("q1", "1 + 1 = ?", ("2",)).answer
    '2'
    """

    id: str
    input: str | tuple[Mapping[str, str], ...]
    answers: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    category: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Fields of the data that are parts of the item: field -> `question`, `choices`, `category` or `id`."""

    @property
    def answer(self) -> str | None:
        return self.answers[0] if self.answers else None

    @property
    def text(self) -> str:
        """Return the question as one text; of a chat, the newest message."""
        return self.input if isinstance(self.input, str) else self.input[-1]["content"]

    def without_answer(self) -> dict[str, Any]:
        """Return what templates, judges and functions may see: every field by its name, but for the right answer.

        >>> Item("q1", "1 + 1 = ?", names={"query": "question"}).without_answer()["query"]
        '1 + 1 = ?'
        """
        parts = {
            "question": self.text,
            "choices": list(self.choices),
            "category": self.category,
            "id": self.id,
        }
        own = {name: parts[part] for name, part in self.names.items() if part in parts}
        others = {"input": self.text, "metadata": dict(self.metadata)}
        return dict(self.metadata) | own | parts | others

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "input": self.input if isinstance(self.input, str) else [dict(turn) for turn in self.input],
            "answers": list(self.answers),
            "choices": list(self.choices),
            "category": self.category,
            "metadata": dict(self.metadata),
            **({"names": dict(self.names)} if self.names else {}),
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Item:
        """Return the item that `as_dict` wrote for a store; one that is not as it was written is refused."""
        try:
            item = convert(row, cls)
            if isinstance(item.input, str) or all("content" in turn for turn in item.input):
                return item
        except ValidationError:
            pass
        raise StoreError(
            f"an item in the store was changed: {shown(row)}; restore a copy, or start a new run"
        )


@dataclass(frozen=True, slots=True)
class DataSet:
    source: str
    items: Sequence[Item]
    content_hash: str

    @classmethod
    def of(cls, source: str, items: Iterable[Item]) -> DataSet:
        items = tuple(items)
        return cls(source, items, content_hash(items))


def content_hash(items: Iterable[Item]) -> str:
    """Return the SHA-256 over the items in order; independent of the file's name and layout.

    >>> content_hash([Item("a", "x")]) == content_hash([Item("a", "y")])
    False
    """
    digest = hashlib.sha256()
    for item in items:
        digest.update(canonical(item.as_dict()) + b"\n")
    return f"sha256:{digest.hexdigest()}"


def canonical(value: Any) -> bytes:
    """Return JSON with one spelling per value; escapes keep even broken Unicode ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str).encode()
