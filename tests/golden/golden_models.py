"""The models of the golden runs: `python:golden_models:NAME`, with tests/golden as the working folder or on the path.

Whether an answer is right is a hash of the question, so that order, restarts and machines change nothing.
GOLDEN_DELAY_S makes `slow` and `rival` slow enough to be interrupted.
"""

from __future__ import annotations

import hashlib
import os
import time


def chance(purpose: str, text: str) -> float:
    """Draw a number in [0, 1) that belongs to a purpose and a question."""
    return int.from_bytes(hashlib.sha256(f"{purpose}|{text}".encode()).digest()[:6]) / 2**48


def answered(purpose: str, accuracy: float, text: str) -> str:
    """Answer `What is 17 + 4?`, rightly with chance `accuracy`."""
    words = text.rstrip("?").split()
    right = int(words[-3]) + int(words[-1])
    return str(right if chance(purpose, text) < accuracy else right + 1)


def steady(messages: list[dict[str, str]]) -> str:
    """Answer at once."""
    text = messages[-1]["content"]
    return answered("steady", 0.75, text)


def slow(messages: list[dict[str, str]]) -> str:
    """Take GOLDEN_DELAY_S seconds."""
    text = messages[-1]["content"]
    time.sleep(float(os.environ.get("GOLDEN_DELAY_S", "0")))
    return answered("slow", 0.7, text)


def rival(messages: list[dict[str, str]]) -> str:
    """Take GOLDEN_DELAY_S seconds, and be worse than `slow`."""
    text = messages[-1]["content"]
    time.sleep(float(os.environ.get("GOLDEN_DELAY_S", "0")))
    return answered("rival", 0.5, text)


def flaky(messages: list[dict[str, str]]) -> str:
    """Break on one question in twelve."""
    text = messages[-1]["content"]
    if chance("break", text) < 1 / 12:
        raise ValueError("a question that breaks the model")
    return answered("flaky", 0.7, text)


def partial(messages: list[dict[str, str]]) -> str:
    """Say more than was asked, at times: the scorer f1 gives part of the credit."""
    text = messages[-1]["content"]
    more = " or so" if chance("more", text) < 0.4 else ""
    return answered("partial", 0.8, text) + more


def priced(messages: list[dict[str, str]]) -> object:
    """Cost a tenth of a cent a call."""
    text = messages[-1]["content"]
    from cereval.models.base import Reply

    return Reply(answered("priced", 0.65, text), 10, 1, cost_usd=0.001)
