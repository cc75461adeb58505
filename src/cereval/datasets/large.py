"""Read files of millions of questions without holding them: texts stay on disk, and are read when a question is asked.

Opening goes through the file once, a few megabytes at a time. What stays in memory is small: where each line of a JSONL
file begins, the categories as whole numbers, and a 64-bit hash of each id. The pages of a Parquet file hold up to a
million rows that can only be unpacked together, so its rows are copied to a temporary file in pieces of 1,024
(`TMPDIR` says where; it is gone when the process ends).

The data's hash is that of the file's bytes and of the fields that were read, not that of every question: the same
questions in another file are other data here.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from cereval.datasets.base import DataSet, Item, canonical, content_hash
from cereval.datasets.fields import Fields, as_text, choices_of, identity_of
from cereval.datasets.formats import (
    FORMATS,
    LINE_LIMIT,
    MOST_CELLS,
    MOST_COLUMNS,
    Row,
    column_values,
    json_object,
    one_line,
    row_of,
)
from cereval.datasets.items import is_number, item_of_row
from cereval.errors import BadContent, BadFile, shown
from cereval.files import MIB, open_regular
from cereval.plan import MOST_ITEMS

LARGE = 500_000
"""Questions up to which a file is read whole, as before: about a gigabyte, and half a minute."""

FILE_LIMIT = 2**40
MOST_ROWS = MOST_ITEMS

BLOCK = 16 * MIB
PIECE = 1024
BATCH = 64 * PIECE
HEAD = 1000
"""Rows that tell which fields a JSONL file has."""

Integers = NDArray[np.int64]


class RowReader(Protocol):
    """Reach the rows of a file by number. `batches` goes through the columns of some parts, once, to check them."""

    names: list[str]

    def batches(self, parts: Fields) -> Iterator[Any]:
        """Yield Arrow tables with the columns of the parts, in the order of the rows."""

    def column(self, name: str) -> Iterator[Any]:
        """Yield the values of one column, in the order of the rows; the file must have been gone through."""

    def row(self, number: int) -> Row: ...

    def place(self, number: int) -> str:
        """Say where a row stands, as in `line 7`."""


class FileItems(Sequence[Item]):
    """Hold the items of one file that stay on disk; those that were looked at are remembered.

    left_out: rows that are no items of the pool (worked examples, items that an earlier version has), in order.
    """

    def __init__(
        self, source: str, rows: RowReader, scan: Scan, file_hash: str, left_out: Integers | None = None
    ) -> None:
        self.source, self._rows, self._scan, self._file_hash = source, rows, scan, file_hash
        self._left_out = np.empty(0, dtype=np.int64) if left_out is None else left_out
        self.answer_key: dict[str, str] = {}
        """The answers of the items that were looked at, by their texts: for models that play a part."""

    @property
    def content_hash(self) -> str:
        """Return the hash of the file's bytes, of the fields that were read and of the rows that were left out."""
        known = {"file": self._file_hash, "fields": asdict(self._scan.parts)}
        if len(self._left_out):
            known["left_out"] = hashlib.sha256(self._left_out.astype("<i8").tobytes()).hexdigest()
        return f"sha256:{hashlib.sha256(canonical(known)).hexdigest()}"

    @property
    def left_out(self) -> Integers:
        return self._left_out

    @property
    def parts(self) -> Fields:
        return self._scan.parts

    @property
    def groups(self) -> tuple[list[str], Integers]:
        """Return the names of the categories in order, and the number of each item's; an item without has ''."""
        codes = self._scan.codes
        return self._scan.names, np.delete(codes, self._left_out) if len(self._left_out) else codes

    @property
    def id_hashes(self) -> Integers | None:
        """Return a hash of each item's id, the same within a process; None where the data has no ids."""
        hashes = self._scan.id_hashes
        if hashes is None or not len(self._left_out):
            return hashes
        return np.delete(hashes, self._left_out)

    @property
    def metadata(self) -> list[str]:
        """Return the names of the fields that have no part."""
        return [name for name in self._rows.names if name not in self.parts.used()]

    def column(self, name: str) -> Iterator[Any]:
        """Yield what the items have under a field, in their order; None where one has nothing."""
        left_out = set(self._left_out.tolist())
        return (value for row, value in enumerate(self._rows.column(name)) if row not in left_out)

    def without(self, items: Sequence[int] | Integers) -> FileItems:
        """Return the others."""
        left_out = np.union1d(self._left_out, self._rows_of(np.asarray(items, dtype=np.int64)))
        return FileItems(self.source, self._rows, self._scan, self._file_hash, left_out)

    def _rows_of(self, items: Integers) -> Integers:
        """Return the rows of items: the k-th row that was left out stands before the items from left_out[k] - k on."""
        before = self._left_out - np.arange(len(self._left_out))
        return np.asarray(items + np.searchsorted(before, items, side="right"))

    def __len__(self) -> int:
        return self._scan.size - len(self._left_out)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        number = index + len(self) if index < 0 else index
        if len(self._left_out):
            number = int(self._rows_of(np.array([number]))[0])
        item = item_of_row(
            self._rows.row(number), self._scan.parts, self._scan.first, self.source, f"row-{number + 1}"
        )
        if item.answer is not None:
            self.answer_key[item.text] = item.answer
        return item


