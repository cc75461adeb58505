"""`cereval rank` with models that are asked: nothing is asked twice, whatever the goal, and failures widen."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.live import replacing, settled

from cereval.cli.main import main
from cereval.store.base import open_store

MODELS = ["scripted/0.95", "scripted/0.6", "scripted/0.2"]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"what is {i} + {i}?", "answer": str(2 * i)} for i in range(150)]
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def run(
    capsys: pytest.CaptureFixture[str], data: Path, models: list[str], *flags: str
) -> tuple[int, dict[str, Any]]:
    named = [part for model in models for part in ("--model", model)]
    code = main(
        replacing(
            ["rank", str(data), *named, "--tie", "0.2", "--seed", "0", "--json", "--display", "none"], *flags
        )
    )
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if code != 1 else {"error": captured.err}


def answers(found: dict[str, Any]) -> dict[str, int]:
    store = open_store("sqlite:///cereval.db")
    try:
        return {name: len(store.answers(run_id)) for name, run_id in found["runs"].items()}
    finally:
        store.close()


def test_models_are_asked_and_the_certificate_holds(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, found = run(capsys, data, MODELS, "-o", "ranking.json", "--report", "ranking.html")
    assert (code, found["stopped"]) == (0, "goal")
    assert [MODELS[0], MODELS[2]] in found["order"]
    assert sum(answers(found).values()) == found["calls"] + found["surplus"]
    assert found["calls"] < found["calls_full"]
    assert main(["verify", "ranking.json"]) == 0
    assert "<svg" in Path("ranking.html").read_text(encoding="utf-8")
    assert main(["runs"]) == 0
    assert "part of a" in capsys.readouterr().out
    assert main(["resume", next(iter(found["runs"].values()))]) == 1
    assert "repeat `cereval rank`" in capsys.readouterr().err


def test_nothing_is_asked_twice(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, part = run(capsys, data, MODELS, "--budget", "40")
    assert (part["stopped"], part["calls"], part["notes"]) == ("budget", 40, [])
    _, whole = run(capsys, data, MODELS)
    asked = answers(whole)
    assert sum(asked.values()) == whole["calls"] + whole["surplus"]
    assert "were not chosen by looking at those answers" in whole["notes"][-1]
    _, again = run(capsys, data, MODELS)
    assert (settled(again), again["asked"]) == (settled(whole), 0)
    assert answers(again) == asked
    _, wider = run(capsys, data, [*MODELS, "scripted/0.4"])
    kept = answers(wider)
    assert all(kept[name] >= asked[name] for name in MODELS)
    assert sum(kept.values()) < wider["calls"] + wider["surplus"] + whole["calls"]
    assert any("not asked again" in note for note in wider["notes"])


BROKEN = """
def no(messages):
    text = messages[-1]["content"]
    raise RuntimeError("out of order")

def neither(messages):
    text = messages[-1]["content"]
    raise RuntimeError("out of order")
"""


def test_when_every_call_fails_nothing_is_on_record(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken_model.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    broken = ["python:broken_model:no", "python:broken_model:neither"]
    code, found = run(capsys, data, broken, "-j", "2")
    assert code == 1
    assert "the last 8 calls all failed" in found["error"]
    assert main(["runs", "--json"]) == 0
    assert all(row["calls"] == 0 for row in json.loads(capsys.readouterr().out))


def test_one_dead_model_stops_the_ranking_and_its_failures_are_not_final(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken_model.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    dead = "python:broken_model:no"
    code, found = run(capsys, data, [dead, *MODELS[::2]])
    assert code == 1
    failed = re.search(rf"{dead}: the last (\d+) calls all failed", found["error"])
    assert failed
    assert int(failed[1]) >= 8
    code, found = run(capsys, data, MODELS[::2])
    assert (code, found["order"]) == (0, [[MODELS[0], MODELS[2]]])
    assert any("not asked again" in note for note in found["notes"])
    assert main(["runs", "--json"]) == 0
    assert [row["calls"] for row in json.loads(capsys.readouterr().out) if row["model"] == dead] == [0]


def test_flags_that_do_not_fit_are_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, data, MODELS[:1])[0] == 1
    table = data.with_name("scores.csv")
    table.write_text("item,a,b\n" + "".join(f"{i},{i % 2},1\n" for i in range(20)))
    code, found = run(capsys, table, ["a", "b"], "--max-tokens", "5")
    assert code == 1
    assert "--max-tokens" in found["error"]


def test_history_orders_the_items_and_is_part_of_the_run(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for model in ("scripted/0.5", "scripted/0.7", "scripted/0.3"):
        assert main(["run", str(data), "--model", model, "--eps", "0.1", "--display", "none"]) == 0
    capsys.readouterr()
    run(capsys, data, MODELS, "-o", "plain.json", "--tie", "0.3")
    code, found = run(capsys, data, MODELS, "--history", "store", "-o", "past.json")
    assert (code, found["stopped"]) == (0, "goal")
    certificates = {name: json.loads(Path(f"{name}.json").read_text("utf-8")) for name in ("plain", "past")}
    assert "side_information" not in certificates["plain"]
    assert len(certificates["past"]["plan"]["history"]) == 3
    assert certificates["past"]["plan"]["side_information"] == ["history"]
    assert main(["verify", "past.json", "--store", "sqlite:///cereval.db"]) == 0
    assert found["kept"] > 0, "what both orders ask was paid for once"
    capsys.readouterr()
    _, again = run(capsys, data, MODELS, "--history", "store", "-o", "past.json")
    assert (settled(again), again["asked"]) == (settled(found), 0)
    _, other_goal = run(capsys, data, MODELS, "--history", "store", "--doubt", "0.4")
    assert other_goal["asked"] == 0, "another goal shares the order, and so the answers"


def test_a_sealed_ranking_keeps_the_history_it_was_sealed_with(data: Path) -> None:
    earlier = ["--eps", "0.1", "--display", "none"]
    for model in ("scripted/0.5", "scripted/0.7"):
        assert main(["run", str(data), "--model", model, *earlier]) == 0
    named = [part for model in MODELS for part in ("--model", model)]
    ranking = ["rank", str(data), *named, "--tie", "0.2", "--history", "store"]
    assert main(["seal", *ranking, "-o", "seal.json"]) == 0
    assert main(["run", str(data), "--model", "scripted/0.3", *earlier]) == 0
    assert main([*ranking, "--seal", "seal.json", "-o", "sealed.json", "--display", "none"]) == 0
    assert len(json.loads(Path("sealed.json").read_text("utf-8"))["plan"]["history"]) == 2
    assert main(["verify", "sealed.json", "--seal", "seal.json"]) == 0


def test_histories_of_recorded_scores_are_refused_where_models_are_asked(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = run(capsys, data, MODELS, "--history", "others")
    assert code == 1
    assert "`store` or `none` where models are asked" in found["error"]
