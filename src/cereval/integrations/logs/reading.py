"""Read what other tools write: JSON that may say NaN, lines of it, and zip files whose size nobody may trust."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from cereval.datasets.formats import LINE_LIMIT
from cereval.errors import BadContent, BadFile, shown
from cereval.files import (
    DATA_LIMIT,
    JSON_LIMIT,
    MIB,
    MOST_PARTS,
    decoded,
    open_regular,
    read_bytes,
)

ZSTANDARD = 93
"""The number of Zstandard among the ways to pack a file in a zip; Python's own reader does not know it."""

LISTING_LIMIT = 64 * MIB
"""Bytes of the list of files inside a zip: each entry takes ten times as much in memory."""


def parsed(text: str, place: str) -> Any:
    """Parse a JSON value in which NaN and infinities, which other tools write, are None.

    Nothing is copied or mended: a log is mostly text that nobody here looks at.
    """
    parts = text.count("[") + text.count("{")
    if parts > MOST_PARTS:
        raise BadContent(
            f"{place}: {parts:,} lists and objects in one JSON value; at most {MOST_PARTS:,} are read"
        )
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except json.JSONDecodeError as error:
        raise BadContent(f"{place}: broken JSON ({error.msg}, character {error.pos:,})") from None
    except (RecursionError, ValueError) as error:
        why = (
            "nested too deeply" if isinstance(error, RecursionError) else "a number with thousands of digits"
        )
        raise BadContent(f"{place}: broken JSON ({why})") from None


def loose_json(path: Path) -> Any:
    """Read the JSON value in a file."""
    return parsed(decoded(read_bytes(path, JSON_LIMIT), str(path)), str(path))


def loose_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Read a JSONL file, one object a line."""
    with open_regular(path) as file:
        for number, line in enumerate(_lines(file, path), start=1):
            if line.strip():
                yield _object(line, f"{path}, line {number}")


def _lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    try:
        yield from iter(lambda: file.readline(LINE_LIMIT + 1), b"")
    except OSError as error:
        raise BadContent(f"{path} cannot be read ({error.strerror})") from None


def first_line(path: Path) -> Mapping[str, Any]:
    """Read the object on the first line of a JSONL file."""
    found = next(loose_lines(path), None)
    if found is None:
        raise BadContent(f"{path} is empty")
    return found


def _object(line: bytes, place: str) -> Mapping[str, Any]:
    if len(line) > LINE_LIMIT:
        raise BadContent(f"{place}: longer than {LINE_LIMIT:,} bytes")
    value = parsed(decoded(line, place), place)
    if not isinstance(value, dict):
        raise BadContent(f"{place}: each line must be one JSON object, got {shown(value)}")
    return value


class Archive:
    """Read a zip file of JSON values, of which no more is unpacked in all than a data file may hold."""

    def __init__(self, path: Path) -> None:
        self.path, self.room = path, DATA_LIMIT
        self._file: BinaryIO = open_regular(path)
        try:
            self._zip = self._opened()
        except BaseException:
            self._file.close()
            raise
        self.names = frozenset(self._zip.namelist())

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._file.close()

    def json(self, name: str) -> Any:
        """Unpack and parse one file."""
        place = f"{self.path}, {name}"
        return parsed(decoded(self._unpacked(name, place), place), place)

    def _opened(self) -> zipfile.ZipFile:
        try:
            # The reader believes whatever the end of the file says of the list's length, and keeps all of it.
            end = zipfile._EndRecData(self._file)  # type: ignore[attr-defined]
            if end is not None and end[5] > LISTING_LIMIT:
                raise BadContent(f"{self.path} lists more files inside than are read")
            return zipfile.ZipFile(self._file)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError) as error:
            said = " ".join(str(error).split())[:100]
            raise BadContent(f"{self.path} is no whole zip file ({said}); was it cut off?") from None

    def _unpacked(self, name: str, place: str) -> bytes:
        entry = self._zip.getinfo(name)
        limit = min(JSON_LIMIT, self.room)
        try:
            packed = (
                _Zstandard(self._file, entry) if entry.compress_type == ZSTANDARD else self._zip.open(entry)
            )
            with packed:
                content = packed.read(limit + 1)
        except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, EOFError, zlib.error) as error:
            said = " ".join(str(error).split())[:100]
            raise BadContent(f"{place} cannot be unpacked ({said})") from None
        if len(content) > limit:
            most = f"{JSON_LIMIT // MIB:,} MiB of a part and {DATA_LIMIT // MIB:,} MiB of a log"
            raise BadFile(f"{place} unpacks to too much; at most {most} are read")
        self.room -= len(content)
        return content


class _Zstandard(io.BytesIO):
    """Read one packed file inside a zip as a stream."""

    def __init__(self, file: BinaryIO, entry: zipfile.ZipInfo) -> None:
        file.seek(entry.header_offset)
        header = file.read(30)
        if len(header) < 30 or header[:4] != b"PK\x03\x04":
            raise zipfile.BadZipFile("no file where the list says that there is one")
        file.seek(
            int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), io.SEEK_CUR
        )
        super().__init__(file.read(entry.compress_size))
        self.checksum = entry.CRC

    def read(self, size: int | None = -1, /) -> bytes:
        import pyarrow as pa

        with pa.CompressedInputStream(pa.BufferReader(self.getvalue()), "zstd") as stream:
            content = bytes(stream.read(size))
        if size is not None and len(content) < size and zlib.crc32(content) != self.checksum:
            raise zipfile.BadZipFile("its checksum is wrong")
        return content
