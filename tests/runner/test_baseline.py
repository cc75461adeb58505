"""Yesterday against today: `compare --baseline` takes what an earlier run answered, and says what it is about."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.serving import served
from tests.cli.live import content, run, write

import cereval
from cereval.certificate.verify import verify
from cereval.cli.main import main
from cereval.errors import InvalidInput
from cereval.runner.answers import answer_rows
from cereval.store.base import opened_store

N = 300
BOT = """
def right(messages):
    return str(int(messages[-1]["content"].split()[0]) + 4)
"""


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    write(tmp_path / "q.jsonl", [{"question": f"{n} + 4", "answer": str(n + 4)} for n in range(N)])
    return tmp_path / "q.jsonl"


Capture = pytest.CaptureFixture[str]


def test_what_the_run_lacks_is_asked_and_the_rest_costs_nothing(capsys: Capture) -> None:
    _, old = run(
        capsys, "run", "q.jsonl", "--model", "scripted/0.9", "--eps", "0.1", "--name", "monday", "--seed", 1
    )
    line = [
        "compare",
        "q.jsonl",
        "--model",
        "scripted/0.5",
        "--baseline",
        "monday",
        "--not-worse",
        "0.05",
        "--seed",
        2,
    ]
    code, facts = run(capsys, *line)
    assert (code, facts["decision"], facts["baseline"]) == (2, "worse", old["run_id"])
    assert facts["n_items"] == N
    assert facts["kept"] > 0
    certificate = content(facts)
    assert verify(certificate).valid
    # The kept answers are those of the run, each with its score.
    with opened_store(None) as store:
        first, second = (
            {row["item"]: row["score"] for row in answer_rows(store, one)}
            for one in (old["run_id"], facts["runs"]["monday"])
        )
    assert all(second[item] == score for item, score in first.items() if item in second)


def test_the_candidate_of_today_is_asked_anew_and_compared_over_what_was_answered(capsys: Capture) -> None:
    """A server that changes under one name: repeating the command is no comparison of answers with themselves."""
    _, old = run(capsys, "run", "q.jsonl", "--model", "scripted/0.9", "--eps", "0.1", "--seed", 1)
    line = ["compare", "q.jsonl", "--model", "scripted/0.9", "--baseline", "last", "--not-worse", "0.05"]
    code, facts = run(capsys, *line)
    assert (code, facts["decision"]) == (0, "not-worse")
    assert facts["n_items"] == old["calls"]
    assert f"the {old['calls']} of {N} questions that run {old['run_id']} answered" in facts["data"]
    assert facts["asked"] >= facts["n_evaluated"]
    assert facts["kept"] == facts["asked"]  # every answer of the baseline was there
    # Its tag is the new candidate's.
    _, tagged = run(capsys, *line, "--tag", "release")
    _, next_one = run(capsys, *line[:5], "release", *line[6:])
    assert next_one["baseline"] == tagged["runs"]["scripted/0.9"]
    # `last` is then the new candidate of that comparison, not the copy of the baseline.
    _, third = run(capsys, *line)
    assert third["baseline"] == next_one["runs"]["scripted/0.9"]


def test_edited_code_is_not_asked_for_the_old_answers(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(BOT)
    run(capsys, "run", "q.jsonl", "--model", "python:bot:right", "--eps", "0.1", "--name", "old", "--seed", 1)
    (tmp_path / "bot.py").write_text(BOT.replace("+ 4", "+ 5"))
    sys.modules.pop("bot", None)
    line = ["compare", "q.jsonl", "--model", "python:bot:right", "--baseline", "old", "--not-worse", "0"]
    assert main([*line, "--display", "plain"]) == 2
    assert "its code has changed since" in capsys.readouterr().err


@pytest.mark.parametrize("gone", [True, False])
def test_a_server_that_is_gone_is_not_asked(capsys: Capture, gone: bool) -> None:
    Path("key.json").write_text(json.dumps({f"{n} + 4": str(n + 4) for n in range(N)}))
    with served(Path("key.json")) as url:
        made = ["--model", "openai/a", "--base-url", url]
        _, facts = run(capsys, "run", "q.jsonl", *made, "--eps", "0.1", "--name", "old", "--seed", 1)
        line = ["compare", "q.jsonl", "--model", "scripted/0.9", "--baseline", "old", "--within", "0.2"]
        if not gone:
            assert run(capsys, *line)[1]["n_items"] == N
            return
    assert run(capsys, *line)[1]["n_items"] == facts["calls"]


def test_the_scorer_is_the_baselines_unless_another_is_named(capsys: Capture) -> None:
    made = ["--scorer", "contains", "--eps", "0.1", "--seed", "1"]
    run(capsys, "run", "q.jsonl", "--model", "scripted/0.9", *made)
    line = ["compare", "q.jsonl", "--model", "scripted/0.8", "--baseline", "last", "--max-calls", "20"]
    assert content(run(capsys, *line)[1])["plan"]["scorer"]["spec"]["name"] == "contains"
    other = content(run(capsys, *line, "--scorer", "regex:zzz")[1])
    assert {entry["second"] for entry in other["log"]} == {0.0}  # what was answered, scored anew


def test_an_interrupted_comparison_keeps_its_baseline(capsys: Capture) -> None:
    _, old = run(capsys, "run", "q.jsonl", "--model", "scripted/0.9", "--eps", "0.1", "--seed", 1)
    line = [
        "compare",
        "q.jsonl",
        "--model",
        "scripted/0.9",
        "--baseline",
        "last",
        "--within",
        "0.1",
        "--seed",
        5,
    ]
    _, part = run(capsys, *line, "--max-calls", "10")
    code, whole = run(capsys, "resume", part["run_id"], "--max-calls", 300)
    assert (code, whole["baseline"]) == (0, old["run_id"])
    assert verify(content(whole)).valid


def test_what_cannot_be_a_baseline_is_refused(capsys: Capture) -> None:
    line = ["compare", "q.jsonl", "--model", "scripted/0.9", "--baseline"]
    code, facts = run(capsys, *line, "last")
    assert code == 1
    assert "there is no database" in facts["error"]
    _, both = run(capsys, "compare", "q.jsonl", "--model", "scripted/0.9", "--model", "scripted/0.1")
    code, facts = run(capsys, *line, both["run_id"])
    assert code == 1
    assert all(part in facts["error"] for part in both["runs"].values())
    code, facts = run(capsys, *line, "scripted/0.99")
    assert code == 1
    assert "did you mean 'scripted/0.9'" in facts["error"]
    code, facts = run(capsys, *line, "last", "--model", "scripted/0.8")
    assert code == 1
    assert "--model" in facts["error"]
    write(Path("other.jsonl"), [{"question": "1 + 1", "answer": "2"}])
    code, facts = run(capsys, "compare", "other.jsonl", "--model", "scripted/0.9", "--baseline", "last")
    assert code == 1
    assert "none on these questions yet" in facts["error"]


def test_python_takes_a_baseline_in_place_of_the_second_candidate(data: Path) -> None:
    def bot(messages: Any) -> str:
        return str(int(messages[-1]["content"].split()[0]) + 4)

    def edited(messages: Any) -> str:
        return f"{messages[-1]['content']}?"

    old = cereval.evaluate(str(data), bot, eps=0.1, seed=1)
    new = cereval.compare(str(data), edited, baseline=old.run_id, not_worse=0.05)
    assert new.decision == "worse"
    with pytest.raises(InvalidInput, match="b must be given"):
        cereval.compare(str(data), edited)


def test_ten_nights_cost_one_candidate_each(data: Path) -> None:
    """Each night is held against the one before: only the new candidate is asked."""
    nights: list[Any] = [cereval.evaluate(str(data), "scripted/0.9", max_calls=60, seed=1)]
    for number in range(3):
        night = cereval.compare(str(data), "scripted/0.9", baseline="last", not_worse=0.1, seed=number)
        assert night.outcome.asked <= 60
        nights.append(night)
    assert json.loads(json.dumps(nights[-1].certificate))["plan"]["candidates"][1]["not_asked"]


def test_kept_answers_are_never_taken_for_fresh_ones(capsys: Capture) -> None:
    """The theorem of `expected` needs a fresh answer in every draw: a baseline is about the answers that were given."""
    Path("bot.py").write_text(BOT)
    made = ["--model", "python:bot:right", "--temperature", "none"]
    run(capsys, "run", "q.jsonl", *made, "--max-calls", "60", "--name", "old", "--seed", 1)
    line = ["compare", "q.jsonl", *made, "--baseline", "old", "--within", "0.2"]
    code, facts = run(capsys, *line)
    assert (code, facts["target"]) == (0, "benchmark")
    assert "about the answers given now" in " ".join(facts["notes"])
    code, facts = run(capsys, *line, "--target", "expected")
    assert code == 1
    assert "not fresh" in facts["error"]
