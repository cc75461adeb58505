"""Commands that ask models, run in this process and in others that are killed."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cereval.cli.main import main

QUIET = ("--display", "none", "--json")


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    code = main([*map(str, arguments), *QUIET])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else {"error": captured.err}


def content(facts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(facts["certificate"]).read_text())
    return found


SLOW = """
import time
from pathlib import Path

def answer(text):
    with Path("asked.txt").open("a") as file:
        file.write(text + "\\n")
    time.sleep(0.003)
    number = int(text.split()[0])
    if number % 17 == 0:
        raise ValueError("a question that breaks the model")
    return str(number + 4 if number % 5 else 0)
"""


@pytest.fixture
def slow_model(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`python:slow_model:answer` notes what it is asked in the working folder, here and in other processes."""
    (data.parent / "slow_model.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(data.parent))
    monkeypatch.setenv("PYTHONPATH", str(data.parent))
    for name in ("whole", "killed"):
        Path(name).mkdir()
    yield
    sys.modules.pop("slow_model", None)


def process(folder: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "cereval", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)


def answered(folder: str) -> set[str]:
    """The numbers in the questions that the store has an answer to."""
    query = (
        "select content from runs natural join draws join answers using (run_id, draw) "
        "join items using (data_hash, item)"
    )
    if not Path(folder, "cereval.db").exists():
        return set()
    connection = sqlite3.connect(Path(folder, "cereval.db"), timeout=30)
    try:
        return {json.loads(row[0])["input"].split()[0] for row in connection.execute(query)}
    except sqlite3.OperationalError:
        return set()
    finally:
        connection.close()
