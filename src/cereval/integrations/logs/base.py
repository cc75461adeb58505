"""State the contract of a log reader: one tool's files become samples; nothing is trusted but their content.

Obligations of every tool:
- `claims` looks at what the file holds, `read` raises `BadFile` in one line for whatever it cannot use;
- a sample is known by its text and choices, never by its place; `mark` tells samples of one text apart;
- a call that failed, and a value that is no score, is None and never 0.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any

from cereval.datasets.base import canonical
from cereval.datasets.fields import KNOWN, choices_of
from cereval.datasets.formats import Row
from cereval.errors import BadContent, BadFile, shown
from cereval.files import cleaned, is_folder
from cereval.integrations.logs.reading import first_line, loose_json
from cereval.text import did_you_mean


@dataclass(frozen=True, slots=True)
class Sample:
    """Hold one answer of a model as a log tells it; score None: it failed, or has no score."""

    model: str
    task: str
    text: str
    score: float | None
    choices: tuple[str, ...] = ()
    mark: str = ""
    """Tells samples with the same text apart, such as an id that somebody chose; empty: nothing does."""


@dataclass(frozen=True, slots=True)
class Log:
    """Hold the samples of one file, which metric was read, and what was left out."""

    tool: str
    metric: str
    samples: Sequence[Sample]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Content:
    """Hold a file or folder that is looked at by several tools and parsed once."""

    path: Path

    def is_file(self, *endings: str) -> bool:
        """Tell whether the name ends so; whether it can be read is found out by reading it."""
        return self.path.name.lower().endswith(endings) and not is_folder(self.path)

    @cached_property
    def value(self) -> Any:
        """Read the JSON value of a `.json` file."""
        return loose_json(self.path)

    @cached_property
    def first(self) -> Mapping[str, Any]:
        """Read the object on the first line of a `.jsonl` file."""
        return first_line(self.path)


@dataclass(frozen=True, slots=True)
class Tool:
    """Name one tool: its name, whether a file is a log of its own, and how that is read."""

    name: str
    claims: Callable[[Content], bool]
    read: Callable[[Content, str | None], Log]


def identity(text: str, choices: Iterable[str] = (), mark: str = "") -> str:
    """Name an item by its content: spaces, the order of choices and the form of Unicode do not matter.

    >>> identity("What is  2 + 2?\\n") == identity("What is 2 + 2?")
    True
    >>> identity("Which is true?", ["a", "b"]) == identity("Which is true?", ["c", "d"])
    False
    """
    parts = [_plain(text), sorted(map(_plain, choices)), mark]
    return sha256(canonical(parts)).hexdigest()[:16]


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def whole_text(value: object) -> str:
    """Return a text that can be written anywhere: halves of Unicode pairs are replaced."""
    return str(cleaned(str(value), "", mend=True))


def digest(value: Any) -> str:
    """Return a short hash of any value, as a mark."""
    return sha256(canonical(value)).hexdigest()[:16]


def as_score(value: object, place: str, metric: str) -> float | None:
    """Return a number in [0, 1] as it is, None where there is none; what lies outside is no score of this kind.

    >>> as_score(True, "f", "acc"), as_score(None, "f", "acc"), as_score(float("nan"), "f", "acc")
    (1.0, None, None)
    """
    if isinstance(value, list | dict):
        raise BadContent(f"{place}: the metric {shown(metric)} is no number a sample, got {shown(value)}")
    if not isinstance(value, int | float) or not isfinite(value):
        return None
    if not 0 <= value <= 1:
        raise BadContent(
            f"{place}: the metric {shown(metric)} is {value:g} for a sample; scores lie in [0, 1], name another metric "
            "with --metric"
        )
    return float(value)


def chosen(names: Iterable[str], wanted: str | None, place: str, preferred: Sequence[str] = ()) -> str:
    """Return the metric that was asked for, else the first of those preferred, else the first there is."""
    have = list(dict.fromkeys(names))
    if wanted is not None and wanted not in have:
        raise BadContent(f"{place} has no metric {shown(wanted)}; {did_you_mean(wanted, have)}")
    if not have:
        raise BadContent(f"{place} has no metric: nothing in it was scored")
    return wanted or next((name for name in preferred if name in have), have[0])


def question_in(values: Mapping[str, Any]) -> tuple[str, tuple[str, ...]] | None:
    """Find the text and the choices in a record of a data set, under the names that data sets use; None: not found."""
    folded = {str(name).casefold(): name for name in reversed(list(values))}
    for known in KNOWN["input"]:
        text = values.get(folded.get(known.casefold(), ""))
        if isinstance(text, str) and text.strip():
            return text, _choices_in(values, folded)
    return None


def _choices_in(values: Mapping[str, Any], folded: Mapping[str, str]) -> tuple[str, ...]:
    name = next((folded[known] for known in KNOWN["choices"] if known in folded), None)
    if name is None:
        return ()
    try:
        return choices_of(Row("", values), name, "")[1]
    except BadFile:
        return ()
