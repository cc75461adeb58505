"""Answers that are there already, in a field of the data: nobody is asked, they are scored as a model's would be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cereval.errors import CallError
from cereval.models.base import Messages, Reply, clean_text, last_text

GIVEN = "given/"
"""How the name of such a model begins; the field of the data follows."""


@dataclass(frozen=True, slots=True)
class GivenModel:
    """Answers each prompt as the data says (`answers`: prompt -> text).

    >>> import asyncio
    >>> asyncio.run(GivenModel("given/output", {"1+1?": "2"}).answer([{"role": "user", "content": "1+1?"}])).text
    '2'
    """

    name: str
    answers: Mapping[str, str] = field(repr=False)

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:  # noqa: ARG002
        text = self.answers.get(last_text(messages))
        if text is None:
            raise CallError(f"the data has no answer under {self.name.removeprefix(GIVEN)} for this item")
        return Reply(clean_text(text))

    async def close(self) -> None:
        """Close nothing: nothing is open."""
