"""A run is held by one process, and by none once that has died."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import cereval
from cereval.errors import Busy, StoreError
from cereval.runner import run as run_module
from cereval.store import locks
from cereval.store.base import Store, open_store

HOLDER = """
import sys, time
from cereval.store.base import open_store
store = open_store(sys.argv[1])
with store.hold("r"):
    store.mark("r", "running")
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "PATIENCE_S", 0.1)


@contextmanager
def holder(url: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", HOLDER, url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def within_seconds(most: float, holds_now: Callable[[], bool]) -> bool:
    """A server hears of a killed client a little later than the process that killed it."""
    end = time.monotonic() + most
    while not (held := holds_now()) and time.monotonic() < end:
        time.sleep(0.02)
    return held


def test_a_killed_process_lets_go(store: Store, url: str) -> None:
    if url == "sqlite://":
        pytest.skip("a database in memory has one process")
    store.create_run("r", {}, "d", "m")
    store.create_run("other", {}, "d", "m")
    with holder(url) as process:
        assert store.run("r").status == "running"
        with pytest.raises(StoreError, match="another process works on run r now"), store.hold("r"):
            pass
        with store.hold("other"):
            store.mark("other", "running")
            assert [run.status for run in store.runs()] == ["running", "running"]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert within_seconds(
            60, lambda: [run.status for run in store.runs()] == ["interrupted", "interrupted"]
        )
    with store.hold("r"):
        assert store.run("r").status == "running"
    assert store.run("r").status == "interrupted"
    store.mark("r", "finished")
    assert store.run("r").status == "finished"


def test_what_breaks_lets_go(store: Store) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError, match="broke"), store.hold("r"):
            raise RuntimeError("broke")


def test_no_file_stays(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/runs.db")
    with store.hold("r"):
        assert list(tmp_path.glob("*-held-*"))
    assert not list(tmp_path.glob("*-held-*"))
    store.close()


def test_a_lock_on_a_file_that_was_removed_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = locks._lock(path)
    assert first is not None
    late = os.open(path, os.O_RDWR)
    path.unlink()
    os.close(first)
    assert not locks._leads_to(path, late)
    os.close(late)


@pytest.mark.fresh
def test_the_same_command_begun_twice_at_once_is_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would find no run to go on with, draw a seed of its own, and pay for it."""
    together, find_run, refusals = threading.Barrier(2), run_module.planned, list[str]()

    def find_together(*args: object, **settings: object) -> object:
        found = find_run(*args, **settings)
        with suppress(threading.BrokenBarrierError):
            together.wait(1)
        return found

    monkeypatch.setattr(run_module, "planned", find_together)
    rows = [{"question": f"{n} + 1", "answer": f"{n + 1}"} for n in range(60)]
    url = f"sqlite:///{tmp_path}/runs.db"

    def run() -> None:
        try:
            cereval.evaluate(rows, model="scripted/0.7", eps=0.2, store=url)
        except Busy as error:
            refusals.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    store = open_store(url)
    assert [run.status for run in store.runs()] == ["finished"]
    assert refusals == ["another process works on the same command now; wait for it to end, or stop it first"]
    store.close()


def test_a_disk_without_locks_is_no_other_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(f"sqlite:///{tmp_path}/runs.db")
    store.create_run("r", {}, "d", "m")
    store.mark("r", "running")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(StoreError, match=r"without file locks \(No locks available\)"), store.hold("r"):
        pass
    assert [run.status for run in store.runs()] == ["interrupted"], "nobody can work on it"
    store.close()
