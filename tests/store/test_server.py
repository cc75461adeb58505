"""PostgreSQL as a team's store: many writers, restarts, lost connections, leases."""

from __future__ import annotations

import json
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from benchmarks.postgres import Cluster
from sqlalchemy import text

import cereval
from cereval.errors import Busy, StoreError, Unreachable
from cereval.records import Draw
from cereval.store import database, locks
from cereval.store.base import Answer, open_store
from cereval.store.database import AGAIN
from cereval.store.sql import SqlStore

ITEMS = [{"id": str(number), "input": f"question {number}"} for number in range(500)]


def opened(url: str) -> SqlStore:
    store = open_store(url)
    assert isinstance(store, SqlStore)
    return store


def cut(store: SqlStore) -> None:
    """End every other connection to the store's database, as a failing network would."""
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    with store.engine.begin() as connection:
        connection.execute(text(f"{query} AND pid <> pg_backend_pid()"))


def test_eight_writers_begin_on_new_data_at_once(database: str) -> None:
    together = threading.Barrier(8)

    def begin(number: int) -> int:
        together.wait()
        store = opened(database)  # all of them try to create the tables
        store.add_items("sha256:d", ITEMS)
        run = f"r{number}"
        store.create_run(run, {}, "sha256:d", "m")
        with store.hold(run):
            for start in range(0, 100, 10):
                store.add_draws(run, [Draw(i, i, 0.5) for i in range(start, start + 10)])
                store.add_answers(run, [Answer(i, "a", score=1.0) for i in range(start, start + 10)])
        count = len(store.answers(run)), len(store.items("sha256:d"))
        store.close()
        return 1000 * count[0] + count[1]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(begin, range(8))) == [100_500] * 8


def test_a_lost_connection_is_waited_for(database: str) -> None:
    store, other = opened(database), opened(database)
    store.create_run("r", {}, "d", "m")
    with store.hold("r"):
        for index in range(5):
            store.add_draws("r", [Draw(index, index, 0.5)])
            cut(other)
            store.add_answers("r", [Answer(index, score=1.0)])
        cut(other)
        store.mark("r", "running")
        assert store.run("r").status == "running", "the run is held again"
    assert len(store.answers("r")) == 5
    store.close()
    other.close()


def test_what_was_committed_before_the_news_was_lost_is_not_written_twice(database: str) -> None:
    store = opened(database)
    store.create_run("r", {}, "d", "m")
    mark = AGAIN.set(True)
    try:
        for _ in range(2):
            store.add_draws("r", [Draw(0, 0, 0.5)])
            store.add_answers("r", [Answer(0, score=1.0)])
            store.finish("r", {"estimate": 0.5})
    finally:
        AGAIN.reset(mark)
    assert (len(store.draws("r")), len(store.answers("r")), len(store.certificates("r"))) == (1, 1, 1)
    store.close()


WAITING = """
import itertools, time
from pathlib import Path

turns = itertools.count(1)


def answer(messages):
    question = messages[-1]["content"]
    while next(turns) > 100 and not Path({stopped!r}).exists():
        time.sleep(0.01)
    number = int(question.split()[0])
    return str(number + 1 if number * 7919 % 10 < 7 else 0)
"""


@pytest.mark.slow
def test_a_run_goes_on_through_a_restart(
    frail_server: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The model answers a hundred questions, and no more until the server was stopped."""
    stopped = tmp_path / "stopped"
    (tmp_path / "waiting.py").write_text(WAITING.format(stopped=str(stopped)))
    questions = [{"question": f"{n} + 1 =", "answer": str(n + 1)} for n in range(3000)]
    data = tmp_path / "q.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in questions), encoding="utf-8")
    model = f"python:{tmp_path}/waiting.py:answer"
    settings = {"model": model, "eps": 0.03, "seed": 5, "scorer": "exact"}
    stopped.touch()
    calm = cereval.evaluate(data, store=f"sqlite:///{tmp_path}/calm.db", **settings)
    stopped.unlink()
    url = frail_server.database()
    watcher = opened(url)
    restarted = threading.Event()

    def restart() -> None:
        while not any(run.answers > 50 for run in watcher.runs()):
            time.sleep(0.01)
        frail_server.stop("fast")
        stopped.touch()
        while "waiting for it" not in caplog.text:
            time.sleep(0.01)
        frail_server.start()
        restarted.set()

    thread = threading.Thread(target=restart)
    thread.start()
    with caplog.at_level(logging.WARNING, "cereval"):
        stormy = cereval.evaluate(data, store=url, **settings)
    thread.join()
    assert restarted.is_set()
    assert "waiting for it" in caplog.text
    assert stormy.certificate == calm.certificate
    assert len(stormy.answers()) == stormy.calls
    watcher.close()


def test_a_server_that_stays_away_ends_the_wait(
    frail_server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PATIENCE_S", 0.3)
    store = opened(frail_server.database())
    frail_server.stop()
    try:
        with pytest.raises(Unreachable, match="cannot be reached"):
            store.create_run("r", {}, "d", "m")
    finally:
        frail_server.start()
    monkeypatch.setattr(database, "PATIENCE_S", 60.0)
    assert store.create_run("r", {}, "d", "m").status == "created", "a pool of dead connections recovers"
    store.close()


def test_who_lost_a_run_to_another_writes_nothing_more(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "PATIENCE_S", 0.2)
    first, second = opened(database), opened(database)
    first.create_run("r", {}, "d", "m")
    with first.hold("r"):
        first.add_draws("r", [Draw(0, 0, 0.5)])
        with pytest.raises(Busy, match="another process works on run r now"), second.hold("r"):
            pass
        cut(second)
        monkeypatch.setattr(locks, "PATIENCE_S", 60.0)
        with second.hold("r"):  # the lock went with the connection, as soon as the server has noticed
            monkeypatch.setattr(locks, "PATIENCE_S", 0.2)
            with pytest.raises(Busy, match="another process"):
                first.add_answers("r", [Answer(0, score=1.0)])
            second.add_answers("r", [Answer(0, score=0.0)])
        with pytest.raises(Busy, match="took over run r"):
            first.mark("r", "running")
    assert [answer.score for answer in first.answers("r")] == [0.0]
    first.close()
    second.close()


def test_a_missing_database_and_a_refused_user_are_told_apart(frail_server: Cluster) -> None:
    with pytest.raises(StoreError, match="does not exist; create the database first"):
        open_store(frail_server.url.replace("/postgres?", "/nowhere?"))
    with pytest.raises(StoreError, match="refuses the user or the password"):
        open_store(frail_server.url.replace("tester@", "stranger:hunter2@"))
    rules = frail_server.folder / "data" / "pg_hba.conf"
    trusting = rules.read_text()
    rules.write_text("local all all scram-sha-256\n")
    frail_server.stop("fast")
    frail_server.start()
    try:
        with pytest.raises(StoreError, match="refuses the user or the password") as caught:
            open_store(frail_server.url.replace("tester@", "tester:hunter2@"))
        assert "hunter2" not in str(caught.value)
    finally:
        rules.write_text(trusting)
        frail_server.stop("fast")
        frail_server.start()
