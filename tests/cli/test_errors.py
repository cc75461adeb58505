"""Errors as a new user meets them: one clear line with the remedy, exit code 1, nothing lost."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.serving import call, questions, run_flags, served
from tests.cli.live import replacing

from cereval.cli.main import main

SECRET = "sk-verysecret-0123456789abcdef"
NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served")
    questions(path, 600)
    return path


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with served(folder / "key.json", "--delay", "0.01") as address:
        yield address


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def go(folder: Path, url: str, store: Path, **flags: Any) -> int:
    return main(["run", *run_flags(folder / "questions.jsonl", url, store, **flags)])


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 1
    shown = capsys.readouterr()
    lines = [line for line in shown.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert shown.err.splitlines()[-1] == lines[0]
    assert "Traceback" not in shown.err
    assert shown.out == ""
    return lines[0]


@pytest.mark.parametrize(
    ("flags", "remedy"),
    [
        ({"scorer": "exat"}, "did you mean 'exact'"),
        ({"input": "aks"}, "did you mean 'ask'"),
        ({"answer": "golden"}, "did you mean 'gold'"),
        ({"model": "gpt-4o"}, "openai/NAME"),
        ({"model": "opnai/gpt-4o"}, "openai/NAME"),
        ({"eps": 1.5}, "a number in (0, 1)"),
        ({"eps": 0}, "a number in (0, 1)"),
        ({"method": "activ"}, "did you mean 'active'"),
        ({"max_connections": 0}, "a whole number >= 1"),
        ({"base_url": "localhost:8000"}, "http://localhost:8000/v1"),
        ({"base_url": "http://me:secret@localhost/v1"}, "OPENAI_API_KEY"),
        ({"store": "mysql://x"}, "sqlite:///cereval.db"),
        ({"store": "sqlite:////nowhere/at/all/runs.db"}, "no folder"),
        ({"max_usd": 1.0}, "--price-in"),
        ({"template": "{{ nothing }}"}, "template"),
        ({"judge": "openai/j"}, "left out"),
        ({"confidence": 95}, "a number in (0, 1)"),
        ({"output": "/dev/null/c.json"}, "--output must be a file in a folder that can be written to"),
    ],
)
def test_a_wrong_flag_is_one_line_with_the_remedy(
    folder: Path,
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: dict[str, Any],
    remedy: str,
) -> None:
    line = error_of(capsys, "run", *run_flags(folder / "questions.jsonl", url, tmp_path / "runs.db", **flags))
    assert remedy in line
    assert "secret" not in line


@pytest.mark.parametrize(
    ("content", "remedy"),
    [("", "empty"), ('{"ask": "x"}\n', "--answer"), ("{nonsense\n", "line 1"), ('{"foo": 1}\n', "--input")],
)
def test_a_bad_file_is_one_line_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, remedy: str
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text(content)
    flags = run_flags(data, NOWHERE, tmp_path / "runs.db", input=None, answer=None)
    if '"ask"' in content:
        flags += ["--input", "ask"]
    assert remedy in error_of(capsys, "run", *flags)


def unreadable(path: Path) -> Path:
    """A file that cannot be read: not even by root, who may be running the tests."""
    if os.geteuid():
        path.write_text("{}")
        path.chmod(0)
    else:
        path.symlink_to("/proc/self/mem")
    return path


@pytest.mark.parametrize("name", ["task.yaml", "data.jsonl", "data.csv", "data.parquet"])
def test_an_unreadable_file_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    line = error_of(
        capsys, "run", str(unreadable(tmp_path / name)), "--model", "scripted/0.5", "--store", store
    )
    assert name in line
    assert not (tmp_path / "runs.db").exists()


def test_an_unreadable_prompt_says_why(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = run_flags(folder / "questions.jsonl", NOWHERE, tmp_path / "runs.db")
    assert "No such file" in error_of(capsys, "run", *flags, "--system", f"@{tmp_path / 'none.txt'}")


def test_a_folder_in_place_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data.jsonl").mkdir()
    flags = run_flags(tmp_path / "data.jsonl", NOWHERE, tmp_path / "runs.db")
    assert "name one file in it" in error_of(capsys, "run", *flags)


def test_a_missing_file_and_a_missing_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = run_flags(tmp_path / "none.jsonl", NOWHERE, tmp_path / "runs.db")
    assert "none.jsonl" in error_of(capsys, "run", *flags)
    assert "--store" in error_of(capsys, "resume", "abc", "--store", f"sqlite:///{tmp_path / 'runs.db'}")
    assert "--store" in error_of(capsys, "runs", "--store", f"sqlite:///{tmp_path / 'runs.db'}")


def test_a_wrong_address_fails_in_seconds_and_the_run_can_go_on(
    folder: Path, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At its first attempt, which is said by naming none: six, with their pauses, would take 15 seconds."""
    store = tmp_path / "runs.db"
    gone = run_flags(folder / "questions.jsonl", NOWHERE, store)
    line = error_of(capsys, "run", *gone, "--display", "none")
    assert f"cannot reach {NOWHERE}" in line
    assert not re.search(r"after \d+ attempts", line)
    assert main(["runs", "--store", f"sqlite:///{store}", "--json"]) == 0
    (run,) = printed(capsys)
    assert (run["status"], run["calls"]) == ("failed", 0)
    resumed = ["resume", run["run_id"], "--store", f"sqlite:///{store}", "--base-url", url, "--json"]
    assert main([*resumed, "--eps", "0.2"]) == 0


