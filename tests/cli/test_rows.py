"""Small things that cost a new user an afternoon, each as it was met."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cereval.cli.main import main

Capture = pytest.CaptureFixture[str]
ROWS = [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(60)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))


def said(capsys: Capture, *arguments: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert main(list(arguments)) == code
    captured = capsys.readouterr()
    return " ".join(captured.out.split()), " ".join(captured.err.split())


def test_misspelt_commands_and_flags_get_the_near_one(capsys: Capture) -> None:
    assert "did you mean 'run'" in said(capsys, "rum", "q.jsonl", code=1)[1]
    assert "--report" in said(capsys, "run", "q.jsonl", "--model", "scripted/0.5", "--repor", "x", code=1)[1]


def test_plan_takes_a_question_file(capsys: Capture) -> None:
    assert "60 questions" in said(capsys, "plan", "--items", "q.jsonl", "--eps", "0.1")[0]


def test_arrays_and_semicolons_are_read(capsys: Capture) -> None:
    Path("q.json").write_text(json.dumps(ROWS))
    Path("q.csv").write_text("question;answer\n" + "".join(f"{n} + 1?;{n + 1}\n" for n in range(60)))
    for name in ("q.json", "q.csv"):
        assert (
            "60 questions"
            in said(capsys, "run", name, "--model", "scripted/0.7", "--eps", "0.3", "--display", "none")[0]
        )


def test_a_replay_says_what_is_no_part_of_the_pool(capsys: Capture) -> None:
    scores = "".join(f"{n},{'' if n % 10 == 0 else n % 2}\n" for n in range(60))
    Path("s.csv").write_text("item,m\n" + scores)
    out = said(capsys, "replay", "s.csv", "--model", "m", "--eps", "0.3")[0]
    assert "left out: 6 of 60 items, on which the model has no score" in out


def test_columns_without_scores_are_said_in_words(capsys: Capture) -> None:
    Path("s.csv").write_text("item,m,n\n1,,0\n2,,1\n")
    assert main(["replay", "s.csv", "--model", "m"]) == 1
    assert "a column with scores (it has none for any of the 2 items), got 'm'" in capsys.readouterr().err
    assert main(["replay", "rank", "s.csv"]) == 1
    assert "two models or more with a score on every item, got 'n'" in capsys.readouterr().err


def test_a_missing_extra_is_met_before_the_first_call(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "math_verify", None)
    Path("m.py").write_text("def answer(q):\n    open('asked', 'w').close()\n    return q\n")
    line = ("run", "q.jsonl", "--model", "python:m.py:answer", "--scorer", "math")
    assert "cereval[math]" in said(capsys, *line, code=1)[1]
    assert not Path("asked").exists()


def test_the_first_line_of_a_model_that_is_always_wrong(capsys: Capture) -> None:
    """Row 5: the estimate is one that the answers support; savings are said against what others would do."""
    Path("no.py").write_text("def answer(q):\n    return ''\n")
    line = ("run", "q.jsonl", "--model", "python:no.py:answer", "--display", "plain")
    out, err = said(capsys, *line, "--eps", "0.2")
    assert re.match(
        r"0\.0% \(0\.0% to \d\d\.\d%\), 95% confidence, \d+ of 60 questions asked, scorer exact ", out
    )
    assert re.search(r"instead of +60 for all, or a sample of fixed size for this width: \d+ \(normal", out)
    assert "gave no text 10 times in a row" in err
    missed = said(capsys, *line, "--eps", "0.01", "--max-calls", "12", "--seed", "3", code=3)[0]
    assert "a sample of fixed size" not in missed
    assert "still needed about" in missed
