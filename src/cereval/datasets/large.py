"""Read files of millions of questions without holding them: texts stay on disk, and are read when a question is asked.

Opening goes through the file once and checks every row. What stays in memory is small: where each line of a JSONL file
begins, the categories as whole numbers, and a 64-bit hash of each id. The pages of a Parquet file hold up to a million
rows that can only be unpacked together, so its rows are copied to a temporary file in pieces of 1,024 (`TMPDIR` says
where; it is gone when the process ends).

The data's hash is that of the file's bytes and of the fields that were read, not that of every question: the same
questions in another file are other data here.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import weakref
from array import array
from bisect import bisect_right
from collections import ChainMap
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from cereval.datasets.base import DataSet, Item, canonical, content_hash
from cereval.datasets.fields import Fields, as_text, choices_of, identity_of
from cereval.datasets.formats import (
    FORMATS,
    LINE_LIMIT,
    MOST_CELLS,
    Row,
    check_names,
    column_values,
    json_object,
    lines_of,
    one_line,
    row_of,
)
from cereval.datasets.items import first_choice, is_number, item_of_row, number_kind
from cereval.errors import BadContent, BadFile, shown
from cereval.files import MIB, open_regular
from cereval.plan import MOST_ITEMS

LARGE = 500_000
"""Questions up to which a file is read whole: about a gigabyte, and half a minute."""
FILE_LIMIT = 2**40
MOST_ROWS = MOST_ITEMS
BLOCK = 16 * MIB
PIECE = 1024
HEAD = 1000
"""Rows that tell which fields a JSONL file has."""

Integers = NDArray[np.int64]


class RowReader(Protocol):
    """Reach the rows of a file by number, once it has been gone through."""

    names: list[str]

    def scan(self, names: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Go through the file, and yield the values of each row under some names."""

    def column(self, name: str) -> Iterator[Any]: ...

    def row(self, number: int) -> Row: ...

    def place(self, number: int) -> str:
        """Say where a row stands, as in `line 7`."""