class ChainedItems(Sequence[Item]):
    """Hold the items of several versions, one after the other."""

    def __init__(self, parts: Sequence[Sequence[Item]], hashes: Sequence[str]) -> None:
        self.versions, self.hashes = tuple(parts), tuple(hashes)
        self._ends = np.cumsum([len(part) for part in parts]).tolist()
        self.answer_key: Mapping[str, str] = _Keys(parts)

    @property
    def content_hash(self) -> str:
        return f"sha256:{hashlib.sha256(canonical(list(self.hashes))).hexdigest()}"

    def __len__(self) -> int:
        return int(self._ends[-1])

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        part = bisect_right(self._ends, index)
        return self.versions[part][index - (self._ends[part - 1] if part else 0)]


class _Keys(Mapping[str, str]):
    """Look an answer up in every part."""

    def __init__(self, parts: Sequence[Sequence[Item]]) -> None:
        self._keys = [
            part.answer_key
            if isinstance(part, FileItems | ChainedItems)
            else {item.text: item.answer for item in part if item.answer is not None}
            for part in parts
        ]

    def __getitem__(self, text: str) -> str:
        for key in self._keys:
            if text in key:
                return key[text]
        raise KeyError(text)

    def __iter__(self) -> Iterator[str]:
        return (text for key in self._keys for text in key)

    def __len__(self) -> int:
        return sum(map(len, self._keys))


OnDisk = FileItems | ChainedItems


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
    parts = fields.resolved(rows.names, source)
    scan = _scanned(rows, parts, source, combined=combined)
    items = FileItems(source, rows, scan, _file_hash(path), left_out)
    return DataSet(source, items, items.content_hash)


def _file_hash(path: Path) -> str:
    digest = hashlib.sha256()
    with open_regular(path, FILE_LIMIT) as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


# -- what is known of all rows ----------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Scan:
    """Hold what going through a file once has found."""

    parts: Fields
    size: int
    first: int
    """The number of the first choice, 0 or 1."""
    names: list[str]
    codes: Integers
    id_hashes: Integers | None


