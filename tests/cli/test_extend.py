"""`cereval extend` and `cereval replay extend` on recorded scores: a column is a candidate like any other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cereval.cli.main import main

EVEN = ["--seed", "0", "--eps"]


def write(path: Path, count: int, *, empty: int | None = None) -> str:
    scores = (np.random.default_rng(0).uniform(size=count) < 0.6).astype(int)
    lines = [f"q{row},{'' if row == empty else score}" for row, score in enumerate(scores)]
    path.write_text("item,m\n" + "\n".join(lines) + "\n")
    return str(path)


def told(arguments: list[str], capsys: pytest.CaptureFixture[str], command: str = "replay extend") -> Any:
    assert main([*command.split(), *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("versions", ["0.5,0.75,1", "200,300,400"])
def test_versions_from_shares_or_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], versions: str
) -> None:
    scores = write(tmp_path / "s.csv", 400)
    result = told([scores, "--model", "m", "--versions", versions, *EVEN, "0.1"], capsys)
    assert [version["n_items"] for version in result["versions"]] == [200, 300, 400]
    assert result["truth_inside"]
    assert result["n_evaluated"] == sum(version["calls"] for version in result["versions"])
    assert result["half_width"] <= 0.1


def test_versions_in_the_store_are_those_of_a_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked, quiet = ["--model", "m", "--eps", "0.12", "--seed", "3"], ["--display", "none"]
    scores = write(tmp_path / "s.csv", 300)
    first = told([scores, *asked, *quiet], capsys, "extend")
    assert told([scores, *asked, *quiet], capsys, "extend")["asked"] == 0
    write(tmp_path / "s.csv", 400)
    second = told([first["run_id"], "--data", scores, *quiet], capsys, "extend")
    assert second["versions"][0] == first["versions"][0]
    at_once = told([scores, *asked, "--versions", "300,400", "--certificate", "c.json"], capsys)
    assert second["versions"] == at_once["versions"]
    assert main(["verify", "c.json"]) == main(["verify", second["run_id"]]) == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--versions", "x"], "--versions"),
        (
            ["--versions", "0.5,0.4"],
            "--versions must be growing shares up to 1, or numbers of items up to 50",
        ),
        (["--versions", "0.001,1"], "got '0.001,1'"),
        (["--versions", "1", "--eps", "2"], "eps"),
        ([], "'--versions'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    assert main(["replay", "extend", write(tmp_path / "s.csv", 50), "--model", "m", *more]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--model", "openai/m"]])
def test_a_run_without_data_asks_for_the_data(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extend", "ba27b93c9ad3", *more]) == 1
    assert "--data must be given with RUN" in capsys.readouterr().err


def test_a_score_that_is_gone_is_no_new_item(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = [write(tmp_path / "s.csv", 60), "--model", "m", *EVEN, "0.2", "--display", "none"]
    first = told(asked, capsys, "extend")
    scores = write(tmp_path / "s.csv", 80, empty=7)
    second = told([first["run_id"], "--data", scores, "--display", "none"], capsys, "extend")
    assert [version["n_items"] for version in second["versions"]] == [60, 80]


def test_the_table_for_people_and_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    scores = write(tmp_path / "s.csv", 300)
    arguments = [scores, "--model", "m", "--versions", "0.8,1", *EVEN, "0.15", "--report", str(page)]
    assert main(["replay", "extend", *arguments]) == 0
    shown = capsys.readouterr().out
    assert "all versions at once" in shown
    assert re.search(r"seed +0 ", shown)
    assert "all inside their intervals" in shown
    assert "all versions at once" in page.read_text()