def test_a_wrong_key_says_so_and_is_nowhere(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server echoes the key that it refuses."""
    with served(folder / "key.json", "--key", "another") as url:
        flags = run_flags(folder / "questions.jsonl", url, tmp_path / "runs.db")
        done = call("run", *flags, "--display", "plain", OPENAI_API_KEY=SECRET)
        monkeypatch.setenv("OPENAI_API_KEY", "another")
        assert main(["run", *replacing(flags, "--eps", "0.2")]) == 0
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(
        f"error: {url} refuses the API key (401); set OPENAI_API_KEY"
    )
    assert SECRET not in done.stderr
    assert not any(SECRET.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_a_locked_database_says_so(
    folder: Path, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "runs.db"
    assert go(folder, url, store, eps=0.3) == 0
    capsys.readouterr()
    lock = sqlite3.connect(store)
    lock.execute("begin exclusive")
    flags = run_flags(folder / "questions.jsonl", url, store, seed=1)
    flags[flags.index("--store") + 1] += "?timeout=0.1"
    assert "locked by another process" in error_of(capsys, "run", *flags)
    lock.close()
    assert go(folder, url, store, seed=1, eps=0.3) == 0


def test_a_full_disk_loses_nothing_committed(
    folder: Path, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SQLite's page limit stands in for the disk: it fails in the same way."""
    from cereval.store import database

    store = tmp_path / "runs.db"
    flags = run_flags(folder / "questions.jsonl", url, store, eps=0.05)
    assert go(folder, url, store, max_calls=10) == 3
    capsys.readouterr()
    original = database._prepare

    def small(connection: Any, record: Any) -> None:
        original(connection, record)
        connection.execute("pragma max_page_count=50")

    monkey = pytest.MonkeyPatch()
    monkey.setattr(database, "_prepare", small)
    try:
        line = error_of(capsys, "run", *flags, "--display", "none")
    finally:
        monkey.undo()
    assert "disk is full" in line
    assert main(["run", *flags]) == 0


def test_a_number_beyond_all_floats_in_a_task_file_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "task.yaml").write_text(f"data: d.jsonl\nmodel: scripted/0.5\nmax_usd: {10**400}\n")
    assert main(["run", str(tmp_path / "task.yaml")]) == 1
    assert "must be a number > 0" in capsys.readouterr().err
