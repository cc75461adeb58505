"""While a question of several models is asked, it and its parts are listed as running."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.live import write

from cereval.cli.main import main

MODELS = """
import json
from pathlib import Path
from cereval.store.base import open_store

def _seen():
    store = open_store("sqlite:///cereval.db")
    with Path("seen.txt").open("a") as file:
        file.write(json.dumps([run.status for run in store.runs()]) + "\\n")
    store.close()

def first(messages):
    text = messages[-1]["content"]
    _seen()
    return text.split()[0]

def second(messages):
    text = messages[-1]["content"]
    _seen()
    return "no"
"""


@pytest.mark.parametrize("command", ["rank", "compare"])
def test_a_run_of_several_models_and_its_parts_are_running_while_they_run(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("status_models.py").write_text(MODELS)
    write(Path("data.jsonl"), [{"question": f"{n} + 0", "answer": str(n)} for n in range(60)])
    models = [f"--model=python:status_models.py:{name}" for name in ("first", "second")]
    assert main([command, "data.jsonl", *models, "--display", "none", "-j", "1"]) == 0
    seen = [json.loads(line) for line in Path("seen.txt").read_text().splitlines()]
    assert seen
    assert all(statuses == ["running"] * 3 for statuses in seen)
    assert main(["runs", "--json"]) == 0
