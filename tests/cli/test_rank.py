"""`cereval rank` end to end: every flag, exit codes, JSON, certificate, page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from cereval.cli.main import main
from cereval.questions.rank.goal import Top

SIZE = 300
MEANS = {"good": 0.95, "fair": 0.7, "also <b>fair</b>": 0.69, "poor": 0.3}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(3)
    columns = {name: (rng.uniform(size=SIZE) < mean).astype(float) for name, mean in MEANS.items()}
    gaps = columns["fair"].copy()
    gaps[:50] = np.nan
    path = tmp_path_factory.mktemp("rank") / "scores.parquet"
    parquet.write_table(pa.table({"item": [f"q{i}" for i in range(SIZE)], **columns, "gaps": gaps}), path)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["replay", "rank", *arguments, "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if code != 1 else {"error": captured.err}


def test_the_names_that_scripts_rely_on(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run(capsys, str(table), "--tie", "0.15")
    assert code == 0
    assert ["good", "poor"] in found["order"]
    assert ["fair", "also <b>fair</b>"] in found["ties"]
    assert found["calls"] < found["calls_full"] == 4 * SIZE
    assert set(found["intervals"]) == set(MEANS)
    assert set(found["intervals"]["good"]) == {"estimate", "lower", "upper", "n"}
    assert found["wrong_orders"] == found["intervals_missed"] == []
    assert (found["guarantee"], found["stopped"], found["confidence"], found["seed"]) == (
        "anytime",
        "goal",
        0.95,
        0,
    )
    assert "gaps" in found["notes"][0]


def test_top_and_baseline(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, top = run(capsys, str(table), "--top", "1", "--within", "0.02")
    assert (code, top["winners"]) == (0, ["good"])
    code, beats = run(capsys, str(table), "--beats", "fair", "--tie", "0.15")
    assert (code, beats["winners"], beats["eliminated"]) == (0, ["good"], ["poor"])


def test_a_top_k_in_words(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "rank", str(table), "--top", "1"]) == 0
    words = capsys.readouterr().out
    assert "1 of 1 models named right, 2 of 2 models ruled out right" in words
    rows = [line.split() for line in words.splitlines() if "[" in line]
    assert rows[0][:2] == ["yes", "good"]
    assert all(row[0] == "open" or row[:3] == ["≤", "1", "other"] for row in rows[1:])
    assert "≤ 1 other: another model is certified to be at least as good as this one" in words


def test_a_wrong_top_k_is_called_wrong() -> None:
    from tests.questions.replays import replay_ranking

    from cereval.cli.replay import truth_in_words, truth_of_ranking

    scores = np.tile([[1.0, 0.0, 0.0]], (100, 1))
    told = replay_ranking(scores, goal=Top(1), models=["a", "b", "c"])
    truth = truth_of_ranking(told, {"a": 0.0, "b": 0.0, "c": 1.0})
    assert (truth["wrong_winners"], truth["wrongly_eliminated"]) == (["a"], ["c"])
    assert "0 of 1 models named right, 1 WRONG, 1 of 2 models ruled out right, 1 WRONG" in truth_in_words(
        told, truth
    )


def test_every_row_is_one_line(
    table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    assert main(["replay", "rank", str(table), "--top", "1"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if "[" in line and "%" in line]
    assert len(rows) == len(MEANS)
    (width,) = {len(row) for row in rows}
    assert width <= 60, "no narrower than names of 11 characters allow"
    assert sum("also …" in row for row in rows) == 1


def test_models_seed_confidence_and_budget(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run(
        capsys, str(table), "--model", "gaps", "--model", "good", "--seed", "7", "--confidence", "0.9"
    )
    assert (code, found["models"], found["seed"], found["confidence"]) == (0, ["gaps", "good"], 7, 0.9)
    assert found["n_items"] == SIZE - 50
    assert any("50 of" in note for note in found["notes"])
    code, found = run(capsys, str(table), "--budget", "40", "--doubt", "0.01")
    assert (code, found["stopped"], found["calls"]) == (3, "budget", 40)


def test_proven_ties(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = run(capsys, str(table), "--tie", "0.15", "--prove-ties")
    _, presumed = run(capsys, str(table), "--tie", "0.15")
    assert found["ties_proven"] is True
    assert found["calls"] > presumed["calls"]


def test_certificate_and_page(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certificate, page = tmp_path / "c.json", tmp_path / "page.html"
    arguments = [
        "replay",
        "rank",
        str(table),
        "--tie",
        "0.15",
        "--certificate",
        str(certificate),
        "--report",
        str(page),
    ]
    assert main(arguments) == 0
    words = capsys.readouterr().out
    assert "pairs in certified order" in words
    assert "good > " in words
    assert main(["verify", str(certificate)]) == 0
    html = page.read_text(encoding="utf-8")
    assert "<svg" in html
    assert "also &lt;b&gt;fair" in html
    assert "<b>fair</b>" not in html
    assert "<script" not in html
    content = json.loads(certificate.read_text())
    content["result"]["order"].append(["poor", "good"])
    certificate.write_text(json.dumps(content))
    assert main(["verify", str(certificate)]) == 2


def test_a_history_of_no_model_is_said(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = [word for name in (*MEANS, "gaps") for word in ("--model", name)]
    _, found = run(capsys, str(table), "--history", "others", *every)
    assert "history: no column is left to be past, `others` has no effect" in found["notes"]
    _, found = run(capsys, str(table), "--history", "others")
    assert not any("no column is left" in note for note in found["notes"])


def test_a_doubt_without_effect_is_said(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["replay", "rank", str(table), "--tie", "0.2", "--doubt", "0.2", "--prove-ties", "--seed", "0"])
        == 1
    )
    assert "--doubt must be left out with --prove-ties" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--top", "1", "--tie", "0.1"], "--top"),
        (["--within", "0.1"], "--within"),
        (["--top", "9"], "top"),
        (["--model", "good"], "two models"),
        (["--model", "good", "--model", "nobody"], "nobody"),
        (["--beats", "nobody"], "nobody"),
        (["--tie", "2"], "tie"),
    ],
)
def test_what_cannot_run_is_said(
    table: Path, flags: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = run(capsys, str(table), *flags)
    assert code == 1
    assert says in found["error"]
