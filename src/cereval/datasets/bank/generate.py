"""The project's own question bank: about 2,000 short questions that cost nothing and are easy to check.

The topics differ widely in how hard they are for a small model: there, choosing the questions pays off.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cereval.datasets.bank import facts, measures, numbers, words
from cereval.datasets.bank.base import Question, Topic

SCORER = "contains"
"""Made for it: an answer is right when the number or word occurs in it as a whole word."""

TOPICS: tuple[Topic, ...] = (*numbers.TOPICS, *words.TOPICS, *measures.TOPICS, *facts.TOPICS)


def question_bank(seed: int = 0) -> tuple[dict[str, Any], ...]:
    """Records with `id`, `question`, `answer`, `category` and `level`, the same for the same seed.

    >>> question_bank()[0]["category"]
    'addition, one digit'
    """
    return tuple(
        _record(topic, number, question)
        for topic in TOPICS
        for number, question in enumerate(topic.questions(seed), start=1)
    )


def as_jsonl(seed: int = 0) -> Iterator[str]:
    """One JSON object per line."""
    return (json.dumps(record, ensure_ascii=False) for record in question_bank(seed))


def _record(topic: Topic, number: int, question: Question) -> dict[str, Any]:
    identity = "-".join(topic.name.replace(",", "").split())
    return {
        "id": f"{identity}-{topic.level}-{number:03d}",
        "question": question.text,
        "answer": list(question.answers),
        "category": topic.name,
        "level": topic.level,
    }