@dataclass(slots=True)
class _Scanner:
    rows: RowReader
    parts: Fields
    source: str
    size: int = 0
    categories: dict[str, int] = field(default_factory=dict)
    codes: list[NDArray[np.int32]] = field(default_factory=list)
    hashes: list[Integers] = field(default_factory=list)
    zero: bool = False
    last: bool = False
    numbers: bool = False

    def take(self, table: Any) -> None:
        """Check a few rows, and keep their numbers."""
        self._check_texts(table, self.parts.input, "; every item needs a question")
        self._check_texts(table, self.parts.answer, "")
        self._take_categories(table)
        self._take_ids(table)
        self._take_numbers(table)
        self.size += table.num_rows

    def _place(self, row: int) -> str:
        return f"{self.source}, {self.rows.place(self.size + row)}"

    def _check_texts(self, table: Any, name: str | None, why: str) -> None:
        """Refuse a field that is missing or empty; one that holds more than a text is looked at when it is asked."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if name is None or name not in table.column_names:
            return
        column = table.column(name)
        bad = column.is_null()
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            bad = pc.or_(bad, pc.fill_null(pc.equal(pc.binary_length(column), 0), False))
        if pc.any(bad).as_py():
            row = int(np.flatnonzero(bad.to_numpy(zero_copy_only=False))[0])
            raise BadFile(f"{self._place(row)}: the field {name!r} is missing or empty{why}")

    def _take_categories(self, table: Any) -> None:
        name = self.parts.category
        if name is None or name not in table.column_names:
            self.codes.append(np.full(table.num_rows, self._number(""), dtype=np.int32))
            return
        column = table.column(name).combine_chunks().dictionary_encode()
        chunks = column.chunks if hasattr(column, "chunks") else [column]
        for chunk in chunks:
            numbers = [
                self._number("" if value is None else as_text(value))
                for value in column_values(Path(self.source), name, chunk.dictionary)
            ]
            if chunk.null_count:
                numbers.append(self._number(""))
            found = chunk.indices.fill_null(len(numbers) - 1).to_numpy(zero_copy_only=False)
            self.codes.append(np.array(numbers, dtype=np.int32)[found])

    def _number(self, category: str) -> int:
        return self.categories.setdefault(category, len(self.categories))

    def _take_ids(self, table: Any) -> None:
        if self.parts.id is None:
            return
        values = column_values(Path(self.source), self.parts.id, table.column(self.parts.id))
        for row, value in enumerate(values):
            if type(value) is not str or not value:
                place = f"{self._place(row)}: the field {self.parts.id!r}"
                values[row] = identity_of(value, place)
        self.hashes.append(np.fromiter(map(hash, values), dtype=np.int64, count=len(values)))

    def _take_numbers(self, table: Any) -> None:
        """Note whether numbers that name choices include the first (0) or the last counted from 1."""
        choices, answer = self.parts.choices, self.parts.answer
        if choices is None or answer is None:
            return
        several = "," in choices and choices not in table.column_names
        names = [answer, *(choices.split(",") if several else [choices])]
        columns = {name: column_values(Path(self.source), name, table.column(name)) for name in names}
        for row in range(table.num_rows):
            text = as_text(columns[answer][row])
            if is_number(text):
                values = {name: column[row] for name, column in columns.items()}
                count = len(choices_of(Row(self._place(row), values), choices, self.source)[1])
                self.numbers |= count > 0
                self.zero |= count > 0 and int(text) == 0
                self.last |= count > 0 and int(text) == count

    def done(self, *, combined: bool) -> Scan:
        """Put together what was found, with the categories in the order of their names."""
        if combined and self.numbers and not (self.zero or self.last):
            raise BadFile(
                f"{self.source}: its numbers may count the choices from 0 or from 1, and neither the first nor the "
                "last is among the answers; where files are combined, write letters or the choices' texts"
            )
        names = sorted(self.categories)
        place = np.empty(len(names), dtype=np.int64)
        place[[self.categories[name] for name in names]] = np.arange(len(names))
        hashes = np.concatenate(self.hashes) if self.hashes else None
        first = int(self.last and not self.zero)
        return Scan(self.parts, self.size, first, names, place[np.concatenate(self.codes)], hashes)


def _scanned(rows: RowReader, parts: Fields, source: str, *, combined: bool) -> Scan:
    scanner = _Scanner(rows, parts, source)
    for table in rows.batches(parts):
        scanner.take(table)
    scan = scanner.done(combined=combined)
    if scan.id_hashes is not None:
        _check_unique(rows, parts, scan.id_hashes, source)
    return scan


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


# -- Parquet ----------------------------------------------------------------------------------------------------------


class ParquetRows:
    """Reach the rows of a Parquet file, copied to a temporary file in pieces while they are gone through."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        self._file = open_regular(path, FILE_LIMIT)
        weakref.finalize(self, self._file.close)
        with _as_parquet(path):
            self._parquet = pq.ParquetFile(self._file)
            self._schema = _plain(self._parquet.schema_arrow)
        self.names = list(self._schema.names)
        _check_shape(path, self._parquet.metadata.num_rows, self.names)
        # Without a name: gone when the process ends, however it ends.
        self._copy = tempfile.TemporaryFile(prefix="cereval-")  # noqa: SIM115
        weakref.finalize(self, self._copy.close)
        self._pieces: Any = None
        self._waiting: Any = None
        self._piece = lru_cache(64)(self._read_piece)
        self._options = pa.ipc.IpcWriteOptions(compression="lz4")

    def batches(self, parts: Fields) -> Iterator[Any]:
        import pyarrow as pa

        wanted = [name for name in self.names if name in parts.used()]
        with (
            _as_parquet(self.path),
            pa.ipc.new_file(self._copy, self._schema, options=self._options) as writer,
        ):
            for batch in self._parquet.iter_batches(batch_size=BATCH):
                table = pa.Table.from_batches([batch]).cast(self._schema)
                self._write(writer, self._whole_pieces(table))
                yield table.select(wanted)
            self._write(writer, [] if self._waiting is None else [self._waiting])
        self._file.close()
        self._copy.flush()
        self._pieces = pa.ipc.open_file(pa.PythonFile(self._copy, mode="r"))

    def _write(self, writer: Any, pieces: Iterable[Any]) -> None:
        try:
            for piece in pieces:
                writer.write_batch(piece)
        except OSError as error:
            folder = tempfile.gettempdir()
            raise BadFile(
                f"{self.path}: its copy in {folder} cannot be written ({one_line(error)}); TMPDIR names another folder"
            ) from None

    def _whole_pieces(self, table: Any) -> Iterator[Any]:
        """Cut tables into pieces of equal size, whatever size they have; what is left waits for the next."""
        import pyarrow as pa

        if self._waiting is not None:
            table = pa.concat_tables([pa.Table.from_batches([self._waiting]), table])
        (whole,) = table.combine_chunks().to_batches() or [None]
        count = table.num_rows // PIECE * PIECE
        for start in range(0, count, PIECE):
            yield whole.slice(start, PIECE)
        self._waiting = whole.slice(count) if count < table.num_rows else None

    def _read_piece(self, number: int) -> Any:
        return self._pieces.get_batch(number)

    def column(self, name: str) -> Iterator[Any]:
        for number in range(self._pieces.num_record_batches):
            yield from column_values(self.path, name, self._pieces.get_batch(number).column(name))

    def row(self, number: int) -> Row:
        piece, place = divmod(number, PIECE)
        one = self._piece(piece).slice(place, 1)
        values = {name: column_values(self.path, name, one.column(name))[0] for name in self.names}
        return row_of(str(self.path), self.place(number), values)

    def place(self, number: int) -> str:
        return f"row {number + 1}"


