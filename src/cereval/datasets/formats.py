"""Read the records of JSONL, CSV and Parquet files and of the Hugging Face hub; errors name the line."""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from cereval.errors import BadContent, BadFile, InvalidInput, shown
from cereval.files import MIB, cleaned, decoded, open_regular, parse_json, read_json
from cereval.imports import optional
from cereval.text import printable

MOST_COLUMNS = 10_000
"""Columns of a table: every reader goes through all of them, and nobody has tested so many models."""

MOST_CELLS = 100_000_000
"""Cells of a Parquet file, which stores a billion equal ones in a few bytes."""

HEADER_LIMIT = 1 * MIB
"""Bytes of the line that names a CSV file's columns."""

LINE_LIMIT = 64 * MIB
"""Bytes of one line of JSONL."""

FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one record of a file and where it stands there, as in `line 7` or `row 7`."""

    place: str
    values: Mapping[str, Any]


def file_format(path: Path, allowed: tuple[str, ...] = ("jsonl", "json", "csv", "parquet")) -> str:
    kind = FORMATS.get(path.suffix.lower(), "")
    if kind not in allowed:
        raise BadFile(f"{path}: cannot tell its layout from its ending; use one of {', '.join(allowed)}")
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise BadFile(f"{path} is empty; it needs at least one record")
    return kind


def read_rows(path: Path) -> list[Row]:
    readers = {"jsonl": _jsonl_rows, "json": _json_rows, "csv": _csv_rows, "parquet": _parquet_rows}
    kind = file_format(path)
    try:
        rows = list(readers[kind](path))
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror or error}") from error
    if not rows:
        raise BadFile(f"{path} holds no records; it needs at least one")
    check_names(path, list(dict.fromkeys(name for row in rows for name in row.values)))
    return rows


def row_of(source: str, place: str, values: Mapping[str, Any]) -> Row:
    """Make a row of a record with typed columns, where NaN stands for a missing value, as pandas writes it."""
    present = {
        name: None if isinstance(value, float) and value != value else value for name, value in values.items()
    }
    return Row(place, cleaned(present, f"{source}, {place}", mend=True))


def check_names(source: PathLike[str], names: Sequence[str]) -> None:
    if len(names) > MOST_COLUMNS:
        most = f"at most {MOST_COLUMNS:,} are read (one row per item, not per model)"
        raise BadContent(f"{source} has {len(names):,} columns; {most}")
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise BadContent(f"{source} has two columns called {shown(name)}; rename one")


def column_values(path: Path, name: str, column: Any) -> list[Any]:
    """List the values of an Arrow column as Python's; one that Python cannot hold is named by its row.

    Bytes are texts, which is how Arrow reads a column of a CSV that is not all UTF-8.
    """
    try:
        values = list(column.to_pylist())
    except (ValueError, OverflowError, TypeError) as error:
        row = next((row for row, value in enumerate(column, start=1) if not _converts(value)), 0)
        raise BadContent(
            f"{path}, row {row}: column {shown(name)} holds a value that cannot be read as {column.type} "
            f"({one_line(error)}); leave the column out, or write it as text"
        ) from None
    for number, value in enumerate(values):
        if isinstance(value, bytes):
            try:
                values[number] = value.decode()
            except UnicodeDecodeError:
                where = f"{path}, row {number + 1}: column {shown(name)}"
                raise BadContent(f"{where} is not UTF-8 text ({shown(value)}); convert it first") from None
    return values


def read_table(path: Path) -> Any:
    """Return a CSV or Parquet file as an Arrow table; `item` in a CSV stays text, so that `007` keeps its zeros."""
    import pyarrow as pa

    kind = file_format(path, ("csv", "parquet"))
    try:
        with open_regular(path) as file:
            return _arrow_csv(path, file) if kind == "csv" else _arrow_parquet(path, file)
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise BadContent(f"{path} is not readable as {kind}: {one_line(error)}") from error


def _arrow_csv(path: Path, file: BinaryIO) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    return arrow_csv.read_csv(
        file,
        parse_options=arrow_csv.ParseOptions(delimiter=_csv_head(path, file)[1], newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(column_types={"item": pa.string()}),
    )


def _csv_head(path: Path, file: BinaryIO) -> tuple[list[str], str]:
    """Read the names of the columns and what separates them: tabs by the file's ending, else commas or semicolons.

    The names alone, for a reader of the whole file may not come back from a million of them.
    """
    head = file.read(HEADER_LIMIT)
    file.seek(0)
    first = head.partition(b"\n")[0]
    decoded(first, str(path))
    if len(head) == HEADER_LIMIT and b"\n" not in head:
        raise BadContent(f"{path}, line 1: the names of the columns take more than {HEADER_LIMIT:,} bytes")
    between = "\t" if path.suffix.lower() == ".tsv" else ";" if first.count(b";") > first.count(b",") else ","
    try:
        names = next(csv.reader(io.StringIO(head.decode("utf-8", "replace")), delimiter=between), [])
    except csv.Error as error:
        raise BadContent(f"{path}, line 1: the names of the columns cannot be read ({error})") from None
    # Spreadsheets write columns without a name at the end.
    check_names(path, [name for name in names if name])
    return names, between


def _arrow_parquet(path: Path, file: BinaryIO) -> Any:
    from pyarrow import parquet

    found = parquet.ParquetFile(file)
    rows, columns = found.metadata.num_rows, found.metadata.num_columns
    check_names(path, found.schema_arrow.names)
    if rows * columns > MOST_CELLS:
        raise BadContent(
            f"{path} has {rows:,} rows of {columns:,} columns; at most {MOST_CELLS:,} cells are read"
        )
    return found.read()


def _json_rows(path: Path) -> Iterator[Row]:
    values = read_json(path, unique=False)
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise BadContent(f"{path} must be a list of objects, one for each record")
    for number, value in enumerate(values, start=1):
        yield Row(f"record {number}", value)


def _jsonl_rows(path: Path) -> Iterator[Row]:
    with open_regular(path) as file:
        for number, line in enumerate(lines_of(file), start=1):
            if line.strip():
                yield Row(f"line {number}", json_object(path, number, line))


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file; of one that is too long no more than shows it."""
    return iter(lambda: file.readline(LINE_LIMIT + 1), b"")


def json_object(path: Path, number: int, line: bytes, *, loose: bool = False) -> Mapping[str, Any]:
    place = f"{path}, line {number}"
    if len(line) > LINE_LIMIT:
        raise BadContent(f"{place}: longer than {LINE_LIMIT:,} bytes; each line must be one JSON object")
    text = decoded(line, str(path), number)
    value = parse_json(text, place, mend=True, loose=loose, hint="; each line must be one JSON object")
    if not isinstance(value, dict):
        raise BadContent(f"{place}: each line must be one JSON object, got {shown(value)}")
    return value


def _csv_rows(path: Path) -> Iterator[Row]:
    csv.field_size_limit(2**31 - 1)  # prompts may be longer than the module's default of 128 KiB
    with open_regular(path) as file:
        between = _csv_head(path, file)[1]
        lines = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        reader = csv.reader(lines, delimiter=between, strict=True)
        try:
            header = next(reader, [])
            for cells in reader:
                place = f"line {reader.line_num}"
                if cells and len(cells) != len(header):
                    wrong = f"{len(cells)} cells where the header names {len(header)}; quote commas"
                    raise BadFile(f"{path}, {place}: {wrong}")
                if cells:
                    yield Row(place, dict(zip(header, cells, strict=True)))
        except csv.Error as error:
            raise BadContent(f"{path}, line {reader.line_num}: broken CSV ({error})") from error
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise BadContent(
                f"{path} is not UTF-8 text (the byte 0x{byte:02x} after line {reader.line_num}); convert it first"
            ) from None


def _parquet_rows(path: Path) -> Iterator[Row]:
    table = read_table(path)
    names = table.column_names
    columns = [column_values(path, name, table.column(name)) for name in names]
    for number, values in enumerate(zip(*columns, strict=True), start=1):
        yield row_of(str(path), f"row {number}", dict(zip(names, values, strict=True)))


def _converts(value: Any) -> bool:
    try:
        value.as_py()
    except (ValueError, OverflowError, TypeError):
        return False
    return True


def one_line(error: BaseException) -> str:
    return printable(" ".join(str(error).split()), 200)


_SPEC = re.compile(
    r"hf:(?P<name>[\w.-]+(?:/[\w.-]+)?)(?::(?P<config>[\w.-]+))?(?:@(?P<split>[\w.\[\]:%+-]+))?"
)


@dataclass(frozen=True, slots=True)
class HubSource:
    """Name a data set of the hub, its configuration and the split to read.

    >>> HubSource.parse("hf:cais/mmlu:all@validation")
    HubSource(name='cais/mmlu', config='all', split='validation')
    """

    name: str
    config: str | None = None
    split: str = "test"

    @classmethod
    def parse(cls, text: str) -> HubSource:
        match = _SPEC.fullmatch(text)
        if match is None:
            raise InvalidInput("DATA", "hf:org/name[:config][@split]", text)
        return cls(match["name"], match["config"], match["split"] or "test")


def read_hub(source: HubSource) -> list[Row]:
    library = optional("datasets", "datasets")
    try:
        records: list[Any] = list(library.load_dataset(source.name, source.config, split=source.split))
    except Exception as error:
        raise BadFile(
            f"hf:{source.name}: {type(error).__name__}: {shown(str(error), limit=200)}; "
            "check the name, the :config and the @split"
        ) from error
    if not records:
        raise BadFile(f"hf:{source.name}@{source.split} holds no records; name another @split")
    return [
        row_of(f"hf:{source.name}", f"row {number}", record) for number, record in enumerate(records, start=1)
    ]
