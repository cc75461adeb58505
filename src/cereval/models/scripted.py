"""Models that nobody has to ask: `scripted/ACCURACY` errs on purpose, `given/FIELD` has its answers in the data.

Every decision of a scripted one is a hash of the seed and the prompt: order, concurrency and restarts change nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cereval.errors import CallError, InvalidInput
from cereval.models.base import Messages, Reply, last_text
from cereval.models.retries import Fault
from cereval.text import storable


@dataclass(frozen=True, slots=True)
class ScriptedModel:
    """Answer the questions of `key` (question -> right answer), rightly with chance `accuracy`.

    >>> ScriptedModel({"1+1": "2", "2+2": "4"}, accuracy=1.0).text_for("What is 2+2 ?")
    ('4', True)
    """

    key: Mapping[str, str]
    accuracy: float = 0.7
    seed: int = 0
    wrong: str = "none of these"
    name: str = "scripted"

    def __post_init__(self) -> None:
        if not 0 <= self.accuracy <= 1:
            raise InvalidInput("accuracy", "in [0, 1]", self.accuracy)

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:
        if top_logprobs:
            raise Fault("the scripted model gives no log-probabilities", everywhere=True).error()
        prompt = last_text(messages)
        text, _ = self.text_for(prompt)
        return Reply(text, len(prompt.split()), len(text.split()))

    async def close(self) -> None:
        """Close nothing: nothing is held open."""

    def text_for(self, prompt: str) -> tuple[str, bool]:
        """Return the answer to a prompt, and whether it is right."""
        question = self.question_in(prompt)
        if question is not None and self.is_right(question):
            return self.key[question], True
        return self.wrong, False

    def is_right(self, question: str) -> bool:
        return self.draw("right", question) < self.accuracy

    def question_in(self, prompt: str) -> str | None:
        """Find the question in a prompt: all of it, its last line that is one, or the longest it contains."""
        for text in (prompt, *reversed(prompt.splitlines())):
            if text in self.key:
                return text
        return max((question for question in self.key if question in prompt), key=len, default=None)

    def draw(self, purpose: str, prompt: str) -> float:
        data = f"{self.seed}|{purpose}|{prompt}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(data, digest_size=6).digest()) / 2**48


# -- answers that are there already -----------------------------------------------------------------------------------


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
        return Reply(storable(str(value)))

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
