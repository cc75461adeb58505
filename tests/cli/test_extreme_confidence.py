"""Confidences next to 0 and 1: every kind ends, says something, and its certificate verifies."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cereval.cli.main import main

GOLDEN = Path(__file__).parent.parent / "golden"
LINES = {
    "estimate": "run questions.jsonl --model scripted/0.5 --eps 0.2",
    "weighted": "run questions.jsonl --model scripted/0.5 --eps 0.2 --weights weight",
    "gate": "gate questions.jsonl --model scripted/0.5 --min 0.2",
    "tasks": "tasks questions.jsonl --model scripted/0.5 --eps 0.2",
    "extend": "extend questions.jsonl --model scripted/0.5 --eps 0.2",
    "compare": "compare questions.jsonl --model scripted/0.5 --model scripted/0.1 --eps 0.2",
    "rank": "rank questions.jsonl --model scripted/0.5 --model scripted/0.1 --tie 0.2",
}


@pytest.mark.parametrize("confidence", ["0.9999999999999999", "1e-12"])
@pytest.mark.parametrize("kind", LINES)
def test_every_kind_ends_and_verifies(
    kind: str, confidence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    questions = (GOLDEN / "questions.jsonl").read_text(encoding="utf-8").splitlines()[:40]
    Path("questions.jsonl").write_text("\n".join(questions), encoding="utf-8")
    own = ["--store", "sqlite:///own.db"]
    line = [*LINES[kind].split(), "--confidence", confidence, "--seed", "1", "--display", "none"]
    assert main([*line, *own, "--certificate", "c.json"]) in (0, 2, 3)
    assert main(["verify", "c.json", *own]) == 0


def test_side_information_says_what_it_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(GOLDEN / "scores.csv", "scores.csv")
    line = "replay scores.csv --model red --eps 0.1 --method active --history others --confidence"
    assert main([*line.split(), "0.9999999999999999"]) == 0
    assert main([*line.split(), "1e-12"]) == 0


def test_a_confidence_of_nearly_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(GOLDEN / "scores.csv"), "--model", "red", "--confidence", "1e-17"]) == 1
    assert "--confidence must be a number in (0, 1), at least 1e-12, got 1e-17" in capsys.readouterr().err
