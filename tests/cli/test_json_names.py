"""The names on the command line's page are those that the program prints."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.docs.help_page import NAMES, fits

from cereval.cli.main import COMMANDS, main

SCORES = "item,a,b\n" + "".join(f"{i},{int(i % 2 > 0)},{int(i % 5 > 0)}\n" for i in range(60))
ITEMS = "item,category\n" + "".join(f"{i},{'xy'[i % 2]}\n" for i in range(60))
DATA = "\n".join(
    json.dumps({"question": f"1+{i}", "answer": str(1 + i), "category": "xy"[i % 2]}) for i in range(60)
)
FLEET = "models: [scripted/0.5, scripted/0.9]\ndata: q.jsonl\neps: 0.2\n"
ASKED = "q.jsonl --eps 0.2 --display none"
LINES = {
    "run, gate, resume, rescore, tell": [
        f"run {ASKED} --model scripted/0.5",
        "gate q.jsonl --model scripted/0.9 --min 0.3",
    ],
    "run --dry-run": [f"run {ASKED} --model scripted/0.5 --dry-run"],
    "runs (a list)": ["runs"],
    "verify": ["verify c.json"],
    "replay": ["replay s.csv --model a --eps 0.2", "replay s.csv --model a --at-least 0.2"],
    "replay compare": [
        "replay compare s.csv --model a --model b",
        "replay compare s.csv --model a --model b --within 0.3",
    ],
    "compare": [
        "compare s.csv --model a --model b",
        f"compare {ASKED} --model scripted/0.5 --model scripted/0.9",
    ],
    "replay rank": ["replay rank s.csv", "replay rank s.csv --top 1", "replay rank s.csv --beats a"],
    "rank": ["rank s.csv --top 1", "rank q.jsonl --display none --model scripted/0.5 --model scripted/0.9"],
    "replay tasks": [
        "replay tasks s.csv --items i.csv --model a --eps 0.2",
        "replay tasks s.csv --items i.csv --model a --at-least 0.2",
    ],
    "tasks": ["tasks s.csv --items i.csv --model a", f"tasks {ASKED} --model scripted/0.5"],
    "replay extend": ["replay extend s.csv --model a --versions 0.5,1 --eps 0.2 --seed 1"],
    "extend": [f"extend {ASKED} --model scripted/0.5 --seed 1", "extend s.csv --model a --eps 0.2 --seed 1"],
    "fleet --plan": ["fleet f.yaml --plan"],
    "plan": ["plan --items 100", "plan --items 100 --mean 0.5 --at-least 0.4"],
}


def told(line: str, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    assert main([*shlex.split(line), "--json"]) in (0, 2, 3), line
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"s.csv": SCORES, "i.csv": ITEMS, "q.jsonl": DATA, "f.yaml": FLEET}.items():
        Path(name).write_text(text)
    told(f"run {ASKED} --model scripted/0.7 --seed 5 -o c.json", capsys)


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize("command", LINES)
def test_the_names_are_those_of_the_page(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for line in LINES[command]:
        found = told(line, capsys)
        names = set(found[0] if command == "runs (a list)" else found)
        assert fits(NAMES[command], names), (line, sorted(names))


@pytest.mark.usefixtures("_folder")
def test_the_names_of_what_needs_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    run_id = told("runs", capsys)[0]["run_id"]
    assert fits(NAMES["report"], set(told(f"report {run_id} -o page.html", capsys)))
    assert fits(NAMES["run, gate, resume, rescore, tell"], set(told(f"resume {run_id}", capsys)))


def test_every_command_that_prints_json_is_on_the_page() -> None:
    listed = {word for names in NAMES for word in names.replace(",", "").split()}
    assert set(COMMANDS) - listed <= {"reproduce", "example", "view", "judge", "mcp"}
