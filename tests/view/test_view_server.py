"""The server under load: without a database, without free files."""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from shown import TOKEN, begin, client, go_on, opened, questions
from starlette.testclient import TestClient

from cereval.cli.main import main
from cereval.errors import Unreachable
from cereval.store.sql import SqlStore
from cereval.view import app
from cereval.view.access import Keys

VIEW = "ulimit -n {files}; exec {python} -m cereval view --store {url} --port 0 --no-browser"


@contextlib.contextmanager
def serving(folder: Path, url: str, files: int) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = VIEW.format(files=files, python=sys.executable, url=url)
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            ["sh", "-c", command],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "CEREVAL_VIEW_TOKEN": TOKEN},
        )
        assert process.stdout is not None
        found = re.search(r":(\d+)/\?token=", process.stdout.readline())
        assert found is not None
        try:
            yield process, int(found[1])
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def ask(port: int, path: str) -> socket.socket:
    """Begin a request and wait for nothing; without a path say nothing at all."""
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex(("127.0.0.1", port))
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    with contextlib.suppress(OSError):
        connection.sendall(head.encode() if path else b"")
    return connection


def test_open_pages_do_not_use_up_the_files_of_the_server(tmp_path: Path) -> None:
    """A hundred pages that listen for news, and a hundred connections that say nothing."""
    store = opened(tmp_path)
    go_on(begin(store, questions(20)), store, most=4)
    store.close()
    with serving(tmp_path, f"sqlite:///{tmp_path}/runs.db", files=64) as (process, port):
        for path in ("/events", ""):
            with contextlib.ExitStack() as stack:
                connections = [stack.enter_context(contextlib.closing(ask(port, path))) for _ in range(100)]
                if path:
                    assert select.select(connections[-1:], [], [], 60)[0], (
                        "the last one in the queue is answered"
                    )
                else:
                    time.sleep(1.5)  # where no file is free, asyncio tries to accept again every second
                assert process.poll() is None
            end, code = time.monotonic() + 60, 0
            while code != 200 and time.monotonic() < end:
                with contextlib.suppress(httpx.HTTPError):
                    code = httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=1).status_code
            assert code == 200
    assert (tmp_path / "stderr").stat().st_size < 10_000, (tmp_path / "stderr").read_text()[:2000]


def test_more_event_streams_than_allowed_are_refused(tmp_path: Path) -> None:
    store = opened(tmp_path)
    made = app.make_app(store, str(store.address), keys=Keys(TOKEN), most_streams=0)
    guest = TestClient(made, base_url="http://127.0.0.1", headers={"authorization": f"Bearer {TOKEN}"})
    answer = guest.get("/events")
    assert (answer.status_code, "too many pages are open" in answer.text) == (503, True)
    store.close()


def test_health_is_told_while_the_database_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every thread of the server may wait for the database, and none of them does for long."""
    patience: list[bool] = []
    monkeypatch.setattr(app, "serve", lambda store, *_, **__: patience.append(store.patient))
    store = SqlStore.open(f"sqlite:///{tmp_path}/runs.db", patient=False)
    assert main(["view", "--store", str(store.address)]) == 0
    assert patience == [False]
    visitor = client(store)
    assert visitor.get("/").status_code == 200

    waiting, told = threading.Semaphore(0), threading.Event()

    @contextlib.contextmanager
    def away(_: object) -> Iterator[None]:
        waiting.release()
        told.wait(60)
        raise Unreachable(
            "postgresql://host/runs cannot be reached; check the address and that the server runs"
        )
        yield

    monkeypatch.setattr(type(store), "reading", away)
    with visitor, ThreadPoolExecutor(45) as pool:
        pages = [pool.submit(visitor.get, "/trend") for _ in range(45)]
        assert all(waiting.acquire(timeout=60) for _ in range(40)), "as many as there are threads for"
        assert visitor.get("/healthz").status_code == 200
        told.set()
        assert {page.result().status_code for page in pages} == {503}
    store.close()
