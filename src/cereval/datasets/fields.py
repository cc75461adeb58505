"""Find in the records of a file which field is the question, the answer, the choices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from cereval.datasets.formats import Row
from cereval.errors import BadFile, InvalidInput, shown
from cereval.files import parse_json
from cereval.text import did_you_mean

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
    """Say what is wrong with a turn of a chat; None: nothing."""
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
