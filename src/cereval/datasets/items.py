"""Turn rows into items: parts are read, answers to choices become letters, ids are given, the rest is metadata."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from string import ascii_uppercase
from typing import Any

from cereval.datasets.base import Item, canonical
from cereval.datasets.formats import Row
from cereval.errors import BadFile, InvalidInput, shown
from cereval.files import parse_json
from cereval.text import did_you_mean

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


# -- which field is what ----------------------------------------------------------------------------------------------


KNOWN: Mapping[str, tuple[str, ...]] = {
    "input": ("question", "input", "prompt", "instruction", "problem", "query", "messages", "text"),
    "answer": (
        *(
            "answer",
            "target",
            "label",
            "answers",
            "answerKey",
            "gold",
            "expected",
            "expected_output",
            "ideal",
        ),
        *("reference", "output", "solution"),
    ),
    "choices": ("choices", "options"),
    "category": ("category", "subject", "topic", "task", "type"),
    "id": ("id", "item", "item_id", "question_id", "uid"),
}
"""Field names that are recognised, in order of preference; capitals do not matter."""

ROLES = ("system", "user", "assistant")

MOST_SHOWN = 20
"""Fields that an error names: a table may have thousands."""


def list_names(names: Iterable[str]) -> str:
    """List the fields that there are, for an error.

    >>> list_names(["query", "ideal"])
    "'query', 'ideal'"
    """
    first = list(islice(names, MOST_SHOWN + 1))
    return ", ".join(map(shown, first[:MOST_SHOWN])) + (", ..." if len(first) > MOST_SHOWN else "")


@dataclass(frozen=True, slots=True)
class Fields:
    """Say which field of the data plays which part; `None` takes the first name that is recognised.

    `choices` may name several fields, as in `A,B,C,D`. taken: fields that are something else, such as the answers of
    `given/output`, and no part unless it is named so.

    >>> Fields(input="q").resolved(["q", "target"]).answer
    'target'
    """

    input: str | None = None
    answer: str | None = None
    choices: str | None = None
    category: str | None = None
    id: str | None = None
    taken: Any = ()

    def resolved(self, names: Sequence[str], source: str = "the data") -> Fields:
        """Return the same with every part named, where the data has it; only `input` must be there."""
        found = {part: self._resolved(part, names, source) for part in KNOWN}
        if found["input"] is None:
            raise BadFile(
                f"{source} has no field that looks like a question; name it with --input (it has {list_names(names)})"
            )
        return Fields(**found)

    def _resolved(self, part: str, names: Sequence[str], source: str) -> str | None:
        wanted: str | None = getattr(self, part)
        if wanted is None:
            folded = {name.casefold(): name for name in reversed(names) if name not in self.taken}
            return next(
                (folded[known.casefold()] for known in KNOWN[part] if known.casefold() in folded), None
            )
        for name in wanted.split(",") if part == "choices" and wanted not in names else [wanted]:
            if name not in names:
                raise InvalidInput(f"--{part}", f"a field of {source} ({did_you_mean(name, names)})", name)
        return wanted

    def own_names(self) -> dict[str, str]:
        """Return the fields that templates may name as the data does, and the part that each plays.

        >>> Fields(input="query", category="category").own_names()
        {'query': 'question'}
        """
        named = {self.input: "question", self.choices: "choices", self.category: "category", self.id: "id"}
        return {name: part for name, part in named.items() if name and name not in ("input", part)}

    def used(self) -> frozenset[str]:
        single = {self.input, self.answer, self.category, self.id, self.choices}
        return frozenset(name for name in single | set((self.choices or "").split(",")) if name)


def question_of(row: Row, name: str, source: str) -> str | tuple[Mapping[str, str], ...]:
    value, place = row.values.get(name), f"{source}, {row.place}: the field {name!r}"
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, list) and value and isinstance(value[0], dict) and "role" in value[0]:
        return chat_of(value, place)
    if value is None or isinstance(value, str) or value in ([], ()):
        raise BadFile(f"{place} is missing or empty; every item needs a question")
    raise BadFile(f"{place} must be a text or chat messages, got {shown(value)}")


def choices_of(row: Row, name: str, source: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return labels and texts of the choices, from a list, a mapping, ARC's `{label, text}` or several fields."""
    if name not in row.values and "," in name:
        parts = name.split(",")
        return tuple(parts), tuple(as_text(row.values.get(part, "")) for part in parts)
    value, place = _parse_cell(row.values.get(name)), f"{source}, {row.place}: the field {name!r}"
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        labels, texts = value.get("label") or [], value["text"]
        if not isinstance(labels, list) or len(labels) not in (0, len(texts)):
            raise BadFile(
                f"{place} must have one label for each of its {len(texts)} texts, got {shown(labels)}"
            )
        return tuple(map(as_text, labels)), tuple(map(as_text, texts))
    if isinstance(value, dict):
        return tuple(value), tuple(map(as_text, value.values()))
    if value is None or value == "":
        return (), ()
    if not isinstance(value, list | tuple):
        raise BadFile(f"{place} must be a list of choices, got {shown(value)}")
    return (), tuple(map(as_text, value))


def identity_of(value: Any, place: str) -> str:
    """Read an id: a text or a number, as a text.

    >>> identity_of(7.0, "line 1")
    '7'
    """
    if value is None or value == "" or (isinstance(value, float) and value != value):
        raise BadFile(f"{place} is empty; every item needs its id")
    if isinstance(value, dict | list | tuple | bytes):
        raise BadFile(f"{place} must be a text or a number, got {shown(value)}")
    return as_text(value)


def as_text(value: Any) -> str:
    """Return a value as a text: whole floats lose their `.0`, which only the file format put there.

    >>> as_text(3.0), as_text(True), as_text(" x ")
    ('3', 'true', ' x ')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return value if isinstance(value, str) else str(value)


def chat_of(turns: Sequence[Any], place: str) -> tuple[Mapping[str, str], ...]:
    """Read a chat: turns with a role and a text, a system's first or not at all, the user's last.

    >>> chat_of([{"role": "user", "content": "1+1?"}], "line 1")
    ({'role': 'user', 'content': '1+1?'},)
    """
    for number, turn in enumerate(turns, start=1):
        wrong = _wrong_turn(turn, number, len(turns))
        if wrong is not None:
            raise BadFile(f"{place}, message {number} of {len(turns)}: {wrong}")
    return tuple({"role": turn["role"], "content": turn["content"]} for turn in turns)


def _wrong_turn(turn: Any, number: int, count: int) -> str | None:
    if not isinstance(turn, dict):
        return f"it must have `role` and `content`, got {shown(turn)}"
    role, content = turn.get("role"), turn.get("content")
    if role not in ROLES:
        return f"`role` must be one of {', '.join(ROLES)}, got {shown(role)}"
    if not isinstance(content, str) or not content.strip():
        return f"`content` must be a text that is not empty, got {shown(content)}"
    if role == "system" and number > 1:
        return "a system's message comes first or not at all"
    if number == count and role != "user":
        return f"the last one is what the model is asked: its `role` must be user, got {shown(role)}"
    return None


def _parse_cell(value: Any) -> Any:
    """Read a cell that holds JSON as such: CSV has no lists."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return parse_json(value, "a cell", mend=True)
        except BadFile:
            return value
    return value