class _LazyItems(Sequence[Item]):
    content_hash: str
    answer_key: MutableMapping[str, str]
    """The answers of the items that were looked at, by their texts: for models that play a part."""

    def _item(self, index: int) -> Item:
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        if isinstance(index, slice):
            return [self._item(place) for place in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._item(index % len(self))


class FileItems(_LazyItems):
    """Hold the items of one file that stay on disk.

    left_out: rows that are no items of the pool (worked examples, items that an earlier version has), in order.
    """

    def __init__(
        self, source: str, rows: RowReader, scan: Scan, file_hash: str, left_out: Integers | None = None
    ) -> None:
        self.source, self._rows, self._scan, self._file_hash = source, rows, scan, file_hash
        self.left_out = np.empty(0, dtype=np.int64) if left_out is None else left_out
        self.parts = scan.parts
        self.metadata = [name for name in rows.names if name not in scan.parts.used()]
        self.answer_key: dict[str, str] = {}
        known = {"file": file_hash, "fields": asdict(scan.parts)}
        if len(self.left_out):
            known["left_out"] = hashlib.sha256(self.left_out.astype("<i8").tobytes()).hexdigest()
        self.content_hash = _hash_of_parts(known)

    @property
    def groups(self) -> tuple[list[str], Integers]:
        """Return the names of the categories in order, and the number of each item's; an item without has ''."""
        return self._scan.names, np.delete(self._scan.codes, self.left_out)

    @property
    def id_hashes(self) -> Integers | None:
        """Return a hash of each item's id, the same within a process; None where the data has no ids."""
        hashes = self._scan.id_hashes
        return None if hashes is None else np.delete(hashes, self.left_out)

    def column(self, name: str) -> Iterator[Any]:
        """Yield what the items have under a field, in their order; None where one has nothing."""
        left_out = set(self.left_out.tolist())
        return (value for row, value in enumerate(self._rows.column(name)) if row not in left_out)

    def without(self, items: Sequence[int] | Integers) -> FileItems:
        left_out = np.union1d(self.left_out, self._rows_of(np.asarray(items, dtype=np.int64)))
        return FileItems(self.source, self._rows, self._scan, self._file_hash, left_out)

    def _rows_of(self, items: Integers) -> Integers:
        """Return the rows of items: the k-th row that was left out stands before the items from left_out[k] - k on."""
        before = self.left_out - np.arange(len(self.left_out))
        return np.asarray(items + np.searchsorted(before, items, side="right"))

    def __len__(self) -> int:
        return len(self._scan.codes) - len(self.left_out)

    def _item(self, index: int) -> Item:
        row = int(self._rows_of(np.array([index]))[0])
        item = item_of_row(self._rows.row(row), self.parts, self._scan.first, self.source, f"row-{row + 1}")
        if item.answer is not None:
            self.answer_key[item.text] = item.answer
        return item


class ChainedItems(_LazyItems):
    """Hold the items of several versions, one after the other."""

    def __init__(self, parts: Sequence[Sequence[Item]], hashes: Sequence[str]) -> None:
        self.versions, self.hashes = tuple(parts), tuple(hashes)
        self._ends = np.cumsum([len(part) for part in parts]).tolist()
        self.answer_key = ChainMap(*map(answer_key_of, parts))
        self.content_hash = _hash_of_parts(list(hashes))

    def __len__(self) -> int:
        return int(self._ends[-1])

    def _item(self, index: int) -> Item:
        part = bisect_right(self._ends, index)
        return self.versions[part][index - (self._ends[part - 1] if part else 0)]


OnDisk = FileItems | ChainedItems


def _hash_of_parts(parts: Any) -> str:
    return f"sha256:{hashlib.sha256(canonical(parts)).hexdigest()}"


def hash_of(items: Sequence[Item]) -> str:
    """Return the hash by which runs know that they share items."""
    return items.content_hash if isinstance(items, OnDisk) else content_hash(items)


def first_of(items: Sequence[Item]) -> Sequence[Item]:
    """Return the items that tell what all are like: of those on disk, the first thousand."""
    return items[:HEAD] if isinstance(items, OnDisk) else items


def categories_of(items: Sequence[Item]) -> Sequence[str | None]:
    """Return the items' categories; of a large file each that there is once."""
    if not isinstance(items, FileItems):
        return [item.category for item in items]
    names, codes = items.groups
    return [names[code] for code in np.unique(codes)]


def answer_key_of(items: Sequence[Item]) -> MutableMapping[str, str]:
    """Return the right answers by the questions' texts; on disk of the items that were looked at."""
    if isinstance(items, OnDisk):
        return items.answer_key
    return {item.text: item.answer for item in items if item.answer is not None}


# -- opening ----------------------------------------------------------------------------------------------------------


def is_large(path: Path) -> bool:
    """Tell whether a file has more questions than are held in memory; other layouts than Parquet and JSONL never."""
    kind = FORMATS.get(path.suffix.lower(), "")
    if kind == "parquet":
        return _parquet_rows(path) > LARGE
    if kind != "jsonl":
        return False
    with open_regular(path, FILE_LIMIT) as file:
        # A line of JSON with a question has more than a dozen bytes: small files need not be counted.
        if os.fstat(file.fileno()).st_size < 12 * LARGE:
            return False
        # Without an end of line for longer than a line may be it is no JSONL, and the usual reader says so.
        lines = without = 0
        while lines <= LARGE and without <= LINE_LIMIT and (block := file.read(BLOCK)):
            found = block.count(b"\n")
            lines, without = lines + found, 0 if found else without + len(block)
        return lines > LARGE


def _parquet_rows(path: Path) -> int:
    """Return what the file says of itself; 0 where it says nothing that can be read: the usual reader will complain."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_regular(path, FILE_LIMIT) as file:
            return int(pq.ParquetFile(file).metadata.num_rows)
    except (BadFile, pa.ArrowException, OSError, ValueError):
        return 0


def read_large(
    source: str, fields: Fields, *, combined: bool = False, left_out: Integers | None = None
) -> DataSet:
    """Open a large file: its fields are found, every row is checked once, and nothing but numbers is kept."""
    path = Path(source)
    opener: Callable[[Path], RowReader] = (
        JsonlRows if FORMATS[path.suffix.lower()] == "jsonl" else ParquetRows
    )
    rows = opener(path)
    scan = _scan(rows, fields.resolved(rows.names, source), source, combined=combined)
    with open_regular(path, FILE_LIMIT) as file:
        file_hash = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    items = FileItems(source, rows, scan, file_hash, left_out)
    return DataSet(source, items, items.content_hash)


# -- what is known of all rows ----------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Scan:
    """Hold what going through a file once has found. first: the number of the first choice, 0 or 1."""

    parts: Fields
    first: int
    names: list[str]
    codes: Integers
    id_hashes: Integers | None


def _scan(rows: RowReader, parts: Fields, source: str, *, combined: bool) -> Scan:
    """Check every row, and keep its category and a hash of its id."""
    names = [name for name in rows.names if name in parts.used()]
    at = {part: names.index(name) for part, name in asdict(parts).items() if name in names}
    categories: dict[str, int] = {}
    codes, hashes = array("l"), array("q")
    kinds: set[str] = set()
    needed = [at[part] for part in ("input", "answer") if part in at]
    category_at, id_at, answer_at = (at.get(part) for part in ("category", "id", "answer"))
    for number, values in enumerate(rows.scan(names)):
        for place in needed:
            if values[place] is None or values[place] == "":
                why = "; every item needs a question" if place == at["input"] else ""
                where = f"{source}, {rows.place(number)}"
                raise BadFile(f"{where}: the field {names[place]!r} is missing or empty{why}")
        category = None if category_at is None else values[category_at]
        codes.append(categories.setdefault("" if category is None else as_text(category), len(categories)))
        if id_at is not None:
            value = values[id_at]
            if type(value) is not str or not value:
                value = identity_of(value, f"{source}, {rows.place(number)}: the field {parts.id!r}")
            hashes.append(hash(value))
        if parts.choices and answer_at is not None and is_number(as_text(values[answer_at])):
            row = Row(rows.place(number), dict(zip(names, values, strict=True)))
            kinds.add(number_kind(values[answer_at], len(choices_of(row, parts.choices, source)[1])))
    first = first_choice(kinds, source, combined=combined)
    ordered = sorted(categories)
    place_of = np.empty(len(ordered), dtype=np.int64)
    place_of[[categories[name] for name in ordered]] = np.arange(len(ordered))
    id_hashes = None if id_at is None else np.array(hashes, dtype=np.int64)
    if id_hashes is not None:
        _check_unique(rows, parts, id_hashes, source)
    return Scan(parts, first, ordered, place_of[np.array(codes)], id_hashes)


def _check_unique(rows: RowReader, parts: Fields, hashes: Integers, source: str) -> None:
    """Refuse an id that is there twice: equal hashes are rare enough to look at the ids themselves."""
    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    for place in same.tolist():
        one, other = int(order[place]), int(order[place + 1])
        ids = [as_text(rows.row(number).values[parts.id or ""]) for number in (one, other)]
        if ids[0] == ids[1]:
            raise BadFile(
                f"{source}, {rows.place(other)}: the id {shown(ids[0])} was already given on {rows.place(one)}; "
                "make ids unique, or name another field with --id"
            )


# -- the rows of a file -----------------------------------------------------------------------------------------------


class ParquetRows:
    """Reach the rows of a Parquet file, copied to a temporary file in pieces while they are gone through."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.path = path
        self._file = open_regular(path, FILE_LIMIT)
        weakref.finalize(self, self._file.close)
        with _as_parquet(path):
            self._parquet = pq.ParquetFile(self._file)
            self._schema = _without_dictionaries(self._parquet.schema_arrow)
        self.names = list(self._schema.names)
        _check_shape(path, self._parquet.metadata.num_rows, self.names)
        # Without a name: gone when the process ends, however it ends.
        self._copy = tempfile.TemporaryFile(prefix="cereval-")  # noqa: SIM115
        weakref.finalize(self, self._copy.close)
        self._starts: list[int] = []
        self._pieces: Any = None
        self._piece = lru_cache(64)(lambda number: self._pieces.get_batch(number))

    def scan(self, names: Sequence[str]) -> Iterator[Sequence[Any]]:
        import pyarrow as pa

        size, options = 0, pa.ipc.IpcWriteOptions(compression="lz4")
        with _as_parquet(self.path), pa.ipc.new_file(self._copy, self._schema, options=options) as writer:
            for batch in self._parquet.iter_batches(batch_size=64 * PIECE):
                table = pa.Table.from_batches([batch]).cast(self._schema).combine_chunks()
                self._write(writer, table)
                self._starts.extend(range(size, size + table.num_rows, PIECE))
                size += table.num_rows
                columns = [column_values(self.path, name, table.column(name)) for name in names]
                yield from zip(*columns, strict=True) if columns else ((),) * table.num_rows
        self._file.close()
        self._copy.flush()
        self._pieces = pa.ipc.open_file(pa.PythonFile(self._copy, mode="r"))

    def _write(self, writer: Any, table: Any) -> None:
        try:
            writer.write_table(table, max_chunksize=PIECE)
        except OSError as error:
            folder = tempfile.gettempdir()
            raise BadFile(
                f"{self.path}: its copy in {folder} cannot be written ({one_line(error)}); TMPDIR names another folder"
            ) from None

    def column(self, name: str) -> Iterator[Any]:
        for number in range(self._pieces.num_record_batches):
            yield from column_values(self.path, name, self._pieces.get_batch(number).column(name))

    def row(self, number: int) -> Row:
        piece = bisect_right(self._starts, number) - 1
        one = self._piece(piece).slice(number - self._starts[piece], 1)
        values = {name: column_values(self.path, name, one.column(name))[0] for name in self.names}
        return row_of(str(self.path), self.place(number), values)

    def place(self, number: int) -> str:
        return f"row {number + 1}"


def _without_dictionaries(schema: Any) -> Any:
    """Return the columns without dictionaries: those of the row groups differ, and a copy has room for one."""
    import pyarrow as pa

    kinds = [
        (one.name, one.type.value_type if pa.types.is_dictionary(one.type) else one.type) for one in schema
    ]
    return pa.schema(kinds)


def _check_shape(path: Path, rows: int, names: Sequence[str]) -> None:
    """Refuse what a few bytes may claim: a Parquet file stores a billion equal cells in them."""
    check_names(path, names)
    if rows > MOST_ROWS or rows * len(names) > 10 * MOST_CELLS:
        raise BadContent(
            f"{path} has {rows:,} rows of {len(names):,} columns; at most {MOST_ROWS:,} rows and {10 * MOST_CELLS:,} "
            "cells are read"
        )


@contextmanager
def _as_parquet(path: Path) -> Iterator[None]:
    """Translate what goes wrong in a Parquet file into one line."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, OverflowError) as error:
        raise BadContent(f"{path} is not readable as parquet: {one_line(error)}") from error


class JsonlRows:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open_regular(path, FILE_LIMIT)
        weakref.finalize(self, self._file.close)
        self._starts, self._blank = array("q"), array("q")
        """Where each record begins, and for each blank line the records before it."""
        head = islice(enumerate(lines_of(self._file), start=1), HEAD)
        rows = [json_object(path, number, line) for number, line in head if line.strip()]
        self.names = list(dict.fromkeys(name for row in rows for name in row))

    def scan(self, names: Sequence[str]) -> Iterator[Sequence[Any]]:
        for number, start, line in self._records():
            known = len(self._starts)
            self._blank.extend([known] * (number - 1 - known - len(self._blank)))
            self._starts.append(start)
            yield self._read(line, number, names)

    def column(self, name: str) -> Iterator[Any]:
        return (self._read(line, number, (name,))[0] for number, _, line in self._records())

    def row(self, number: int) -> Row:
        self._file.seek(self._starts[number])
        line = self._file.readline(LINE_LIMIT + 1)
        return Row(self.place(number), json_object(self.path, self._line(number), line))

    def place(self, number: int) -> str:
        return f"line {self._line(number)}"

    def _line(self, number: int) -> int:
        return number + 1 + bisect_right(self._blank, number)

    def _records(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the number of each line that is not blank, where it begins, and the line."""
        start = 0
        self._file.seek(0)
        for number, line in enumerate(lines_of(self._file), start=1):
            if line.strip():
                yield number, start, line
            start += len(line)

    def _read(self, line: bytes, number: int, names: Sequence[str]) -> Sequence[Any]:
        """Read the values under some names, the others only as far as needed to pass over them."""
        try:
            return msgspec.structs.astuple(_decoder(tuple(names))(line))
        except (msgspec.DecodeError, RecursionError):
            # The strict reader says what is wrong, or makes the best of halves of Unicode pairs.
            record = json_object(self.path, number, line)
            return [record.get(name) for name in names]


@cache
def _decoder(names: tuple[str, ...]) -> Callable[[bytes], Any]:
    fields = [(f"field_{number}", Any, None) for number in range(len(names))]
    keys = {name: key for (name, *_), key in zip(fields, names, strict=True)}
    return msgspec.json.Decoder(msgspec.defstruct("Line", fields, rename=keys)).decode
