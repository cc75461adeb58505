"""State the contract of a log reader: one tool's files become samples; nothing is trusted but their content.

Obligations of every tool:
- `claims` looks at what the file holds; `read` may take the tool's own layout for granted: what a stranger's file has
  elsewhere raises whatever Python raises there, and is one line for the user;
- a sample is known by its text and choices, never by its place; `mark` tells samples of one text apart;
- a call that failed, and a value that is no number, is None and never 0.
"""

from __future__ import annotations

import io
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any, BinaryIO

from cereval.datasets.base import canonical
from cereval.datasets.formats import Row, json_object, lines_of
from cereval.datasets.items import KNOWN, choices_of
from cereval.errors import BadContent, BadFile, shown
from cereval.files import (
    DATA_LIMIT,
    JSON_LIMIT,
    MIB,
    cleaned,
    decoded,
    is_folder,
    open_regular,
    parse_json,
    read_bytes,
)
from cereval.text import did_you_mean

ZSTANDARD = 93
"""The number of Zstandard among the ways to pack a file in a zip; Python's own reader does not know it."""

LISTING_LIMIT = 64 * MIB
"""Bytes of the list of files inside a zip: each entry takes ten times as much in memory."""


@dataclass(slots=True)
class Sample:
    """Hold one answer of a model as a log tells it; score None: it failed, or has no score."""

    model: str
    task: str
    text: str
    score: float | None
    choices: Sequence[str] = ()
    mark: str = ""
    """Tells samples with the same text apart, such as an id that somebody chose; empty: nothing does."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What else the log says of the question, by which questions may belong together."""

    def __post_init__(self) -> None:
        for name in ("model", "task", "text", "mark"):
            setattr(self, name, whole_text(getattr(self, name)))
        self.choices = tuple(map(whole_text, self.choices))
        known = self.fields.items() if isinstance(self.fields, Mapping) else ()
        self.fields = {str(name): value for name, value in known if isinstance(value, str | int)}


@dataclass(frozen=True, slots=True)
class Log:
    tool: str
    metric: str
    samples: Sequence[Sample]
    notes: Sequence[str] = ()
    metrics: Sequence[str] = ()


@dataclass(frozen=True)
class Content:
    path: Path

    def is_file(self, *endings: str) -> bool:
        """Tell whether the name ends so; whether it can be read is found out by reading it."""
        return self.path.name.lower().endswith(endings) and not is_folder(self.path)

    @cached_property
    def value(self) -> Any:
        return loose_json(self.path)

    @cached_property
    def first(self) -> Mapping[str, Any]:
        found = next(loose_lines(self.path), None)
        if found is None:
            raise BadContent(f"{self.path} is empty")
        return found


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    claims: Callable[[Content], bool]
    read: Callable[[Content, str | None], Log]


# -- what a sample is made of --------------------------------------------------------------------------------------


def identity(text: str, choices: Iterable[str] = (), mark: str = "") -> str:
    """Name an item by its content: spaces, the order of choices and the form of Unicode do not matter.

    >>> identity("What is  2 + 2?\\n") == identity("What is 2 + 2?")
    True
    >>> identity("Which is true?", ["a", "b"]) == identity("Which is true?", ["c", "d"])
    False
    """
    return digest([_plain(text), sorted(map(_plain, choices)), mark])


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def whole_text(value: object) -> str:
    """Return a text that can be written anywhere: halves of Unicode pairs are replaced."""
    return str(cleaned(str(value), "", mend=True))


def digest(value: Any) -> str:
    return sha256(canonical(value)).hexdigest()[:16]


def as_score(value: object, place: object, metric: str) -> float | None:
    """Return a number in [0, 1] as it is, None where there is none; what lies outside is no score of this kind.

    >>> as_score(True, "f", "acc"), as_score(None, "f", "acc"), as_score(float("nan"), "f", "acc")
    (1.0, None, None)
    """
    if isinstance(value, list | dict):
        raise BadContent(f"{place}: the metric {shown(metric)} is no number a sample, got {shown(value)}")
    if not isinstance(value, int | float) or value != value or value in (inf, -inf):
        return None
    if not 0 <= value <= 1:
        raise BadContent(
            f"{place}: the metric {shown(metric)} is {shown(value, 40)} for a sample; scores lie in [0, 1], name "
            "another metric with --metric"
        )
    return float(value)


