"""Data sets and tables that are broken on purpose: one line with the place, in time, or a value that can be kept."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from cereval.datasets import formats
from cereval.datasets.items import Fields
from cereval.datasets.read import read_dataset
from cereval.datasets.tables import read_column, read_ids, read_items, read_scores
from cereval.errors import BadFile


def said(call: Callable[[], Any]) -> str:
    """What a call complains about, in one line and in time."""
    started = time.process_time()
    with pytest.raises(BadFile) as caught:
        call()
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    assert len(line) < 500
    assert time.process_time() - started < 5
    return line


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def stored(path: Path, **columns: Any) -> Path:
    parquet.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("read", [read_dataset, read_items, read_ids, read_scores])
def test_what_is_no_regular_file_is_refused_at_once(
    tmp_path: Path, read: Callable[[Path], Any], ending: str
) -> None:
    os.mkfifo(tmp_path / f"fifo.{ending}")
    (tmp_path / f"zero.{ending}").symlink_to("/dev/zero")
    (tmp_path / f"folder.{ending}").mkdir()
    for name in ("fifo", "zero", "folder", "missing"):
        assert name in said(lambda name=name: read(tmp_path / f"{name}.{ending}"))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ('{"question": "q", "x": {"y": [0, NaN]}}', "line 2: the field 'x.y[1]' is nan"),
        ('{"question": "q", "x": 1e999}', "line 2: the field 'x' is inf"),
        ('{"question": "q", "x": %s}' % ("7" * 5000), "line 2: broken JSON (a whole number with thousands"),
        ('{"question": "q", "x": %s}' % ("[" * 300 + "]" * 300), "line 2: the field"),
        ('{"question": "q", "id": {"a": 1}}', "line 2: the field 'id' must be a text or a number"),
        ('{"question": "q", "id": [1]}', "line 2: the field 'id' must be a text or a number"),
        ('{"question": "q", "choices": {"text": ["x", "y"], "label": 5}}', "one label for each"),
        (
            '{"question": "q", "choices": {"text": ["x", "y"], "label": ["1", "2", "3"]}}',
            "one label for each",
        ),
        ('{"question": "q", "choices": ["x", "y"], "answer": "%s"}' % ("1" * 5000), "none of the 2 choices"),
        ('{"question": "q", \xff}', "line 2 has the byte 0xff"),
    ],
)
def test_rows_that_are_refused(tmp_path: Path, row: str, says: str) -> None:
    first = '{"question": "p", "id": 1, "answer": "A", "choices": ["x", "y"]}\n'
    path = written(tmp_path / "d.jsonl", first.encode() + row.encode("latin-1"))
    fields = Fields() if '"id"' in row else Fields(id="question")
    assert says in said(lambda: read_dataset(path, fields))


def test_a_file_of_pretty_json_is_told_what_it_should_be(tmp_path: Path) -> None:
    path = written(tmp_path / "d.jsonl", json.dumps([{"question": "q"}], indent=2))
    assert "each line must be one JSON object" in said(lambda: read_dataset(path))


def test_halves_of_pairs_become_a_letter_that_can_be_stored(tmp_path: Path) -> None:
    row = {"id": "\ud800", "question": "q \udfff", "answer": "a", "\ud801": {"x": ["\ud802"]}}
    cell = {"id": "2", "question": "r", "answer": "a", "choices": '["\\ud800", "a"]'}
    lines = [json.dumps(row), json.dumps(cell)]
    first, second = read_dataset(written(tmp_path / "d.jsonl", "\n".join(lines))).items
    assert (first.id, first.text, first.metadata) == ("\ufffd", "q \ufffd", {"\ufffd": {"x": ["\ufffd"]}})
    assert second.choices == ("\ufffd", "a")
    for item in (first, second):
        json.dumps(item.as_dict(), allow_nan=False, ensure_ascii=False).encode()


def test_a_cell_that_only_looks_like_json_is_a_text(tmp_path: Path) -> None:
    for cell in ("[" * 5000, "[" + "9" * 5000 + "]"):
        path = written(tmp_path / "d.jsonl", json.dumps({"question": "q", "choices": cell}))
        assert "must be a list of choices" in said(lambda path=path: read_dataset(path))  # type: ignore[misc]


def test_nan_in_parquet_is_a_missing_value(tmp_path: Path) -> None:
    path = stored(tmp_path / "d.parquet", question=["p", "q"], note=[float("nan"), 2.5])
    assert [item.metadata for item in read_dataset(path).items] == [{}, {"note": 2.5}]
    path = stored(tmp_path / "e.parquet", question=["p", "q"], answer=[1.0, float("nan")])
    assert "row 2: the field 'answer' is missing" in said(lambda: read_dataset(path))
    path = stored(tmp_path / "f.parquet", question=["p"], note=[float("inf")])
    assert "row 1: the field 'note' is inf" in said(lambda: read_dataset(path))
    path = stored(tmp_path / "s.parquet", item=[1.0, float("nan")], m=[1.0, 0.0])
    assert "row 2: `item` is empty" in said(lambda: read_scores(path))


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us")])
def test_dates_out_of_range_are_named(tmp_path: Path, kind: Any) -> None:
    far = 10**9 if kind == pa.date32() else 2**61
    path = stored(tmp_path / "d.parquet", question=["p", "q"], day=pa.array([0, far], kind))
    assert "row 2: column 'day' holds a value" in said(lambda: read_dataset(path))
    path = stored(tmp_path / "s.parquet", item=pa.array([0, far], kind), m=[0.0, 1.0])
    for read in (read_scores, read_ids):
        assert "row 2: column 'item' holds a value" in said(lambda read=read: read(path))  # type: ignore[misc]


@pytest.mark.parametrize(
    "content",
    [b"item,\xff\na,1\n", b"item,m\n\xff,1\n", b"item,m\na,\xff\n", "item,m\na,1\n".encode("utf-16")],
)
def test_bytes_that_are_no_text_in_a_table_of_scores(tmp_path: Path, content: bytes) -> None:
    assert "s.csv" in said(lambda: read_scores(written(tmp_path / "s.csv", content)))


def test_bytes_that_are_no_text_in_a_table_of_items(tmp_path: Path) -> None:
    path = written(tmp_path / "i.csv", b"item,text\na,x\nb,\xff\n")
    for read in (read_items, read_dataset):
        assert "0xff after line" in said(lambda read=read: read(path))  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.parametrize("read", [read_scores, read_items, read_dataset])
def test_very_many_columns_are_refused_in_time(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    names = [f"c{number}" for number in range(30_000)]
    csv = written(tmp_path / "s.csv", "item," + ",".join(names) + "\na" + ",1" * len(names) + "\n")
    assert "30,001 columns; at most 10,000" in said(lambda: read(csv))
    wide = stored(tmp_path / "s.parquet", item=["a"], **{name: [1.0] for name in names})
    assert "30,001 columns; at most 10,000" in said(lambda: read(wide))
    endless = written(tmp_path / "t.csv", b"," * (formats.HEADER_LIMIT + 5))
    assert "take more than" in said(lambda: read(endless))


def test_as_many_columns_as_are_allowed_are_read_in_time(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(formats.MOST_COLUMNS - 1)]
    started = time.process_time()
    table = read_scores(stored(tmp_path / "s.parquet", item=["a"], **{name: [1.0] for name in names}))
    assert len(table.models) == len(names)
    assert time.process_time() - started < 20


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "d.csv", "item,question,answer,answer\n1,q,a,b\n")
    for read in (read_dataset, read_items, read_scores):
        assert "two columns called 'answer'" in said(lambda read=read: read(path))  # type: ignore[misc]
    unnamed = written(tmp_path / "e.csv", "item,question,answer,,\n1,q,a,,\n")
    assert read_dataset(unnamed).items[0].answer == "a"


def test_a_key_for_every_row_is_no_table(tmp_path: Path) -> None:
    rows = "\n".join(json.dumps({"item": n, f"k{n}": 1}) for n in range(formats.MOST_COLUMNS + 5))
    path = written(tmp_path / "i.jsonl", rows)
    for read in (read_items, read_ids, read_dataset):
        assert "columns; at most" in said(lambda read=read: read(path))  # type: ignore[misc]


def test_a_file_that_claims_a_trillion_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MOST_CELLS", 1000)
    path = stored(tmp_path / "s.parquet", item=list(range(501)), m=[1.0] * 501)
    assert "501 rows of 2 columns; at most 1,000 cells" in said(lambda: read_scores(path))


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "LINE_LIMIT", 100)
    path = written(tmp_path / "d.jsonl", '{"question": "q"}\n' + '{"question": "%s"}' % ("x" * 200))
    assert "line 2: longer than 100 bytes" in said(lambda: read_dataset(path))


@pytest.mark.parametrize("value", [{"a": 1}, [1]])
def test_lists_and_mappings_are_no_values_of_a_column(tmp_path: Path, value: Any) -> None:
    path = stored(tmp_path / "i.parquet", item=["a", "b"], v=[None, value])
    assert "row 2: column 'v' must be a text or a number" in said(lambda: read_column(path, "v", ("a", "b")))
    path = stored(tmp_path / "j.parquet", item=[value, value], text=["a", "b"])
    assert "row 1: `item` must be a text or a number" in said(lambda: read_ids(path))


def test_bytes_in_parquet_are_texts(tmp_path: Path) -> None:
    path = stored(tmp_path / "i.parquet", item=[b"a", b"b"], text=["ü".encode(), b"y"])
    assert read_items(path).aligned_to(("a", "b")).texts == ("ü", "y")
    path = stored(tmp_path / "j.parquet", item=[b"a", b"\xff"], text=["x", "y"])
    assert "row 2: column 'item' is not UTF-8" in said(lambda: read_ids(path))
