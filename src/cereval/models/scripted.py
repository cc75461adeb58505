"""Answer from a key and err on purpose: `scripted/ACCURACY`.

Every decision is a hash of the seed and the prompt, so that order, concurrency and restarts change nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from cereval.errors import InvalidInput
from cereval.models.base import Messages, Reply, last_text
from cereval.models.retries import Fault


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
        """Return a number in [0, 1) that seed, purpose and prompt decide."""
        data = f"{self.seed}|{purpose}|{prompt}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(data, digest_size=6).digest()) / 2**48
