"""A locked, full, foreign, too new or killed database."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy.event import listen

from cereval.errors import InvalidInput, StoreError
from cereval.records import Draw
from cereval.store.base import Answer, open_store

WRITER = """
import sys
from cereval.records import Draw
from cereval.store.base import Answer, Store, open_store
store = open_store(sys.argv[1])
store.create_run("r", {}, "d", "m")
start = len(store.draws("r"))
for index in range(start, start + 100_000, 4):
    store.add_draws("r", [Draw(i, i, 0.5) for i in range(index, index + 4)])
    store.add_answers("r", [Answer(i, "t" * 100, score=0.5) for i in range(index, index + 4)])
    print(index + 4, flush=True)
"""


def refused(url: str) -> str:
    with pytest.raises(StoreError) as caught:
        open_store(url)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.slow
def test_what_was_reported_survives_kill_9(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    for round_ in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(3 + 7 * round_)]
            os.kill(process.pid, signal.SIGKILL)
            lines += process.stdout.readlines()
        reported = int([line for line in lines if line.endswith("\n")][-1])
        store = open_store(url)
        answers, draws = store.answers("r"), store.draws("r")
        store.close()
        assert len(answers) >= reported
        assert [answer.draw for answer in answers] == list(range(len(answers)))
        assert len(answers) <= len(draws) <= len(answers) + 4
        complete(url)


def complete(url: str) -> None:
    """Answers the draws that the killed process left open, as a resumed run would."""
    store = open_store(url)
    answered = {answer.draw for answer in store.answers("r")}
    store.add_answers("r", [Answer(d.index, score=0.5) for d in store.draws("r") if d.index not in answered])
    store.close()


BEGINNER = """
import sys
from cereval.store.base import open_store
print("ready", flush=True)
sys.stdin.readline()
store = open_store(sys.argv[1])
store.add_items("data", ({"id": str(n), "input": "x" * 50} for n in range(3000)))
store.create_run(sys.argv[2], {"format": 1}, "data", "m")
store.close()
"""


def test_many_processes_begin_on_new_data_at_once(tmp_path: Path) -> None:
    """On a server: tests/store/test_server.py."""
    url = f"sqlite:///{tmp_path}/runs.db"
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-W", "error", "-c", BEGINNER, url, f"{number:012x}"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(4)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [process.wait(300) for process in processes] == [0] * 4
    store = open_store(url)
    assert [item["id"] for item in store.items("data")] == [str(n) for n in range(3000)]
    assert len(store.plans("data")) == 4
    store.close()


def test_locked(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    open_store(f"sqlite:///{path}").close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    assert "locked by another process" in refused(f"sqlite:///{path}?timeout=0.05")
    holder.close()


def test_disk_full_loses_nothing_committed(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/runs.db")
    store.create_run("r", {}, "d", "m")
    store.add_draws("r", [Draw(0, 0, 1.0), Draw(1, 1, 1.0)])
    store.add_answers("r", [Answer(0, "small", score=1.0)])
    with store.engine.connect() as connection:  # type: ignore[attr-defined]
        connection.exec_driver_sql("PRAGMA max_page_count = 60")
    with pytest.raises(StoreError, match="disk is full; free some space and resume"):
        store.add_answers("r", [Answer(1, "x" * 10**6, score=1.0)])
    assert [answer.text for answer in store.answers("r")] == ["small"]
    store.close()


def test_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_text("hello " * 1000)
    assert "is not a database" in refused(f"sqlite:///{tmp_path}/runs.db")


@pytest.mark.parametrize("reading", [False, True])
def test_one_byte_is_no_database_and_none_is(tmp_path: Path, reading: bool) -> None:
    file = tmp_path / "runs.db"
    file.write_text("x")
    with pytest.raises(StoreError, match="is not a database"):
        open_store(f"sqlite:///{file}", reading=reading)
    assert file.read_text() == "x"
    file.write_text("")
    open_store(f"sqlite:///{file}").close()


def test_no_directory(tmp_path: Path) -> None:
    assert "check that its directory exists" in refused(f"sqlite:///{tmp_path}/no/runs.db")


def test_another_programs_database(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE photos (id INTEGER)")
    connection.close()
    assert "another program" in refused(f"sqlite:///{tmp_path}/other.db")


def test_another_schema(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path}/runs.db").close()
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("INSERT INTO cereval_schema VALUES (99, 'later')")
    connection.close()
    assert "has the schema 99 of another version" in refused(f"sqlite:///{tmp_path}/runs.db")


@pytest.mark.parametrize("url", ["runs?.db", "runs.db?mode=ro", "runs.db?timeout=1&x", "runs.db?"])
def test_no_part_of_an_address_is_dropped(url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no settings but timeout=SECONDS"):
        open_store(f"sqlite:///{tmp_path}/{url}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("url", ["runs.db", "mysql://x:hunter2@y/z", "", "sqlite:/x"])
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises((InvalidInput, StoreError)) as caught:
        open_store(url)
    assert "hunter2" not in str(caught.value)


def test_a_password_is_never_shown() -> None:
    pytest.importorskip("psycopg", reason="pip install 'cereval[postgres]'")
    message = refused("postgresql://me:hunter2@127.0.0.1:1/x?connect_timeout=2")
    assert "hunter2" not in message
    assert "check the address" in message


def test_many_answers_are_one_commit(tmp_path: Path) -> None:
    """Which is what takes the time of a write; `benchmarks.throughput` has answers a second."""
    store = open_store(f"sqlite:///{tmp_path}/runs.db")
    store.create_run("r", {}, "d", "m")
    store.add_draws("r", [Draw(i, i, 0.5) for i in range(51)])
    commits: list[object] = []
    listen(store.engine, "commit", commits.append)  # type: ignore[attr-defined]
    for answers in (range(1), range(1, 51)):
        store.add_answers("r", [Answer(i, "An answer of some length. " * 10, score=0.5) for i in answers])
    assert len(commits) == 2
    store.close()
