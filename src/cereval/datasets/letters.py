"""Turn the answers of multiple-choice items, in whatever way the data writes them, into letters."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase
from typing import Any

from cereval.datasets.fields import as_text

MOST = len(ascii_uppercase)

LONGEST_NUMBER = 9
"""Digits of a number that names a choice: what is longer names none, and Python refuses 5,000 digits."""


def letter_of(answer: Any, labels: Sequence[str], choices: Sequence[str], first: int = 0) -> str | None:
    """Return the letter of the right choice: named by its label, its letter, its text or its number (from `first`).

    >>> letter_of("3", ("1", "2", "3"), ("x", "y", "z")), letter_of(1, (), ("x", "y"))
    ('C', 'B')
    >>> letter_of("y", (), ("x", "y")), letter_of("b", (), ("x", "y")), letter_of(7, (), ("x", "y"))
    ('B', 'B', None)
    """
    text = as_text(answer).strip()
    letters = ascii_uppercase[: len(choices)]
    if text in labels:
        return letters[labels.index(text)]
    if len(text) == 1 and text.upper() in letters and text not in choices:
        return text.upper()
    if not isinstance(answer, int) and text in [choice.strip() for choice in choices]:
        return letters[[choice.strip() for choice in choices].index(text)]
    if is_number(text) and 0 <= int(text) - first < len(choices):
        return letters[int(text) - first]
    return None


def first_number(answers: Sequence[Any], counts: Sequence[int]) -> int:
    """Tell whether a data set counts its choices from 0 or from 1.

    From 1 only if some answer would overshoot otherwise and none is 0.

    >>> first_number([1, 4, 2], [4, 4, 4]), first_number([0, 3], [4, 4])
    (1, 0)
    """
    numbers = _numbers(answers, counts)
    return int(any(n == count for n, count in numbers) and all(n > 0 for n, _ in numbers))


def says_where_it_counts_from(answers: Sequence[Any], counts: Sequence[int]) -> bool:
    """Tell whether numbers that name choices include the first (0) or the last counted from 1; True if there are
    none.

    >>> says_where_it_counts_from([1, 3], [4, 4]), says_where_it_counts_from([1, 4], [4, 4])
    (False, True)
    """
    numbers = _numbers(answers, counts)
    return not numbers or any(n == 0 or n == count for n, count in numbers)


def _numbers(answers: Sequence[Any], counts: Sequence[int]) -> list[tuple[int, int]]:
    return [
        (int(text), count)
        for text, count in zip(map(as_text, answers), counts, strict=True)
        if count and is_number(text)
    ]


def is_number(text: str) -> bool:
    """Tell whether an answer may be the number of a choice."""
    return text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER
