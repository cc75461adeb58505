"""Answers that are there already, in a field of the data: nobody is asked, they are scored as a model's would be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cereval.errors import CallError
from cereval.models.base import Messages, Reply, clean_text

GIVEN = "given/"
"""How the name of such a model begins; the field of the data follows."""
RECORDED = "recorded/"
"""The same for a column of recorded scores: the answer is the score."""


@dataclass(frozen=True, slots=True)
class GivenModel:
    """Answer each item as the data says; `given`: the fields of the item that is asked about.

    >>> import asyncio
    >>> asyncio.run(GivenModel("given/output").about({"metadata": {"output": "2"}}).answer([])).text
    '2'
    """

    name: str
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def about(self, item: Mapping[str, Any]) -> GivenModel:
        return replace(self, given=item["metadata"])

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:  # noqa: ARG002
        value = self.given.get(field_of(self.name))
        if value is None:
            raise CallError(f"the data has no answer under {field_of(self.name)} for this item")
        return Reply(clean_text(str(value)))

    async def close(self) -> None:
        """Close nothing: nothing is open."""


def field_of(name: str) -> str:
    """Return the field that the name of such a model says.

    >>> field_of("given/a/b")
    'a/b'
    """
    return name.partition("/")[2]


def is_given(name: str) -> bool:
    return name.startswith((GIVEN, RECORDED))
