"""Workers on a Ray cluster: one Ray task is one run. Ray schedules, and gives a killed worker's run to another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cereval.errors import Misuse, shown
from cereval.fleet.drive import Row
from cereval.fleet.work import Job, carried_out, lost
from cereval.imports import optional

RETRIES = 50
"""How often Ray gives a run out again whose worker or machine died; each time it goes on where it was."""

CORES = 0.25
"""Of a core, for one run: it waits for its model most of the time."""

TICK_S = 0.5

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
            ended, _ = self.ray.wait(list(self._out), num_returns=1, timeout=TICK_S)
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
