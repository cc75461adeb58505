"""Models whose every answer is stated in advance, for benchmarks that run in this process.

`python:benchmarks.stated_models:model_3` answers the question "item 17" with "17" where STATED[3] says that it is right
there, and fails where it says so. A module of its own: a benchmark and the model that it names share one STATED.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
MODELS = 20
WRONG = "none of these"


@dataclass(slots=True, eq=False)
class Stated:
    """right: on which items; failing: on which its calls fail, whatever it would have said; slow_s: at most so slow."""

    right: Bools
    failing: Bools | None = None
    slow_s: float = 0.0
    asked: list[int] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """What asking every item would find."""
        return float(self.right.mean())

    def repaired(self, items: Sequence[int]) -> Stated:
        """The same model, right on these items too: what a prompt becomes that is mended until they pass."""
        right = self.right.copy()
        right[list(items)] = True
        return Stated(right)

    async def answer(self, prompt: str) -> str:
        item = int(prompt.split()[-1])
        self.asked.append(item)
        if self.slow_s:
            # Late or early by the question, so that the order of completion is another than that of the draws.
            chance = int.from_bytes(hashlib.blake2b(prompt.encode(), digest_size=4).digest()) / 2**32
            await asyncio.sleep(self.slow_s * chance)
        if self.failing is not None and self.failing[item]:
            raise RuntimeError(f"no answer to {prompt}")
        return str(item) if self.right[item] else WRONG


STATED: dict[int, Stated] = {}


def _model(number: int) -> Callable[[list[dict[str, str]]], Coroutine[Any, Any, str]]:
    async def answer(messages: list[dict[str, str]]) -> str:
        return await STATED[number].answer(messages[-1]["content"])

    return answer


for _number in range(MODELS):
    globals()[f"model_{_number}"] = _model(_number)


def named(*models: Stated) -> list[str]:
    """State these models, and say how each is called on a command line."""
    STATED.clear()
    STATED.update(enumerate(models))
    return [f"python:{__name__}:model_{number}" for number in STATED]


def questions(size: int, kinds: int = 1) -> list[dict[str, str]]:
    """So many items, each of one of so many categories in turn."""
    return [
        {"question": f"item {number}", "answer": str(number), "category": f"kind {number % kinds}"}
        for number in range(size)
    ]


@contextmanager
def new_store() -> Iterator[str]:
    """A SQLite store that is gone afterwards, and a folder of settings: what is trusted here is forgotten with it."""
    before = os.environ.get("XDG_CONFIG_HOME")
    with TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = folder
        try:
            yield f"sqlite:///{Path(folder) / 'runs.db'}"
        finally:
            os.environ.pop("XDG_CONFIG_HOME") if before is None else os.environ.update(XDG_CONFIG_HOME=before)
