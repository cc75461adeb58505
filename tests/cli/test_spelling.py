"""A refused value is told under the flag that was typed, with the allowed range and the value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cereval.cli.main import main

SCORES = "item,a,b,c\n" + "".join(f"{i},{i % 2},{i % 3 and 1},{i % 5 and 1}\n" for i in range(1, 31))
RANGE = "must be a number in (0, 1), got 2.0"
WHOLE = "must be a whole number >= 1, got 0"
COLUMN = "must be a column of the scores table (there are 'a', 'b', 'c'), got 'nope'"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "s.csv").write_text(SCORES)
    rows = [{"question": f"1+{i}", "answer": str(1 + i)} for i in range(9)]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("run q.jsonl --model scripted/0.5 --eps 2", "--eps must be a number in (0, 1), or auto, got 2.0"),
        ("run q.jsonl --model scripted/0.5 --at-least 2", f"--at-least {RANGE}"),
        ("run q.jsonl --model scripted/0.5 --threshold=2", f"--threshold {RANGE}"),
        ("run q.jsonl --model scripted/0.5 --confidence 2", f"--confidence {RANGE}"),
        ("run q.jsonl --model scripted/0.5 --max-calls 0", f"--max-calls {WHOLE}"),
        ("run q.jsonl --model scripted/0.5 --seed -1", "--seed must be a whole number >= 0, got -1"),
        ("run q.jsonl --model scripted/0.5 --target all", "--target must be one of benchmark,"),
        ("run q.jsonl --model scripted/0.5 --method best", "--method must be one of auto,"),
        (
            "run q.jsonl --model scripted/0.5 --timeout 0",
            "--timeout must be a number > 0, got 0.0",
        ),
        ("run q.jsonl --model scripted/0.5 --few-shot 9", "--few-shot must be in [0, 8], got 9"),
        (
            "run q.jsonl --model scripted/0.5 --max-tokens 0",
            "--max-tokens must be a whole number >= 1, got 0",
        ),
        ("run q.jsonl --model scripted/0.5 --price-in -1", "--price-in must be a number >= 0"),
        ("run q.jsonl --model scripted/0.5 --scorer regex:(", "pattern in --scorer must be a regular"),
        (
            "run q.jsonl --model scripted/0.5 --scorer grade --judge best",
            "--judge must be one of openai/NAME",
        ),
        ("run q.jsonl --model scripted/0.5 --store runs", "--store must be a URL such as"),
        ("gate q.jsonl --model scripted/0.5 --min 2", f"--min {RANGE}"),
        ("replay s.csv --model nope", f"--model {COLUMN}"),
        ("replay s.csv --model a --history b,nope", f"--history {COLUMN}"),
        ("replay s.csv --model a --at-least 2", f"--at-least {RANGE}"),
        ("replay s.csv --model a --budget 0", f"--budget {WHOLE}"),
        ("replay compare s.csv --model a --model b --eps 2", "--eps must be a number in [0, 1), got 2.0"),
        ("replay compare s.csv --model a --model b --within 2", f"--within {RANGE}"),
        (
            "replay compare s.csv --model a --model b --not-worse 2",
            "--not-worse must be a number in [0, 1), got 2.0",
        ),
        ("replay compare s.csv --model a --model b --max-calls 0", f"--max-calls {WHOLE}"),
        ("replay rank s.csv --tie 2", f"--tie {RANGE}"),
        ("replay rank s.csv --top 3", "--top must be below the number of models, 3, got 3"),
        ("replay rank s.csv --beats nope", f"--beats {COLUMN}"),
        ("replay rank s.csv --model a --model nope", f"--model {COLUMN}"),
        ("plan --items 0", f"--items {WHOLE}"),
        ("plan --items 9 --threshold 2", f"--threshold {RANGE}"),
        ("plan --items 9 --groups 1:0.1,1:0.1", "masses in --groups must be >= 0 with sum 1"),
    ],
)
def test_the_flag_as_typed_its_range_and_the_value(
    folder: Path, line: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 1
    assert capsys.readouterr().err.startswith(f"error: {says}")
    assert not (folder / "cereval.db").exists(), "a run was created"
