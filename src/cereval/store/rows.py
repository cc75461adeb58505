"""Records to rows and back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cereval.store.base import Answer, Run

_UNSTORABLE = re.compile("[\ud800-\udfff\0]")


def storable(text: str) -> str:
    """A text that both databases take: U+FFFD for NUL and for halves of surrogate pairs.

    >>> storable("a\\0b\\ud800")
    'a\ufffdb\ufffd'
    """
    return _UNSTORABLE.sub("\ufffd", text)


def answer_row(run_id: str, answer: Answer, at: float) -> dict[str, Any]:
    row = {key: storable(value) if isinstance(value, str) else value for key, value in asdict(answer).items()}
    return row | {"run_id": run_id, "at": at}


def answer_from(row: Mapping[Any, Any]) -> Answer:
    return Answer(**{key: value for key, value in row.items() if key not in ("run_id", "at")})


def run_from(row: Mapping[Any, Any]) -> Run:
    return Run(**(dict(row) | {"plan": json.loads(row["plan"])}))