def _plain(schema: Any) -> Any:
    """Return the columns without dictionaries: those of the row groups differ, and a copy has room for one."""
    import pyarrow as pa

    return pa.schema(
        [
            (field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
            for field in schema
        ]
    )


def _check_shape(path: Path, rows: int, names: Sequence[str]) -> None:
    """Refuse what a few bytes may claim: a Parquet file stores a billion equal cells in them."""
    if len(names) > MOST_COLUMNS or len(set(names)) < len(names):
        raise BadContent(f"{path} has two columns of one name, or more than {MOST_COLUMNS:,}")
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


# -- JSONL ------------------------------------------------------------------------------------------------------------


class JsonlRows:
    """Reach the lines of a JSONL file by where they begin."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = open_regular(path, FILE_LIMIT)
        weakref.finalize(self, self._file.close)
        self._starts: Integers = np.empty(0, dtype=np.int64)
        self._blank: Integers = np.empty(0, dtype=np.int64)
        head = [
            json_object(path, number, line)
            for number, line in enumerate(islice(self._file, HEAD), start=1)
            if line.strip()
        ]
        self._example = {
            name: value for row in reversed(head) for name, value in row.items() if value is not None
        }
        self.names = list(dict.fromkeys(name for row in head for name in row))

    def batches(self, parts: Fields) -> Iterator[Any]:
        begun = []
        for table, starts, filled, lines in self._tables(
            [name for name in self.names if name in parts.used()]
        ):
            begun.append(starts[filled])
            self._blank = np.concatenate((self._blank, lines + np.flatnonzero(~filled)))
            yield table
        self._starts = np.concatenate(begun)

    def column(self, name: str) -> Iterator[Any]:
        for table, *_ in self._tables([name]):
            yield from column_values(self.path, name, table.column(name))

    def _tables(self, wanted: Sequence[str]) -> Iterator[tuple[Any, Integers, NDArray[np.bool_], int]]:
        """Yield columns block by block, with where its lines begin, which are not blank, and how many came before."""
        schema, lines = self._schema(wanted), 0
        self._file.seek(0)
        for start, block in self._blocks():
            ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n"))
            starts = np.concatenate(([0], ends + 1))
            starts = starts[starts < len(block)]
            filled = np.ones(len(starts), dtype=bool)
            table = None if schema is None else _parsed(block, schema)
            if table is None or table.num_rows != len(starts):
                table, filled = self._parsed_slowly(block, starts, lines, wanted)
            yield table, start + starts, filled, lines
            lines += len(starts)

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield whole lines, about sixteen megabytes at a time, with where they begin."""
        start, rest = 0, b""
        if self._file.read(3) != b"\xef\xbb\xbf":
            self._file.seek(0)
        else:
            start = 3
        while read := self._file.read(BLOCK):
            whole, newline, left = (rest + read).rpartition(b"\n")
            if len(left) > LINE_LIMIT:
                raise BadContent(f"{self.path}: a line is longer than {LINE_LIMIT:,} bytes")
            if newline:
                yield start, whole + newline
                start += len(whole) + 1
            rest = left
        if rest:
            yield start, rest

    def _schema(self, wanted: Sequence[str]) -> Any:
        """Return what the columns are, by the first rows; None where that is nothing that Arrow reads quickly."""
        import pyarrow as pa

        kinds = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
        found = []
        for name in wanted:
            value = self._example.get(name)
            if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
                found.append((name, pa.list_(pa.string())))
            elif type(value) in kinds:
                found.append((name, kinds[type(value)]))
            else:
                return None
        return pa.schema(found)

    def _parsed_slowly(
        self, block: bytes, starts: Integers, number: int, wanted: Sequence[str]
    ) -> tuple[Any, NDArray[np.bool_]]:
        """Read a block line by line: where lines are blank, or values are not of one kind."""
        import pyarrow as pa

        lines = block.split(b"\n")[: len(starts)]
        filled = np.array([bool(line.strip()) for line in lines], dtype=bool)
        rows = [
            json_object(self.path, number + place, line)
            for place, line in enumerate(lines, start=1)
            if line.strip()
        ]
        columns: dict[str, Any] = {}
        for name in wanted:
            values = [row.get(name) for row in rows]
            try:
                columns[name] = pa.array(values)
            except (pa.ArrowException, TypeError, OverflowError):
                columns[name] = pa.array([None if one is None else as_text(one) for one in values])
        return pa.table(columns), filled

    def row(self, number: int) -> Row:
        self._file.seek(int(self._starts[number]))
        line = self._file.readline(LINE_LIMIT + 1)
        at = self._line(number)
        return Row(self.place(number), json_object(self.path, at, line))

    def _line(self, number: int) -> int:
        """Return the line of a record: the k-th blank line stands before the records from blank[k] - k on."""
        before = self._blank - np.arange(len(self._blank))
        return number + 1 + int(np.searchsorted(before, number, side="right"))

    def place(self, number: int) -> str:
        return f"line {self._line(number)}"


def _parsed(block: bytes, schema: Any) -> Any:
    """Return the columns of a block of JSON lines; None where Arrow cannot read them as what they seemed to be."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    parse = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        return arrow_json.read_json(
            pa.BufferReader(block), arrow_json.ReadOptions(block_size=max(len(block), 1)), parse
        )
    except pa.ArrowException:
        return None
