"""Records to rows and back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from cereval.store.base import Answer, Run

_UNSTORABLE = re.compile("[\ud800-\udfff\0]")
_COLUMNS = tuple(field.name for field in fields(Answer))


def storable(text: str) -> str:
    """A text that both databases take: U+FFFD for NUL and for halves of surrogate pairs.

    >>> storable("a\\0b\\ud800")
    'a\ufffdb\ufffd'
    """
    return _UNSTORABLE.sub("\ufffd", text)


def answer_row(run_id: str, answer: Answer, at: float) -> dict[str, Any]:
    # `asdict` would copy every value, at a third of what the whole insert costs.
    row = {name: getattr(answer, name) for name in _COLUMNS}
    texts = {name: storable(value) for name, value in row.items() if isinstance(value, str)}
    return row | texts | {"run_id": run_id, "at": at}


def answer_from(row: Mapping[Any, Any]) -> Answer:
    return Answer(**{key: value for key, value in row.items() if key not in ("run_id", "at")})


def run_from(row: Mapping[Any, Any]) -> Run:
    return Run(**(dict(row) | {"plan": json.loads(row["plan"])}))
