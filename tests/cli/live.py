"""Commands that ask models, run in this process and in others that are killed."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cereval.cli.main import main

QUIET = ("--display", "none", "--json")


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main([*map(str, arguments), *QUIET])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else {"error": captured.err}


def replacing(words: Sequence[object], *more: object) -> list[str]:
    """Return a command with flags added, in the place of those that it has: a flag takes one value."""
    line, added = list(map(str, words)), list(map(str, more))
    for flag in added:
        if flag.startswith("--") and flag in line:
            place = line.index(flag)
            del line[place : place + 2]
    return [*line, *added]


def settled(facts: dict[str, Any]) -> dict[str, Any]:
    """What a command printed, but for how much of it this very command asked."""
    return {name: value for name, value in facts.items() if name not in ("kept", "asked")}


def listed(capsys: pytest.CaptureFixture[str], url: str = "sqlite:///cereval.db") -> list[dict[str, Any]]:
    """What `cereval runs --json` prints."""
    capsys.readouterr()
    assert main(["runs", "--store", url, "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def content(facts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(facts["certificate"]).read_text())
    return found


SLOW = """
import os
import threading
import time
from pathlib import Path

busy = peak = count = 0
together = 1  # calls stay, half a second at most, until so many were there at once
most = int(os.environ.get("SLOW_MODEL_MOST", 10**9))  # later ones are never answered
changed = threading.Condition()

def _asked(name, text, pause):
    global busy, peak, count
    with changed:
        busy += 1
        count += 1
        peak = max(peak, busy)
        late = count > most
        with Path("asked.txt").open("a") as file:
            file.write(name + " " + text + "\\n")
        changed.notify_all()
        changed.wait_for(lambda: peak >= together, 0.5)
    time.sleep(600 if late else pause)
    with changed:
        busy -= 1
    return int(text.split()[0])

def first(messages):
    text = messages[-1]["content"]
    number = _asked("first", text, 0.01)
    if number % 17 == 0:
        raise ValueError("a question that breaks the model")
    return str(number + 4 if number % 5 else 0)

def second(messages):
    text = messages[-1]["content"]
    number = _asked("second", text, 0.01)
    return str(number + 4 if number % 3 else 0)

def third(messages):
    text = messages[-1]["content"]
    number = _asked("third", text, 0.01)
    return str(number + 4 if number % 3 == 0 else 0)
"""
MODELS = ("first", "second", "third")


@pytest.fixture
def slow_model(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`python:slow_model:first` and its relatives note what they are asked in the working folder."""
    (data.parent / "slow_model.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(data.parent))
    monkeypatch.setenv("PYTHONPATH", str(data.parent), prepend=os.pathsep)
    for name in ("whole", "killed"):
        Path(name).mkdir()
    sys.modules.pop("slow_model", None)
    yield
    sys.modules.pop("slow_model", None)


def process(folder: str, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
    command, there = [sys.executable, "-m", "cereval", *arguments], {**os.environ, **variables}
    return subprocess.Popen(
        command, cwd=folder, env=there, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def killed(folder: str, arguments: list[str], answers: int) -> set[tuple[str, str]]:
    """Start a command, kill it once its store has more new answers than so many; return what is answered then.

    The slow model answers a few more and then none, so that the command cannot end first.
    """
    wanted = len(answered(folder)) + answers
    at_work = process(folder, *arguments, SLOW_MODEL_MOST=str(answers + 12))
    try:
        while at_work.poll() is None and len(answered(folder)) <= wanted:
            time.sleep(0.005)
        assert at_work.poll() is None, "it ended before it was killed"
    finally:
        at_work.kill()
        at_work.wait()
    return answered(folder)


def answered(folder: str) -> set[tuple[str, str]]:
    """Models, and the numbers in the questions that the store has their answer to."""
    query = (
        "select model, content from runs natural join draws join answers using (run_id, draw) "
        "join items using (data_hash, item)"
    )
    if not Path(folder, "cereval.db").exists():
        return set()
    connection = sqlite3.connect(Path(folder, "cereval.db"), timeout=30)
    try:
        rows = connection.execute(query).fetchall()
    except sqlite3.OperationalError:
        return set()
    finally:
        connection.close()
    return {(model.rpartition(":")[2], json.loads(row)["input"].split()[0]) for model, row in rows}


def asked(folder: str) -> list[tuple[str, str]]:
    """Models and the numbers in the questions that were put to them, in order."""
    lines = Path(folder, "asked.txt").read_text().splitlines()
    return [(line.split()[0], line.split()[1]) for line in lines]
