"""Tell items by their content, so that what is known of one is known of it in every file that has it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

PARTS = ("input", "choices", "answers")
"""What makes a question: its id, its category and other fields of a file may change around it."""


def content_keys(items: Iterable[Mapping[str, Any]]) -> list[str]:
    """Name items by question, choices and right answers; the n-th copy of one is numbered.

    Stores keep these keys, and runs rest on scores that were found by them: the rule may never change.

    >>> items = [{"input": "1+1?"}, {"input": "2+2?", "id": "1"}, {"input": "1+1?", "id": "9"}]
    >>> first, second, copy = content_keys(items)
    >>> first == second, copy == f"{first}-2"
    (False, True)
    """
    seen: Counter[str] = Counter()
    keys = []
    for item in items:
        content = [item.get("input"), *(_listed(item.get(name)) for name in PARTS[1:])]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        seen[key] += 1
        keys.append(key if seen[key] == 1 else f"{key}-{seen[key]}")
    return keys


def _listed(value: Any) -> list[Any]:
    """Return a list as it is; a store that was changed by hand may hold anything in its place."""
    return list(value or ()) if isinstance(value, list | tuple) or value is None else [value]
