"""Workers: processes on this machine, each of which carries out one job after the other and is replaced when it dies,
or tasks on a Ray cluster, where Ray gives a killed worker's run to another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

from cereval.errors import Misuse, shown
from cereval.fleet.drive import Row
from cereval.fleet.work import Job, carried_out, lost
from cereval.imports import optional

ATTEMPTS = 4
"""How often a job is given out whose worker dies."""

TICK_S, LOOK_S = 0.2, 0.5

WORKER = (sys.executable, "-P", "-m", "cereval.fleet.workers")
"""The command of a worker. -P: a file of the current folder must not stand in for a module."""


class Processes:
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


# -- on a Ray cluster --------------------------------------------------------------------------------------------------

RETRIES = 50
"""How often Ray gives a run out again whose worker or machine died; each time it goes on where it was."""

CORES = 0.25
"""Of a core, for one run: it waits for its model most of the time."""

SETTINGS = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_worker_niceness": "0"}
"""Of a cluster that is started here: its workers are as urgent as whoever started it, and not less than all else."""


@contextmanager
def cluster(cores: int | None = None) -> Iterator[Any]:
    """Ray, connected to the cluster that `RAY_ADDRESS` names or that is there already, else to one started here."""
    ray = optional("ray", "ray")
    mine = not ray.is_initialized()
    if mine:
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        started: dict[str, Any] = {"include_dashboard": False, "num_cpus": cores}
        # Ray searches the folder that it is started in for modules, before all others, in every worker.
        empty = TemporaryDirectory(prefix="cereval-ray-", ignore_cleanup_errors=True)
        try:
            with chdir(empty.name):
                ray.init(
                    log_to_driver=False,
                    logging_level="ERROR",
                    **({} if os.environ.get("RAY_ADDRESS") else started),
                )
        except Exception as error:  # Ray's own, of no class in particular
            ray.shutdown()
            empty.cleanup()
            raise Misuse(f"Ray cannot be reached or started here: {shown(str(error), 300)}") from None
    try:
        yield ray
    finally:
        if mine:
            ray.shutdown()
            empty.cleanup()


def _carried_out(job: dict[str, Any], folder: str) -> Row:
    if Path(folder).is_dir():
        os.chdir(folder)
    return carried_out(Job.from_dict(job))


class RayTasks:
    def __init__(self, ray: Any, capacity: int) -> None:
        self.ray, self.capacity = ray, capacity
        self._task = ray.remote(num_cpus=CORES, max_retries=RETRIES, retry_exceptions=False)(_carried_out)
        self._out: dict[Any, Job] = {}
        self._stopping = False
        self._folder = str(Path.cwd())

    def submit(self, job: Job) -> None:
        name = f"{job.entry.model} on {job.entry.data}"
        self._out[self._task.options(name=name).remote(job.as_dict(), self._folder)] = job

    def next(self) -> tuple[int, Row]:
        while True:
            ended, _ = self.ray.wait(list(self._out), num_returns=1, timeout=LOOK_S)
            if ended:
                job = self._out.pop(ended[0])
                return job.entry.number, self._row(ended[0], job)

    def _row(self, task: Any, job: Job) -> Row:
        try:
            return dict(self.ray.get(task))
        except self.ray.exceptions.RayError as error:
            row = lost(job, interrupted=self._stopping, exit_code=1)
            reason = str(error).strip().partition("\n")[0]
            return row if self._stopping else {**row, "error": f"Ray gave it up ({reason})"}

    def interrupt(self) -> None:
        """Cancel the tasks, as Ctrl-C would: what is in the store is safe."""
        self._stopping = True
        for task in self._out:
            self.ray.cancel(task, force=False)


@contextmanager
def ray_tasks(capacity: int | None) -> Iterator[RayTasks]:
    with cluster() as ray:
        cores = ray.cluster_resources().get("CPU", 1.0)
        yield RayTasks(ray, capacity or max(int(cores / CORES), 1))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, BrokenPipeError):
        serve()