def choose(names: Iterable[str], wanted: str | None, place: object, preferred: Sequence[str] = ()) -> str:
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
    texts = (values.get(folded.get(known.casefold(), "")) for known in KNOWN["input"])
    text = next((one for one in texts if isinstance(one, str) and one.strip()), None)
    if text is None:
        return None
    name = next((folded[known] for known in KNOWN["choices"] if known in folded), None)
    try:
        return text, () if name is None else choices_of(Row("", values), name, "")[1]
    except BadFile:
        return text, ()


# -- JSON that may say NaN, lines of it, and zip files whose size nobody may trust ---------------------------------


def loose_json(path: Path) -> Any:
    """Read the JSON value in a file. NaN, which other tools write, is None; nothing else is copied or mended: a log is
    mostly text that nobody here looks at.
    """
    return parse_json(decoded(read_bytes(path, JSON_LIMIT), str(path)), str(path), loose=True)


def loose_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with open_regular(path) as file:
        try:
            for number, line in enumerate(lines_of(file), start=1):
                if line.strip():
                    yield json_object(path, number, line, loose=True)
        except OSError as error:
            raise BadContent(f"{path} cannot be read ({error.strerror})") from None


@dataclass
class Archive:
    """Read a zip file of JSON values, of which no more is unpacked in all than a data file may hold."""

    path: Path
    room: int = field(default_factory=lambda: DATA_LIMIT)

    def __enter__(self) -> Archive:
        self._file = open_regular(self.path)
        try:
            # The reader believes whatever the end of the file says of the list's length, and keeps all of it.
            end = zipfile._EndRecData(self._file)  # type: ignore[attr-defined]
            if end is not None and end[5] > LISTING_LIMIT:
                raise BadContent(f"{self.path} lists more files inside than are read")
            self._zip = zipfile.ZipFile(self._file)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError) as error:
            self._file.close()
            raise BadContent(f"{self.path} is no whole zip file ({_short(error)}); was it cut off?") from None
        except BaseException:
            self._file.close()
            raise
        self.names = frozenset(self._zip.namelist())
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._file.close()

    def json(self, name: str) -> Any:
        place = f"{self.path}, {name}"
        return parse_json(decoded(self._unpacked(name, place), place), place, loose=True)

    def _unpacked(self, name: str, place: str) -> bytes:
        entry = self._zip.getinfo(name)
        limit = min(JSON_LIMIT, self.room)
        is_zstandard = entry.compress_type == ZSTANDARD
        try:
            with _Zstandard(self._file, entry) if is_zstandard else self._zip.open(entry) as packed:
                content = packed.read(limit + 1)
        except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, EOFError, zlib.error) as error:
            raise BadContent(f"{place} cannot be unpacked ({_short(error)})") from None
        if len(content) > limit:
            most = f"{JSON_LIMIT // MIB:,} MiB of a part and {DATA_LIMIT // MIB:,} MiB of a log"
            raise BadFile(f"{place} unpacks to too much; at most {most} are read")
        self.room -= len(content)
        return content


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:100]


class _Zstandard(io.BytesIO):
    """Read one packed file inside a zip as a stream."""

    def __init__(self, file: BinaryIO, entry: zipfile.ZipInfo) -> None:
        file.seek(entry.header_offset)
        header = file.read(30)
        if len(header) < 30 or header[:4] != b"PK\x03\x04":
            raise zipfile.BadZipFile("no file where the list says that there is one")
        name, extra = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
        file.seek(name + extra, io.SEEK_CUR)
        super().__init__(file.read(entry.compress_size))
        self.checksum = entry.CRC

    def read(self, size: int | None = -1, /) -> bytes:
        import pyarrow as pa

        with pa.CompressedInputStream(pa.BufferReader(self.getvalue()), "zstd") as stream:
            content = bytes(stream.read(size))
        if size is not None and len(content) < size and zlib.crc32(content) != self.checksum:
            raise zipfile.BadZipFile("its checksum is wrong")
        return content
