"""A model that answers four of ten questions rightly and fails at the first."""

from __future__ import annotations


def answer(messages: list[dict[str, str]]) -> str:
    prompt = messages[-1]["content"]
    number = int(prompt.split()[0])
    if number == 0:
        raise RuntimeError("no answer")
    return str(number) if number <= 4 else "none"
