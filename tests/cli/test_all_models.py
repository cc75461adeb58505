"""`cereval replay --all-models`: table, JSON, money, memory, and flags that would be ignored."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.paper.tables import alike, write_benchmark

from cereval.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_benchmark(tmp_path_factory.mktemp("all") / "tiny", alike(500, 4))


def flags(folder: Path, *more: str) -> list[str]:
    return ["replay", str(folder / "scores.parquet"), "--all-models", "--eps", "0.08", "--jobs", "1", *more]


def test_json_has_every_model_the_total_and_money(folder: Path, capsys: Capture) -> None:
    assert main(flags(folder, "--json", "--price", "0.01", "--seeds", "2")) == 0
    out = capsys.readouterr().out
    told = json.loads(out)
    assert [one["model"] for one in told["models"]] == ["m0", "m1", "m2", "m3"]
    assert told["total"]["runs"] == 16
    for name in ("items", "uniform", "auto", "saved", "saved_usd"):
        assert told["total"][name] == pytest.approx(sum(one[name] for one in told["models"]))
    assert told["total"]["cost_usd"] == pytest.approx(0.01 * told["total"]["auto"])
    assert told["total"]["misses"] <= told["most_misses"]


def test_the_table_for_people_and_the_memory(folder: Path, capsys: Capture, tmp_path: Path) -> None:
    memory = tmp_path / "rows.csv"
    items = ["--items", str(folder / "items.parquet"), "--rows", str(memory)]
    assert main(flags(folder, *items)) == 0
    first = capsys.readouterr()
    assert all(word in first.out for word in ("m3", "all models", "ratio", "intervals miss the truth"))
    assert "all models" in first.err
    lines = memory.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 4 * 2
    assert main(flags(folder, *items)) == 0
    again = capsys.readouterr()
    assert again.out == first.out
    assert memory.read_text(encoding="utf-8").splitlines() == lines


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--model", "m0"], "--model must be given, or --all-models, and not both"),
        (["--method", "uniform"], "--method must be given without --all-models"),
        (["--budget", "10"], "--budget must be given without --all-models"),
        (["--threshold", "0.5"], "--threshold must be given without --all-models"),
        (["--history", "m0"], "--history must be `others` (the default) with --all-models"),
        (["--price", "-1"], "--price must be a number >= 0"),
        (["--price", "1e308"], "--price must be a number >= 0 and at most 1e+100"),
        (["--seeds", "1000000000"], "1<=x<=100000"),
    ],
)
def test_flags_that_would_be_ignored_are_refused(
    folder: Path, capsys: Capture, more: list[str], says: str
) -> None:
    assert main(flags(folder, *more)) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("more", [["--seeds", "2"], ["--price", "1"], ["--rows", "x.csv"], ["--jobs", "1"]])
def test_flags_of_all_models_need_it(folder: Path, capsys: Capture, more: list[str]) -> None:
    assert main(["replay", str(folder / "scores.parquet"), "--model", "m0", *more]) == 1
    assert "given with --all-models" in capsys.readouterr().err


def test_neither_a_model_nor_all(folder: Path, capsys: Capture) -> None:
    assert main(["replay", str(folder / "scores.parquet")]) == 1
    assert "--all-models" in capsys.readouterr().err


def test_models_without_a_history(tmp_path: Path, capsys: Capture) -> None:
    lone = write_benchmark(tmp_path / "lone", alike(300, 1))
    assert main(flags(lone, "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["total"]["auto"] == told["total"]["uniform"]
    assert np.isfinite(told["total"]["ratio"])


def test_a_goal_that_takes_no_call_saves_nothing_and_divides_by_nothing(
    folder: Path, capsys: Capture
) -> None:
    wide = ["0.5" if word == "0.08" else word for word in flags(folder, "--json")]
    assert main(wide) == 0
    assert {model["ratio"] for model in json.loads(capsys.readouterr().out)["models"]} == {1.0}
