"""Answer from a key and err on purpose: known accuracy, injectable faults, delays that tell.

Every decision is a hash of the seed and the prompt, so that order, concurrency and restarts change nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from cereval.errors import InvalidInput
from cereval.models.base import Messages, Reply, last_text
from cereval.models.retries import Fault, FaultError, Retries, ask_with_retries, fault_of

FaultKind = Literal["429", "500", "timeout", "cut", "drop"]

FAULTS: Mapping[str, Fault] = {
    "429": Fault("scripted: too many requests (429)", retryable=True),
    "500": Fault("scripted: server error (500)", retryable=True),
    "timeout": Fault("scripted: no answer in time", retryable=True),
    "cut": Fault("scripted: an answer that is cut off", retryable=True),
    "drop": Fault("scripted: the connection broke", retryable=True),
}


QUICK_RETRIES = Retries(first_s=0.001, longest_s=0.01)


@dataclass(frozen=True, slots=True)
class Faults:
    """Describe injected faults: each attempt fails with chance `rate`, in one of `kinds`."""

    rate: float = 0.0
    kinds: tuple[FaultKind, ...] = ("429", "500", "timeout", "cut", "drop")

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise InvalidInput("fault_rate", "in [0, 1]", self.rate)
        unknown = [kind for kind in self.kinds if kind not in FAULTS]
        if unknown or not self.kinds:
            raise InvalidInput("kinds", f"some of {', '.join(FAULTS)}", unknown)


@dataclass(frozen=True, slots=True)
class Turn:
    """Describe what happens in one attempt: a fault or a text, after a delay."""

    text: str
    delay_s: float = 0.0
    fault: FaultKind | None = None


@dataclass(frozen=True, slots=True)
class ScriptedModel:
    """Answer the questions of `key` (question -> right answer), rightly with chance `accuracy`.

    `accuracy`: one chance for all, or one per question. `slow_when_wrong_s` is added to `delay_s` for wrong
    answers: a runner that consumes answers as they arrive, not in draw order, is biased by it.

    >>> model = ScriptedModel({"1+1": "2", "2+2": "4"}, accuracy=1.0)
    >>> model.turn([{"role": "user", "content": "What is 2+2 ?"}]).text
    '4'
    >>> model.true_accuracy()
    1.0
    """

    key: Mapping[str, str]
    accuracy: float | Mapping[str, float] = 0.7
    seed: int = 0
    faults: Faults = field(default_factory=Faults)
    delay_s: float = 0.0
    slow_when_wrong_s: float = 0.0
    wrong: str = "none of these"
    name: str = "scripted"
    retries: Retries = QUICK_RETRIES
    attempts: Counter[str] = field(default_factory=Counter, repr=False, compare=False)

    def __post_init__(self) -> None:
        chances = self.accuracy.values() if isinstance(self.accuracy, Mapping) else [self.accuracy]
        for chance in chances:
            if not 0 <= chance <= 1:
                raise InvalidInput("accuracy", "in [0, 1]", chance)

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:
        if top_logprobs:
            raise Fault("the scripted model gives no log-probabilities", everywhere=True).error()
        fault = partial(fault_of, endpoint=self.name)
        return await ask_with_retries(lambda: self._attempt(messages), fault, self.retries)

    async def close(self) -> None:
        """Close nothing: nothing is held open."""

    def turn(self, messages: Messages) -> Turn:
        """Play the next attempt at a prompt; attempts are counted, so that a retry may meet a different fate."""
        prompt = last_text(messages)
        self.attempts[prompt] += 1
        fault = self._fault(prompt, self.attempts[prompt])
        if fault is not None:
            return Turn("", self.delay_s, fault)
        del self.attempts[prompt]
        question = self.question_in(prompt)
        right = question is not None and self.is_right(question)
        text = self.key[question] if right and question is not None else self.wrong
        return Turn(text, self.delay_s + (0.0 if right else self.slow_when_wrong_s))

    def is_right(self, question: str) -> bool:
        chance = self.accuracy.get(question, 0.0) if isinstance(self.accuracy, Mapping) else self.accuracy
        return self._chance("right", question) < chance

    def true_accuracy(self) -> float:
        """Compute the share of the key that is answered rightly: what a full run would find."""
        return sum(map(self.is_right, self.key)) / len(self.key)

    def question_in(self, prompt: str) -> str | None:
        """Find the question in a prompt: all of it, its last line that is one, or the longest it contains."""
        for text in (prompt, *reversed(prompt.splitlines())):
            if text in self.key:
                return text
        return max((question for question in self.key if question in prompt), key=len, default=None)

    async def _attempt(self, messages: Messages) -> Reply:
        turn = self.turn(messages)
        if turn.delay_s:
            await asyncio.sleep(turn.delay_s)
        if turn.fault is not None:
            raise FaultError(FAULTS[turn.fault])
        return Reply(turn.text, len(last_text(messages).split()), len(turn.text.split()))

    def _fault(self, prompt: str, attempt: int) -> FaultKind | None:
        if self.faults.rate == 0 or self._chance(f"fault {attempt}", prompt) >= self.faults.rate:
            return None
        return self.faults.kinds[int(self._chance(f"kind {attempt}", prompt) * len(self.faults.kinds))]

    def _chance(self, purpose: str, prompt: str) -> float:
        data = f"{self.seed}|{purpose}|{prompt}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(data, digest_size=6).digest()) / 2**48
