"""`cereval extend`: versions from shares, numbers or a column; a session kept in a file between calls."""

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


def told(arguments: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> Any:
    assert main(["extend", *arguments, "--model", "m", "--json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("versions", ["0.5,0.75,1", "200,300,400"])
def test_versions_from_shares_or_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], versions: str
) -> None:
    result = told([write(tmp_path / "s.csv", 400), "--versions", versions, *EVEN, "0.1"], capsys)
    assert [version["n_items"] for version in result["versions"]] == [200, 300, 400]
    assert result["truth_inside"]
    assert result["n_evaluated"] == sum(version["calls"] for version in result["versions"])
    assert result["half_width"] <= 0.1


def test_versions_from_a_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = write(tmp_path / "s.csv", 300, empty=7)
    items = tmp_path / "items.csv"
    items.write_text("item,came\n" + "\n".join(f"q{row},{2 if row % 3 else 10}" for row in range(300)) + "\n")
    result = told([scores, "--items", str(items), "--by", "came", *EVEN, "0.15"], capsys)
    assert [version["n_new"] for version in result["versions"]] == [199, 100]


def test_a_session_kept_in_a_file_is_extended_by_the_items_that_are_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, certificate = str(tmp_path / "state.json"), str(tmp_path / "c.json")
    scores = write(tmp_path / "s.csv", 300)
    first = told([scores, "--state", state, "--eps", "0.12", "--seed", "3"], capsys)
    assert told([scores, "--state", state], capsys) == first
    write(tmp_path / "s.csv", 400)
    second = told([scores, "--state", state, "--certificate", certificate], capsys)
    assert second["versions"][0] == first["versions"][0]
    at_once = told([scores, "--versions", "300,400", "--eps", "0.12", "--seed", "3"], capsys)
    assert second == at_once
    assert main(["verify", certificate]) == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--versions", "x"], "--versions"),
        (
            ["--versions", "0.5,0.4"],
            "--versions must be growing shares up to 1, or numbers of items up to 50",
        ),
        (["--versions", "0.001,1"], "got '0.001,1'"),
        (["--versions", "0.5", "--items", "i.csv", "--by", "c"], "--versions"),
        (["--by", "c"], "--by"),
        (["--eps", "2"], "eps"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    assert main(["extend", write(tmp_path / "s.csv", 50), "--model", "m", *more]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--model", "openai/m"]])
def test_a_run_without_data_asks_for_the_data(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extend", "ba27b93c9ad3", *more]) == 1
    assert "--data must be given with RUN" in capsys.readouterr().err


def test_a_saved_session_keeps_its_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores, state = write(tmp_path / "s.csv", 60), str(tmp_path / "state.json")
    told([scores, "--state", state, *EVEN, "0.2"], capsys)
    assert main(["extend", scores, "--model", "m", "--state", state, "--eps", "0.1"]) == 1
    assert "was started with" in capsys.readouterr().err
    Path(state).write_text("{}")
    assert main(["extend", scores, "--model", "m", "--state", state]) == 1
    assert "no saved session" in capsys.readouterr().err


def test_a_score_that_is_gone_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = str(tmp_path / "state.json")
    told([write(tmp_path / "s.csv", 60), "--state", state, *EVEN, "0.2"], capsys)
    scores = write(tmp_path / "s.csv", 80, empty=7)
    assert main(["extend", scores, "--model", "m", "--state", state]) == 1
    assert "no score any more for 1 items of the session, the first is 'q7'" in capsys.readouterr().err


@pytest.mark.fresh
def test_without_a_seed_one_is_drawn_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores, state = write(tmp_path / "s.csv", 60), str(tmp_path / "state.json")
    seeds = []
    for more in (["--state", state], ["--state", state], []):
        main(["extend", scores, "--model", "m", "--eps", "0.2", "--json", *more])
        seeds.append(json.loads(capsys.readouterr().out)["seed"])
    assert seeds[0] == seeds[1] == json.loads(Path(state).read_text())["session"]["seed"]
    assert len({0, *seeds}) == 3


def test_the_table_for_people_and_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    scores = write(tmp_path / "s.csv", 300)
    arguments = [scores, "--model", "m", "--versions", "0.8,1", *EVEN, "0.15", "--report", str(page)]
    assert main(["extend", *arguments]) == 0
    shown = capsys.readouterr().out
    assert "all versions at once" in shown
    assert re.search(r"seed +0 ", shown)
    assert "OUTSIDE" not in shown
    assert "all versions at once" in page.read_text()
