"""Say where many independent calls are carried out besides this machine's cores: as tasks of a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from cereval.errors import Misuse, shown
from cereval.imports import optional

Value = TypeVar("Value")

PLACES = ("local", "ray")
RETRIES = 5
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""One thread in each process is fastest where there are as many processes as cores."""

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
        try:
            ray.init(
                log_to_driver=False,
                logging_level="ERROR",
                **({} if os.environ.get("RAY_ADDRESS") else started),
            )
        except Exception as error:  # Ray's own, of no class in particular
            ray.shutdown()
            raise Misuse(f"Ray cannot be reached or started here: {shown(str(error), 300)}") from None
    try:
        yield ray
    finally:
        if mine:
            ray.shutdown()


def ray_results(
    calls: Sequence[Callable[[], Value]], cores: int | None = None
) -> Iterator[tuple[int, Value]]:
    """Carry out calls as Ray tasks; yield the place and the value of each, in the order in which they end."""
    with cluster(cores) as ray:
        task = ray.remote(max_retries=RETRIES, runtime_env={"env_vars": ONE_THREAD})(_called)
        out = {task.remote(call): place for place, call in enumerate(calls)}
        while out:
            ended, _ = ray.wait(list(out), num_returns=1)
            yield out.pop(ended[0]), ray.get(ended[0])


def _called(call: Callable[[], Value]) -> Value:
    return call()
