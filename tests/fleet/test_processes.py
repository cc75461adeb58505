"""Workers of fleets are processes: killed, orphaned, dying again and again, many at one server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from benchmarks.model_server import FaultyModel, Handler, serve_locally
from tests.fleet.fleets import certificates, fleet_of, here, paid_for

import cereval
from cereval.errors import Busy
from cereval.fleet import workers
from cereval.fleet.file import read_fleet
from cereval.fleet.work import Job
from cereval.store.base import opened_store

WAITING = """
import itertools, json, time, zlib
from pathlib import Path

turns = itertools.count(1)


def weak(messages):
    question = messages[-1]["content"]
    return said(question, 6)


def strong(messages):
    question = messages[-1]["content"]
    return said(question, 7)


def said(question, tenths):
    while next(turns) > 20 and not Path({go!r}).exists():
        time.sleep(0.01)
    left, right = question.split(" = ")[0].split(" + ")
    return str(int(left) + int(right)) if zlib.crc32(question.encode()) % 10 < tenths else "none"
"""


def test_killed_workers_change_nothing(
    data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The models answer twenty questions in each process, then wait until a worker was killed."""
    calm, stormy = (f"sqlite:///{tmp_path}/{name}.db" for name in ("calm", "stormy"))
    (tmp_path / "waiting.py").write_text(WAITING.format(go=str(tmp_path / "go")))
    models = [f"python:{tmp_path}/waiting.py:{name}" for name in ("weak", "strong")]
    (tmp_path / "go").touch()
    with monkeypatch.context() as in_this_process:
        in_this_process.setattr(workers, "processes", here)
        undisturbed = cereval.run_fleet(fleet_of(data, models=models), store=calm)
    assert (undisturbed.exit_code, len(undisturbed.runs)) == (0, 4)
    (tmp_path / "go").unlink()
    started: list[Any] = []
    monkeypatch.setattr(
        workers, "_started", lambda make=workers._started: started.append(make()) or started[-1]
    )

    def kill() -> None:
        with opened_store(stormy, create=True) as store:
            while len(started) < 2 or sum(run.answers for run in store.runs()) < 20:
                time.sleep(0.01)
        os.kill(started[-1].pid, signal.SIGKILL)
        (tmp_path / "go").touch()

    thread = threading.Thread(target=kill)
    thread.start()
    disturbed = cereval.run_fleet(fleet_of(data, models=models, workers=2, connections=1), store=stormy)
    thread.join()
    assert len(started) == 3
    assert certificates(stormy) == certificates(calm)
    assert [run["run_id"] for run in disturbed.runs] == [run["run_id"] for run in undisturbed.runs]
    assert [run["history"] for run in disturbed.runs] == [0, 0, 1, 1]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_fleet_that_is_ended_asks_no_more_and_has_no_double(
    end: signal.Signals, data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Schedulers end what they run by SIGTERM, then by SIGKILL; its workers must not go on paying."""
    (tmp_path / "slow.py").write_text(
        "import time\n\n\ndef answer(question):\n    time.sleep(0.5)\n"
        "    print(question, file=open('calls.txt', 'a'))\n    return '7'\n"
    )
    monkeypatch.chdir(tmp_path)
    fleet = fleet_of(data[:1], models=["python:slow.py:answer"], eps=0.02, connections=2)
    Path("fleet.yaml").write_text(json.dumps(fleet | {"store": "sqlite:///runs.db"}))
    begun = subprocess.Popen(
        [sys.executable, "-m", "cereval", "fleet", "fleet.yaml", "--trust"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )

    def calls() -> int:
        return len(Path("calls.txt").read_text().splitlines()) if Path("calls.txt").exists() else 0

    while calls() < 4 and begun.poll() is None:
        time.sleep(0.05)
    try:
        with pytest.raises(Busy, match="another process works on this fleet now"):
            cereval.run_fleet(fleet, store="sqlite:///runs.db")
    finally:
        by_then = calls()
        begun.send_signal(end)
        # To the end of its workers, which can ask no more then: they write to the same pipe.
        _, errors = begun.communicate(timeout=300)
    at_the_end = calls()
    # Four calls a second, so that the news may take ten seconds; all 500 would take two minutes.
    assert at_the_end <= by_then + 40
    assert "Traceback" not in errors
    with opened_store("sqlite:///runs.db") as store:
        run = store.runs()[0]
    assert (run.status, run.answers) == ("interrupted", at_the_end)


def test_a_worker_whose_driver_is_gone_before_it_has_begun_asks_nobody(
    data: list[str], tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\n\n\ndef answer(question):\n    time.sleep(0.5)\n"
        f"    print(question, file=open('{tmp_path}/calls.txt', 'a'))\n    return '7'\n"
    )
    entry = read_fleet(fleet_of(data[:1], models=[f"python:{tmp_path}/slow.py:answer"], eps=0.02)).entries[0]
    job = Job(entry, f"sqlite:///{tmp_path}/runs.db", "fleet:x", 0.0, {}, at=time.time())
    line = json.dumps(job.as_dict()) + "\n"
    subprocess.run(
        [sys.executable, "-m", "cereval.fleet.workers"], input=line, text=True, timeout=300, check=False
    )
    calls = tmp_path / "calls.txt"
    assert not calls.exists() or len(calls.read_text().splitlines()) <= 20, "those in flight"


def test_a_worker_that_dies_again_and_again_has_taken_what_it_took(
    data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "ATTEMPTS", 2)
    (tmp_path / "dies.py").write_text(
        "import itertools, os\nturns = itertools.count()\n\n\n"
        "def answer(question):\n    return '7' if next(turns) < 20 else os._exit(3)\n"
    )
    models = [{"model": f"python:{tmp_path}/dies.py:answer", "priority": 1}, "scripted/0.6"]
    url = f"sqlite:///{tmp_path}/runs.db"
    fleet = fleet_of(data[:1], models=models, max_calls=200, connections=1, eps=0.02)
    done = cereval.run_fleet(fleet, store=url)
    assert "its worker died 2 times" in done.runs[0]["error"]
    # Two workers with twenty answers each, of which a death loses up to three that are not written yet.
    assert done.runs[0]["calls"] >= 2 * (20 - 3)
    assert (done.calls, done.asked) == (200, paid_for(url))


class Counting(Handler):
    """Notes how many requests were there at once, and answers none before there were as many as there may be."""

    most = 0

    def __init__(self, model: FaultyModel, allowed: int) -> None:
        super().__init__(model)
        self.allowed, self.full = allowed, asyncio.Event()

    async def _response(self, *given: Any) -> bytes | None:
        self.most = max(self.most, self.busy)
        if self.most >= self.allowed:
            self.full.set()
        await asyncio.wait_for(self.full.wait(), 60)
        return await super()._response(*given)


@contextmanager
def server(key: dict[str, str], allowed: int) -> Iterator[tuple[Counting, str]]:
    """A scripted server in a thread of its own."""
    handler, loop = Counting(FaultyModel(key, 0.7, delay_s=0.01), allowed), asyncio.new_event_loop()
    address, done = loop.create_future(), asyncio.Event()

    async def serve() -> None:
        async with serve_locally(handler) as url:
            address.set_result(url)
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    while not address.done():
        time.sleep(0.01)
    yield handler, address.result()
    loop.call_soon_threadsafe(done.set)
    thread.join()
    loop.close()


def test_limits_hold_across_processes(data: list[str], tmp_path: Path) -> None:
    lines = [line for path in data for line in Path(path).read_text(encoding="utf-8").splitlines()]
    key = {row["ask"]: row["gold"] for row in map(json.loads, lines)}
    fleet = fleet_of(data, models=["openai/m"], eps=0.15, workers=2, history=False)
    with server(key, allowed=3) as (handler, url):
        done = cereval.run_fleet(
            {**fleet, "base_url": url, "limits": {"connections": 3}}, store=f"sqlite:///{tmp_path}/limited.db"
        )
    assert done.exit_code == 0
    # Each of the two runs keeps eight calls under way where it may.
    assert handler.most == 3
