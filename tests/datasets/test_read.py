from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from cereval.cli.main import main
from cereval.datasets.formats import HubSource
from cereval.datasets.items import Fields
from cereval.datasets.read import read_dataset
from cereval.errors import BadFile, CerevalError, InvalidInput, Misuse

ROWS: list[dict[str, Any]] = [
    {"id": "1", "question": "1+1?", "answer": "2", "subject": "sums", "note": "easy"},
    {"id": "2", "question": "Name, please\n(two lines)", "answer": "Ünï", "subject": "names", "note": ""},
]


def jsonl(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def lines(path: Path, *texts: str) -> Path:
    path.write_text("\n".join(texts) + "\n")
    return path


def test_every_format_gives_the_same_items_and_hash(tmp_path: Path) -> None:
    jsonl(tmp_path / "d.jsonl", ROWS)
    parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "d.parquet")
    with (tmp_path / "d.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(ROWS)
    sets = [read_dataset(tmp_path / f"d.{ending}") for ending in ("jsonl", "parquet", "csv")]
    assert sets[0].items == sets[1].items == sets[2].items
    assert len({data.content_hash for data in sets}) == 1
    first = sets[0].items[0]
    assert (first.id, first.text, first.answer, first.category) == ("1", "1+1?", "2", "sums")
    assert first.metadata == {"note": "easy"}


@pytest.mark.parametrize(
    ("input_", "answer"), [("prompt", "target"), ("Input", "Label"), ("problem", "solution")]
)
def test_common_names_are_recognised(tmp_path: Path, input_: str, answer: str) -> None:
    (item,) = read_dataset(jsonl(tmp_path / "d.jsonl", [{input_: "q", answer: 3}])).items
    assert (item.text, item.answers) == ("q", ("3",))


def test_fields_are_mapped(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "d.jsonl", [{"q": "x", "a": ["y", "z"], "k": "c", "n": 7, "question": "not this"}]
    )
    (item,) = read_dataset(path, Fields(input="q", answer="a", category="k", id="n")).items
    assert (item.id, item.text, item.answers, item.category) == ("7", "x", ("y", "z"), "c")


def test_ids_come_from_the_content_and_survive_reordering(tmp_path: Path) -> None:
    rows = [{"question": f"q{i}", "answer": "a"} for i in range(5)]
    here = read_dataset(jsonl(tmp_path / "a.jsonl", rows))
    there = read_dataset(jsonl(tmp_path / "b.jsonl", rows[::-1]))
    assert [item.id for item in here.items] == [item.id for item in there.items][::-1]
    assert here.content_hash != there.content_hash
    twice = read_dataset(jsonl(tmp_path / "c.jsonl", [rows[0], rows[0]])).items
    assert twice[1].id == f"{twice[0].id}-2"


@pytest.mark.parametrize(
    ("row", "choices", "letter"),
    [
        ({"choices": ["x", "y"], "answer": 1}, ("x", "y"), "B"),
        ({"choices": ["x", "y"], "answer": "b"}, ("x", "y"), "B"),
        ({"choices": ["x", "y"], "answer": "y"}, ("x", "y"), "B"),
        ({"options": {"A": "x", "B": "y"}, "answer": "B"}, ("x", "y"), "B"),
        ({"choices": {"text": ["x", "y"], "label": ["1", "2"]}, "answerKey": "2"}, ("x", "y"), "B"),
        ({"choices": '["x", "y"]', "answer": "1"}, ("x", "y"), "B"),
        ({"choices": ["x", "y"], "answer": 2}, ("x", "y"), "B"),
    ],
)
def test_choices_in_every_form(
    tmp_path: Path, row: dict[str, Any], choices: tuple[str, ...], letter: str
) -> None:
    (item,) = read_dataset(jsonl(tmp_path / "d.jsonl", [{"question": "q"} | row])).items
    assert (item.choices, item.answer) == (choices, letter)


def test_choices_in_columns(tmp_path: Path) -> None:
    path = lines(tmp_path / "d.csv", "question,A,B,C,answer", "q,x,y,z,C")
    (item,) = read_dataset(path, Fields(choices="A,B,C")).items
    assert (item.choices, item.answer, item.metadata) == (("x", "y", "z"), "C", {})


def test_a_chat_as_the_question(tmp_path: Path) -> None:
    chat = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "yes?"},
        {"role": "user", "content": "bye"},
    ]
    (item,) = read_dataset(jsonl(tmp_path / "d.jsonl", [{"messages": chat}])).items
    assert item.text == "bye"
    assert len(item.input) == 3


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (['{"question": "q"', "{}"], "line 1: broken JSON"),
        (['{"question": "q"}', "", "[1]"], "line 3: each line must be one JSON object"),
        (['{"question": "q", "answer": "a"}', '{"answer": "b"}'], "line 2: the field 'question' is missing"),
        (['{"question": "q", "answer": "a"}', '{"question": "r"}'], "line 2: the field 'answer' is missing"),
        (['{"question": 7}'], "must be a text or chat"),
        (
            ['{"question": "q", "id": 1}', '{"question": "r", "id": 1}'],
            "line 2: the id '1' was already given on line 1",
        ),
        (['{"question": "q", "id": null}'], "the field 'id' is empty"),
        (['{"frage": "q"}'], "--input"),
        (['{"question": "q", "choices": ["x", "y"], "answer": "z"}'], "none of the 2 choices"),
        (['{"question": "q", "choices": ["x"], "answer": "x"}'], "1 choices"),
        (['{"question": "q", "choices": 5}'], "must be a list of choices"),
        ([""], "holds no records"),
        (["[" * 100_000], "line 1: broken JSON"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, rows: list[str], says: str) -> None:
    with pytest.raises(BadFile, match=r"d\.jsonl") as caught:
        read_dataset(lines(tmp_path / "d.jsonl", *rows))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "latin.jsonl").write_bytes(b'{"question": "\xff"}')
    (tmp_path / "broken.csv").write_text('question,answer\n"open')
    lines(tmp_path / "ragged.csv", "question,answer", "a,b,c")
    for name in ("empty.jsonl", "latin.jsonl", "broken.csv", "ragged.csv", "no.jsonl", "data.docx"):
        with pytest.raises(BadFile):
            read_dataset(tmp_path / name)


