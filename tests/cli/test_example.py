"""`cereval example` writes what the README runs on."""

from __future__ import annotations

from pathlib import Path

import pytest

from cereval.cli.main import main
from cereval.datasets.read import read_dataset
from cereval.datasets.tables import read_items, read_scores


def test_questions_and_scores_belong_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["example", str(tmp_path / "new")]) == 0
    scores = read_scores(tmp_path / "new" / "scores.csv")
    questions = read_dataset(str(tmp_path / "new" / "questions.jsonl"))
    assert [item.id for item in questions.items] == list(scores.items)
    assert read_items(tmp_path / "new" / "questions.jsonl").aligned_to(scores.items).categories is not None
    assert 0.7 < scores.model("heron").mean() < 0.8
    assert capsys.readouterr().out.count("written") == 2


def test_what_is_there_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "scores.csv").write_text("mine")
    assert main(["example", str(tmp_path)]) == 0
    assert (tmp_path / "scores.csv").read_text() == "mine"
    assert "scores.csv is there already" in capsys.readouterr().out
    (tmp_path / "file").write_text("")
    assert main(["example", str(tmp_path / "file" / "below")]) == 1
    capsys.readouterr()
    assert main(["example", "x" * 300]) == 1
    assert "cannot be written (File name too long)" in capsys.readouterr().err
