"""Large files: questions stay on disk, and are those that a small file would have."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cereval.cli.main import main
from cereval.datasets import large
from cereval.datasets.fields import Fields
from cereval.datasets.large import FileItems, is_large
from cereval.datasets.prompts import split_examples, split_large
from cereval.datasets.read import read_dataset
from cereval.errors import BadFile

Rows = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is large at 500,000 questions is so at 60 here, and every file takes several blocks and pieces."""
    monkeypatch.setattr(large, "LARGE", 60)
    monkeypatch.setattr(large, "BLOCK", 900)
    monkeypatch.setattr(large, "PIECE", 7)
    monkeypatch.setattr(large, "HEAD", 20)


def questions(count: int = 200) -> Rows:
    return [
        {
            "id": f"q{row}",
            "question": f"What is {row} + {row % 7}?",
            "answer": str(row + row % 7),
            "category": None if row == 5 else f"topic {row % 3}",
            "level": row / 2,
        }
        for row in range(count)
    ]


def jsonl(path: Path, rows: Rows) -> Path:
    file = path.with_suffix(".jsonl")
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def parquet(path: Path, rows: Rows) -> Path:
    file = path.with_suffix(".parquet")
    pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=33)
    return file


WRITERS = pytest.mark.parametrize("write", [jsonl, parquet])
Writer = Callable[[Path, Rows], Path]


def on_disk(file: Path, **fields: str) -> FileItems:
    items = read_dataset(file, Fields(**fields), on_disk=True).items
    assert isinstance(items, FileItems)
    return items


@WRITERS
def test_items_are_those_of_a_file_that_is_read_whole(tmp_path: Path, write: Writer) -> None:
    file = write(tmp_path / "data", questions())
    items, whole = on_disk(file), read_dataset(file).items
    assert list(items) == list(whole)
    assert items[-1] == whole[-1]
    assert list(items[3:9]) == list(whole[3:9])
    names, codes = items.groups
    assert [names[code] or None for code in codes] == [item.category for item in whole]


@WRITERS
def test_only_large_files_stay_on_disk(tmp_path: Path, write: Writer) -> None:
    assert not is_large(write(tmp_path / "small", questions(60)))
    assert is_large(write(tmp_path / "large", questions(200)))
    assert not isinstance(read_dataset(write(tmp_path / "again", questions())).items, FileItems)


def test_zeros_without_end_are_not_counted_to_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "zeros.jsonl"
    with path.open("wb") as file:
        file.truncate(2**36)  # sparse: it takes no room
    before = process_time()
    assert main(["run", str(path), "--model", "scripted/0.5"]) == 1
    assert process_time() - before < 5
    assert "zeros.jsonl is larger than 1,024 MiB" in capsys.readouterr().err


@WRITERS
def test_the_hash_is_that_of_the_file_and_of_the_fields(tmp_path: Path, write: Writer) -> None:
    rows = questions()
    one = on_disk(write(tmp_path / "one", rows)).content_hash
    assert on_disk(write(tmp_path / "two", rows)).content_hash == one
    assert on_disk(write(tmp_path / "two", rows), category="level").content_hash != one
    rows[150] = {**rows[150], "answer": "0"}
    assert on_disk(write(tmp_path / "two", rows)).content_hash != one


def test_blank_lines_and_a_byte_order_mark_are_passed_over(tmp_path: Path) -> None:
    lines = [json.dumps(row) for row in questions()]
    lines[100:100] = ["", "  "]
    file = tmp_path / "data.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + "\n".join(lines).encode())
    items = on_disk(file)
    assert list(items) == list(read_dataset(file).items)
    rows = questions()
    del rows[150]["question"]
    lines = [json.dumps(row) for row in rows]
    lines[100:100] = [""]
    file.write_text("\n".join(lines))
    with pytest.raises(BadFile, match=r"line 152: the field 'question' is missing or empty"):
        on_disk(file)


@pytest.mark.parametrize("kind", ["mixed", "numbers", "letters", "texts"])
@WRITERS
def test_choices_are_numbered_as_the_whole_file_says(tmp_path: Path, write: Writer, kind: str) -> None:
    answers = {"mixed": ["A", "2"], "numbers": [1, 3], "letters": ["B", "C"], "texts": ["x1", "x2"]}[kind]
    rows = [
        {"question": f"q{row}", "choices": ["x0", "x1", "x2"], "answer": answers[row % 2]}
        for row in range(100)
    ]
    file = write(tmp_path / "data", rows)
    found = [replace(item, id="") for item in on_disk(file)]
    assert found == [replace(item, id="") for item in read_dataset(file).items]
    assert on_disk(file)[4].id == "row-5"


@WRITERS
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"question": None}, "(row|line) 151: the field 'question' is missing or empty"),
        ({"answer": ""}, "(row|line) 151: the field 'answer' is missing or empty"),
        ({"id": "q7"}, r"(row|line) 151: the id .?'q7'.? was already given on (row|line) 8"),
        ({"id": None}, "(row|line) 151: the field 'id' is empty"),
    ],
)
def test_what_is_wrong_is_named_by_its_row(
    tmp_path: Path, write: Writer, change: dict[str, Any], said: str
) -> None:
    rows = questions()
    rows[150] |= change
    with pytest.raises(BadFile, match=said):
        on_disk(write(tmp_path / "data", rows))


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    file = jsonl(tmp_path / "data", questions())
    file.write_text(file.read_text().replace('"q120"', '"q120'))
    with pytest.raises(BadFile, match=r"line 121: broken JSON"):
        on_disk(file)


def test_ids_and_answers_of_several_kinds_are_read_as_texts(tmp_path: Path) -> None:
    rows = questions()
    rows[120] |= {"id": 7, "answer": 3.0, "category": 2}
    file = jsonl(tmp_path / "data", rows)
    assert list(on_disk(file)) == list(read_dataset(file).items)


def test_columns_with_dictionaries_are_read(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(questions())
    coded = table.set_column(3, "category", table.column("category").dictionary_encode())
    file = tmp_path / "data.parquet"
    pq.write_table(coded, file, row_group_size=33)
    assert list(on_disk(file)) == list(read_dataset(file).items)


def test_a_file_that_claims_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = parquet(tmp_path / "data", questions())
    monkeypatch.setattr(large, "MOST_ROWS", 199)
    with pytest.raises(BadFile, match="has 200 rows of 5 columns; at most 199 rows"):
        on_disk(file)


def test_a_copy_that_finds_no_room_says_so(tmp_path: Path) -> None:
    class Full:
        def write_table(self, _: object, **__: int) -> None:
            raise OSError(28, "No space left on device")

    rows = large.ParquetRows(parquet(tmp_path / "data", questions()))
    with pytest.raises(BadFile, match=r"cannot be written .*No space left.*TMPDIR"):
        rows._write(Full(), None)


@WRITERS
def test_examples_are_taken_out(tmp_path: Path, write: Writer) -> None:
    file = write(tmp_path / "data", questions())
    examples, others = split_large(on_disk(file), 3)
    wanted, left = split_examples(read_dataset(file).items, 3)
    assert (examples, list(others), len(others)) == (wanted, list(left), 197)
    names, codes = others.groups
    assert [names[code] or None for code in codes] == [item.category for item in left]
    again = others.without([0, 5])
    assert list(again) == [item for number, item in enumerate(left) if number not in (0, 5)]


# -- runs -------------------------------------------------------------------------------------------------------------


def told(arguments: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> Any:
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return f"sqlite:///{tmp_path}/s.db"


@pytest.mark.slow
@WRITERS
def test_a_run_stops_goes_on_and_is_verified(
    tmp_path: Path,
    write: Writer,
    store: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = write(tmp_path / "data", questions(400))
    live = ["--store", store, "--seed", "3"]
    first = told(
        ["run", str(file), "--model", "scripted/0.7", "--eps", "0.1", "--max-calls", "20", *live], capsys, 3
    )
    second = told(["resume", first["run_id"], "--max-calls", "400", "--store", store], capsys)
    assert (second["kept"], second["n_items"], second["method"]) == (20, 400, "active")
    certificate = second["certificate"]
    assert told(["verify", certificate, "--store", store], capsys)["verdict"] == "valid"
    # The second model learns from the first one's answers.
    other = told(["run", str(file), "--model", "scripted/0.8", "--eps", "0.1", *live], capsys)
    plan = json.loads(Path(other["certificate"]).read_text())["plan"]
    assert plan["side_information"] == ["groups", "history"]
    assert main(["report", other["run_id"], "--store", store, "-o", str(tmp_path / "page.html")]) == 0
    assert "What is" in (tmp_path / "page.html").read_text()
    capsys.readouterr()


def test_a_run_whose_file_changed_or_went_is_refused(
    tmp_path: Path, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = jsonl(tmp_path / "data", questions())
    run = ["run", str(file), "--model", "scripted/0.7", "--eps", "0.1", "--max-calls", "20", "--store", store]
    first = told(run, capsys, 3)
    again = ["resume", first["run_id"], "--max-calls", "50", "--store", store]
    jsonl(tmp_path / "data", questions(199))
    assert main(again) == 1
    assert f"in {file} were changed" in capsys.readouterr().err
    file.unlink()
    assert main(again) == 1
    assert "are not where they were" in capsys.readouterr().err


@pytest.mark.slow
@WRITERS
def test_data_that_grow_stay_on_disk(
    tmp_path: Path, write: Writer, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = questions(600)
    data = str(write(tmp_path / "one", rows[:50]))
    settings = ["--model", "scripted/0.7", "--eps", "0.2", "--store", store, "--seed", "3"]
    first = told(["extend", "--data", data, *settings], capsys)
    more = str(write(tmp_path / "two", rows[40:300]))
    second = told(["extend", first["run_id"], "--data", more, "--store", store], capsys)
    third = told(
        ["extend", second["run_id"], "--data", str(write(tmp_path / "three", rows)), "--store", store], capsys
    )
    assert [version["n_items"] for version in third["versions"]] == [50, 300, 600]
    assert told(["verify", third["certificate"], "--store", store], capsys)["verdict"] == "valid"
    rows[70] |= {"answer": "0"}
    changed = ["extend", third["run_id"], "--data", str(write(tmp_path / "four", rows)), "--store", store]
    assert main(changed) == 1
    assert "is not what it was" in capsys.readouterr().err


def test_files_are_read_whole_where_items_have_weights(
    tmp_path: Path, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = jsonl(tmp_path / "data", questions())
    run = ["run", str(file), "--model", "scripted/0.7", "--store", store, "--eps", "0.2"]
    result = told([*run, "--mix", "topic 1=1"], capsys)
    assert (result["target"], result["n_items"]) == ("weighted", 67)


def test_codes_are_whole_numbers(tmp_path: Path) -> None:
    assert on_disk(parquet(tmp_path / "data", questions())).groups[1].dtype == np.int64


def test_a_sealed_run_on_a_large_file_is_the_one_that_was_sealed(
    tmp_path: Path, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = parquet(tmp_path / "data", questions(300))
    run = [str(file), "--model", "scripted/0.7", "--eps", "0.15", "--store", store]
    seal = str(tmp_path / "plan.seal.json")
    assert main(["seal", "run", *run, "-o", seal]) == 0
    capsys.readouterr()
    made = told(["run", *run, "--seal", seal], capsys)
    assert told(["verify", made["certificate"], "--seal", seal], capsys)["verdict"] == "valid"


def test_a_pool_too_large_for_forecasts_is_drawn_uniformly_and_says_so(
    tmp_path: Path, store: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("runner.finding", "runner.start", "methods.registry"):
        monkeypatch.setattr(f"cereval.{place}.MOST_FORECAST", 100)
    file = jsonl(tmp_path / "data", questions(400))
    run = ["run", str(file), "--model", "scripted/0.7", "--eps", "0.1", "--store", store]
    assert told([*run, "--seed", "3"], capsys)["method"] == "uniform"
    assert main([*run, "--seed", "4", "--display", "plain"]) == 0
    assert "more than 100 items: categories and earlier runs are not used" in capsys.readouterr().err
    capsys.readouterr()
    tasks = ["tasks", str(file), "--model", "scripted/0.7", "--eps", "0.2", "--seed", "5", "--store", store]
    assert told(tasks, capsys)["stopped"] == "goal"
