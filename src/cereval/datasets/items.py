"""Turn rows into items: parts are read, answers to choices become letters, ids are given, the rest is metadata."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import cache
from string import ascii_uppercase
from typing import Any

from cereval.datasets.base import Item, canonical
from cereval.datasets.fields import Fields, as_text, choices_of, identity_of, question_of
from cereval.datasets.formats import Row
from cereval.errors import BadFile, shown

MOST = len(ascii_uppercase)
LONGEST_NUMBER = 9
"""Digits of a number that names a choice: what is longer names none, and Python refuses 5,000 digits."""


Choices = tuple[tuple[str, ...], tuple[str, ...]]
"""The labels of the choices, where they have any, and their texts."""


def items_from(
    rows: Sequence[Row], fields: Fields, source: str, *, combined: bool = False
) -> tuple[Item, ...]:
    parts = fields.resolved(list(dict.fromkeys(name for row in rows for name in row.values)), source)
    choices = [_choices(row, parts, source) for row in rows]
    answers = (row.values.get(parts.answer or "", "") for row in rows)
    kinds = {number_kind(answer, len(texts)) for answer, (_, texts) in zip(answers, choices, strict=True)}
    first = first_choice(kinds, source, combined=combined)
    items = [_item(row, found, parts, first, source) for row, found in zip(rows, choices, strict=True)]
    if parts.id is None:
        return tuple(_name_by_content(items))
    places: dict[str, str] = {}
    for item, row in zip(items, rows, strict=True):
        if item.id in places:
            raise BadFile(
                f"{source}, {row.place}: the id {shown(item.id)} was already given on {places[item.id]}; "
                "make ids unique, or name another field with --id"
            )
        places[item.id] = row.place
    return tuple(items)


def _item(row: Row, choices: Choices, parts: Fields, first: int, source: str) -> Item:
    assert parts.input is not None
    place, (used, names) = f"{source}, {row.place}: the field", _names(parts)
    category = row.values.get(parts.category) if parts.category else None
    return Item(
        id="" if parts.id is None else identity_of(row.values.get(parts.id), f"{place} {parts.id!r}"),
        input=question_of(row, parts.input, source),
        answers=() if parts.answer is None else _answers(row, choices, parts.answer, first, source),
        choices=choices[1],
        category=None if category is None or category == "" else as_text(category),
        # Parquet fills absent fields with None and CSV with "": neither may change the data's hash.
        metadata={
            name: _plain(value)
            for name, value in row.values.items()
            if name not in used and value is not None and value != ""
        },
        names=names,
    )


@cache
def _names(parts: Fields) -> tuple[frozenset[str], Mapping[str, str]]:
    """Return what all items share: the fields that have a part, and those that keep their own name."""
    return parts.used(), parts.own_names()


def _choices(row: Row, parts: Fields, source: str) -> Choices:
    if parts.choices is None:
        return (), ()
    labels, texts = choices_of(row, parts.choices, source)
    if len(texts) == 1 or len(texts) > MOST:
        raise BadFile(f"{source}, {row.place}: {len(texts)} choices; an item needs 2 to {MOST}, or none")
    return labels, texts


def _answers(row: Row, choices: Choices, name: str, first: int, source: str) -> tuple[str, ...]:
    value = row.values.get(name)
    if isinstance(value, dict) and "text" in value:
        value = value["text"]
    values = list(value) if isinstance(value, list | tuple) else [value]
    if not values or any(one is None or one == "" for one in values):
        raise BadFile(f"{source}, {row.place}: the field {name!r} is missing or empty")
    labels, texts = choices
    if not texts:
        return tuple(dict.fromkeys(map(as_text, values)))
    letters = [letter_of(one, labels, texts, first) for one in values]
    if None in letters:
        raise BadFile(
            f"{source}, {row.place}: the answer {shown(values[letters.index(None)])} is none of the "
            f"{len(texts)} choices; give a letter, a number or a choice's text"
        )
    return tuple(letter for letter in letters if letter)


def _name_by_content(items: list[Item]) -> list[Item]:
    """Give ids from the content alone, which survive reordering; the n-th copy of an item is numbered."""
    seen: Counter[str] = Counter()
    named = []
    for item in items:
        content = {
            key: value for key, value in item.as_dict().items() if key not in ("id", "metadata", "names")
        }
        name = hashlib.sha256(canonical(content)).hexdigest()[:16]
        seen[name] += 1
        named.append(replace(item, id=name if seen[name] == 1 else f"{name}-{seen[name]}"))
    return named


def _plain(value: Any) -> Any:
    """Keep only what JSON can hold, so that items can be stored, hashed and sent to other processes."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


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


def number_kind(answer: Any, count: int) -> str:
    """Tell whether an answer to an item of so many choices is the number of a choice, and which: `first` counts from 0,
    `last` from 1, `other` may do either; nothing where it is none.

    >>> [number_kind(answer, 4) for answer in (0, 4, "2", "B", "yes")]
    ['first', 'last', 'other', '', '']
    """
    text = as_text(answer)
    if not count or not is_number(text):
        return ""
    return "first" if int(text) == 0 else "last" if int(text) == count else "other"


def first_choice(kinds: Set[str], source: str, *, combined: bool) -> int:
    """Tell whether a data set counts its choices from 0 or from 1, by the kinds of its numbers.

    From 1 only if some answer would overshoot otherwise and none is 0.
    """
    if combined and kinds - {""} == {"other"}:
        raise BadFile(
            f"{source}: its numbers may count the choices from 0 or from 1, and neither the first nor the last is "
            "among the answers; where files are combined, write letters or the choices' texts"
        )
    return int("last" in kinds and "first" not in kinds)


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER
