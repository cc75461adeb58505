"""Reading JSONL, CSV and Parquet as they lie on disk: rows or Arrow tables; errors name the line."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cereval.errors import BadFile, shown

FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One record of a file and where it stands there, as in `line 7` or `row 7`."""

    place: str
    values: Mapping[str, Any]


def file_format(path: Path, allowed: tuple[str, ...] = ("jsonl", "csv", "parquet")) -> str:
    """The layout that the file's ending announces."""
    kind = FORMATS.get(path.suffix.lower(), "")
    if kind not in allowed:
        raise BadFile(f"{path}: cannot tell its layout from its ending; use one of {', '.join(allowed)}")
    if path.is_dir():
        raise BadFile(f"{path} is a directory; name one file in it")
    if not path.exists():
        raise BadFile(f"{path} does not exist; check the path (it is relative to {Path.cwd()})")
    if path.stat().st_size == 0:
        raise BadFile(f"{path} is empty; it needs at least one record")
    return kind


def read_rows(path: Path) -> list[Row]:
    """Every record of a JSONL, CSV or Parquet file."""
    readers = {"jsonl": _jsonl_rows, "csv": _csv_rows, "parquet": _parquet_rows}
    kind = file_format(path)
    try:
        rows = list(readers[kind](path))
    except UnicodeDecodeError as error:
        raise BadFile(f"{path} is not UTF-8 text (byte {error.start}); convert it first") from error
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror or error}") from error
    if not rows:
        raise BadFile(f"{path} holds no records; it needs at least one")
    return rows


def read_table(path: Path) -> Any:
    """A CSV or Parquet file as an Arrow table; `item` in a CSV stays text, so that `007` keeps its zeros."""
    import pyarrow as pa

    kind = file_format(path, ("csv", "parquet"))
    try:
        table = _arrow_csv(path) if kind == "csv" else _arrow_parquet(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} is not readable as {kind}: {_one_line(error)}") from error
    twice = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if twice:
        raise BadFile(f"{path} has two columns called {shown(twice[0])}; rename one")
    return table


def _arrow_csv(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    return arrow_csv.read_csv(
        path,
        parse_options=arrow_csv.ParseOptions(delimiter=_delimiter(path), newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(column_types={"item": pa.string()}),
    )


def _arrow_parquet(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.read_table(path)


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


def _jsonl_rows(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield Row(f"line {number}", _json_object(path, number, line))


def _json_object(path: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        value = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
        raise BadFile(
            f"{path}, line {number}: broken JSON ({reason}); each line must be one JSON object"
        ) from error
    if not isinstance(value, dict):
        raise BadFile(f"{path}, line {number}: each line must be one JSON object, got {shown(value)}")
    return value


def _csv_rows(path: Path) -> Iterator[Row]:
    csv.field_size_limit(2**31 - 1)  # prompts may be longer than the module's default of 128 KiB
    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines, delimiter=_delimiter(path), strict=True)
        try:
            header = next(reader, [])
            for cells in reader:
                if cells:
                    yield Row(f"line {reader.line_num}", _csv_record(path, reader.line_num, header, cells))
        except csv.Error as error:
            raise BadFile(f"{path}, line {reader.line_num}: broken CSV ({error})") from error


def _csv_record(path: Path, number: int, header: list[str], cells: list[str]) -> Mapping[str, Any]:
    if len(cells) != len(header):
        raise BadFile(
            f"{path}, line {number}: {len(cells)} cells where the header names {len(header)}; quote commas"
        )
    return dict(zip(header, cells, strict=True))


def _parquet_rows(path: Path) -> Iterator[Row]:
    table = read_table(path)
    for number, values in enumerate(table.to_pylist(), start=1):
        yield Row(f"row {number}", values)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
