"""Workers on this machine: processes that carry out one job after the other, and are replaced when they die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any

from cereval.fleet.drive import Row
from cereval.fleet.work import Job, carried_out, lost

ATTEMPTS = 4
"""How often a job is given out whose worker dies."""

TICK_S = 0.2

WORKER = (sys.executable, "-P", "-m", "cereval.fleet.local")
"""The command of a worker. -P: a file of the current folder must not stand in for a module."""


class Processes:
    """As many processes as `capacity`; each job is given to a free one."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._idle: list[subprocess.Popen[str]] = []
        self._busy: dict[int, subprocess.Popen[str]] = {}
        self._ended: Queue[tuple[Job, str, int]] = Queue()
        self._stopping = False

    def submit(self, job: Job, attempt: int = 1) -> None:
        process = self._idle.pop() if self._idle else _started()
        self._busy[job.entry.number] = process
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it died meanwhile, which the answer will show
            process.stdin.write(json.dumps(job.as_dict()) + "\n")
            process.stdin.flush()
        Thread(target=self._listen, args=(process, job, attempt), daemon=True).start()

    def _listen(self, process: subprocess.Popen[str], job: Job, attempt: int) -> None:
        assert process.stdout is not None
        self._ended.put((job, process.stdout.readline(), attempt))

    def next(self) -> tuple[int, Row]:
        while True:
            job, line, attempt = self._waited()
            process = self._busy.pop(job.entry.number)
            if line:
                self._idle.append(process)
                return job.entry.number, json.loads(line)
            code = _closed(process)
            if self._stopping:
                return job.entry.number, lost(job, interrupted=True, exit_code=3)
            if attempt == ATTEMPTS:
                error = f"its worker died {ATTEMPTS} times, at last with code {code}; repeating the command goes on"
                return job.entry.number, lost(job, error=error, exit_code=1)
            self.submit(job, attempt + 1)

    def _waited(self) -> tuple[Job, str, int]:
        while True:
            # With a timeout: a wait without one is deaf to Ctrl-C on some systems.
            with suppress(Empty):
                return self._ended.get(timeout=TICK_S)

    def interrupt(self) -> None:
        self._stopping = True
        for process in self._busy.values():
            process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """End all processes; one that is at work is killed: what it had stored is safe."""
        for process in self._busy.values():
            process.kill()
        for process in (*self._idle, *self._busy.values()):
            _closed(process)


@contextmanager
def processes(capacity: int) -> Iterator[Processes]:
    workers = Processes(capacity)
    try:
        yield workers
    finally:
        workers.close()


def _started() -> subprocess.Popen[str]:
    # A session of its own: Ctrl-C reaches the driver alone, which passes it on.
    return subprocess.Popen(
        WORKER,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _closed(process: subprocess.Popen[str]) -> int:
    """Hang up on a process, which ends it, and wait for that; return its code."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    code = process.wait()
    process.stdout.close()
    return code


def serve() -> None:
    """Carry out the jobs on stdin, one a line, and answer each with its row on stdout.

    Where the driver is gone, however that came about, a run under way ends as at Ctrl-C: nobody would pay for more.
    """
    told, sys.stdout = sys.stdout, sys.stderr  # what scorers and models print must not be taken for an answer
    lines: Queue[str] = Queue()
    at_work, gone = Event(), Event()
    Thread(target=_read, args=(lines, at_work, gone), daemon=True).start()
    while line := lines.get():
        at_work.set()
        if gone.is_set():
            return
        row: dict[str, Any] = carried_out(Job.from_dict(json.loads(line)))
        at_work.clear()
        told.write(json.dumps(row) + "\n")
        told.flush()


def _read(lines: Queue[str], at_work: Event, gone: Event) -> None:
    """Pass the jobs on, and at the end, when the driver has hung up, stop what is under way."""
    for line in sys.stdin:
        lines.put(line)
    gone.set()
    lines.put("")
    if at_work.is_set():
        os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, BrokenPipeError):
        serve()
