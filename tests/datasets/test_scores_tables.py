from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from cereval.datasets.tables import read_items, read_scores
from cereval.errors import BadFile, InvalidInput


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_csv_keeps_ids_as_text_and_gaps_as_nan(tmp_path: Path) -> None:
    table = read_scores(
        written(tmp_path / "s.csv", "item,a,b\n007,1,0.5\n008,,0.25\n009,true,1\n".replace("true", "0"))
    )
    assert table.items == ("007", "008", "009")
    assert np.isnan(table.model("a")[1])
    assert table.model("b").tolist() == [0.5, 0.25, 1.0]
    assert table.history(["b"]).shape == (3, 1)


def test_parquet_and_csv_agree(tmp_path: Path) -> None:
    arrow = pa.table({"item": pa.array([0, 1], pa.int32()), "m": pa.array([True, False])})
    parquet.write_table(arrow, tmp_path / "s.parquet")
    left = read_scores(tmp_path / "s.parquet")
    right = read_scores(written(tmp_path / "s.csv", "item,m\n0,1\n1,0\n"))
    assert left.items == right.items
    assert left.model("m").tolist() == right.model("m").tolist()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("item,a\n", "no rows"),
        ("id,a\n1,1\n", "no column `item`"),
        ("item\n1\n", "no column of scores"),
        ("item,a\n1,1\n1,0\n", "item '1' stands on 2 rows"),
        ("item,a\n,1\n", "row 1: `item` is empty"),
        ("item,a\n1,50\n", "50 is no score"),
        ("item,a\n1,inf\n", "inf is no score"),
        ("item,a\n1,1\n2,\n3,yes please\n", "'a' is not numeric, item '3' has 'yes please'"),
        ("item,a,a\n1,1,1\n", "two columns called 'a'"),
        ("item,a\n1,1,1\n", "not readable as csv"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadFile, match=r"s\.csv") as caught:
        read_scores(written(tmp_path / "s.csv", text))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_model_names_the_nearest(tmp_path: Path) -> None:
    table = read_scores(written(tmp_path / "s.csv", "item,gpt-4,llama\n1,1,0\n"))
    with pytest.raises(InvalidInput, match="did you mean 'gpt-4'"):
        table.model("gpt4")


@pytest.mark.parametrize("name", ["missing.csv", "scores.xlsx", "."])
def test_a_path_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadFile):
        read_scores(tmp_path / name)


def test_a_parquet_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="not readable as parquet"):
        read_scores(written(tmp_path / "s.parquet", "hello"))


def test_items_from_every_format_are_the_same(tmp_path: Path) -> None:
    rows = [{"item": 1, "text": "one, two", "category": "x"}, {"item": 2, "text": "a\nb", "category": None}]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "i.parquet")
    written(tmp_path / "i.jsonl", "\n".join(map(json.dumps, rows)))
    written(tmp_path / "i.csv", 'item,text,category\n1,"one, two",x\n2,"a\nb",\n')
    tables = [read_items(tmp_path / f"i.{ending}") for ending in ("parquet", "jsonl", "csv")]
    assert tables[0] == tables[1] == tables[2]
    assert tables[0].aligned_to(("2", "1")).texts == ("a\nb", "one, two")


def test_items_without_categories_or_with_items_missing(tmp_path: Path) -> None:
    table = read_items(written(tmp_path / "i.csv", "item,text,category\n1,a,\n"))
    assert table.categories is None
    with pytest.raises(BadFile, match="lacks 1 of the 2"):
        table.aligned_to(("1", "2"))
    with pytest.raises(BadFile, match="neither"):
        read_items(written(tmp_path / "j.csv", "item,subject\n1,a\n"))


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=30))
def test_scores_survive_the_file_exactly(
    tmp_path_factory: pytest.TempPathFactory, scores: list[float | None]
) -> None:
    path = tmp_path_factory.mktemp("s") / "s.csv"
    written(path, "item,m\n" + "".join(f"{i},{'' if s is None else repr(s)}\n" for i, s in enumerate(scores)))
    read = read_scores(path).model("m")
    assert [None if np.isnan(value) else value for value in read] == scores


@pytest.mark.parametrize("index", [None, "item"])
def test_an_index_that_pandas_wrote_is_no_model(tmp_path: Path, index: str | None) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"item": ["c", "a", "b"], "m": [1.0, 0.5, 0.0]}, index=[8, 2, 5])
    frame = frame if index is None else frame.set_index(index)
    frame.to_csv(tmp_path / "s.csv")
    frame.to_parquet(tmp_path / "s.parquet")
    for name in ("s.csv", "s.parquet"):
        table = read_scores(tmp_path / name)
        assert list(table.models) == ["m"]
        assert table.items == ("c", "a", "b")