def test_a_mapping_to_nowhere_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="did you mean 'question'"):
        read_dataset(jsonl(tmp_path / "d.jsonl", ROWS), Fields(input="qestion"))


def test_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str, config: str | None, split: str) -> list[dict[str, Any]]:
        if split != "test":
            raise ValueError(f"Unknown split {split}\nShould be test")
        return [{"question": f"{name} {config}", "answer": 0, "choices": ["x", "y"]}]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load))
    (item,) = read_dataset("hf:cais/mmlu:all@test").items
    assert (item.text, item.answer) == ("cais/mmlu all", "A")
    with pytest.raises(BadFile, match="@split") as caught:
        read_dataset("hf:cais/mmlu:all@dev")
    assert "\n" not in str(caught.value)


def test_the_hub_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(Misuse, match=r"cereval\[datasets\]"):
        read_dataset("hf:gsm8k")
    with pytest.raises(InvalidInput):
        HubSource.parse("hf:a b")


@given(st.binary(max_size=200))
def test_any_bytes_are_data_or_one_clear_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    for ending in ("jsonl", "csv", "parquet"):
        path = tmp_path_factory.mktemp("d") / f"d.{ending}"
        path.write_bytes(content)
        try:
            assert read_dataset(path).items
        except CerevalError as error:
            line = str(error)
            assert len(line.splitlines()) == 1


@pytest.mark.parametrize("name", ["ideal", "expected_output", "reference", "target"])
def test_answers_by_the_names_that_others_give_them(tmp_path: Path, name: str) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(json.dumps({"question": "1+1?", name: "2", "output": "a model's answer"}))
    (item,) = read_dataset(path).items
    assert item.answer == "2"


def test_data_without_answers_say_which_fields_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(
        "".join(json.dumps({"question": f"{n}?", "truth": "2", "level": 3}) + "\n" for n in range(9))
    )
    store = f"sqlite:///{tmp_path}/s.db"
    assert main(["run", str(path), "--model", "scripted/0.5", "--scorer", "exact", "--store", store]) == 1
    assert "name it with --answer (it has 'truth', 'level')" in capsys.readouterr().err
