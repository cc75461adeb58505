"""Have one machine play others: a worker process for every kernel of OpenBLAS, number of threads and set of features.

OpenBLAS and numpy choose their code by the processor when they are loaded, and environment variables overrule the
choice. So a process that is started with these variables adds numbers in the order of another machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any, TypeVar

Job = TypeVar("Job")
Answer = TypeVar("Answer")

CORES = ("SkylakeX", "Haswell", "Prescott")
VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", "NPY_DISABLE_CPU_FEATURES")


@dataclass(frozen=True, slots=True)
class Kernel:
    """Name a machine to be played: the core that OpenBLAS takes, its threads, and what numpy may not use.

    >>> Kernel("Haswell", 2).name
    'Haswell x2'
    """

    core: str
    threads: int = 1
    plain: bool = False
    """Whether numpy does without the vector instructions of this processor."""

    @property
    def name(self) -> str:
        return f"{self.core}{' without SIMD' if self.plain else ''} x{self.threads}"

    @property
    def environment(self) -> dict[str, str]:
        shared = {"OPENBLAS_CORETYPE": self.core, "OPENBLAS_NUM_THREADS": str(self.threads)}
        return {**shared, "NPY_DISABLE_CPU_FEATURES": " ".join(vector_features())} if self.plain else shared


PLAIN = Kernel("Haswell", plain=True)
EVERY = (*(Kernel(core, threads) for threads in (1, 2) for core in CORES), PLAIN)


TRAVELLED = (*(Kernel(core) for core in CORES), PLAIN)
"""The machines that runs travel between, in turn."""


def take_turns(seed: int) -> tuple[Kernel, Kernel, Kernel]:
    """Choose the machines that begin, go on and check; those that begin have two threads, the others one.

    >>> [kernel.name for kernel in take_turns(3)]
    ['Haswell without SIMD x1', 'SkylakeX x1', 'Haswell x1']
    >>> take_turns(1)[0].name
    'Haswell x2'
    """
    first, second, third = (TRAVELLED[(seed + place) % len(TRAVELLED)] for place in range(3))
    return (first if first.plain else Kernel(first.core, 2)), second, third


def vector_features() -> list[str]:
    """List the features of this processor that numpy uses and can do without."""
    built: Any = import_module("numpy._core._multiarray_umath")
    return [name for name in built.__cpu_dispatch__ if built.__cpu_features__[name]]


def describe_kernel(_: object = None) -> str:
    """Name the code that this process has loaded: for the reader to see that kernels do differ."""
    if find_spec("threadpoolctl") is None:
        return "threadpoolctl is not installed: not checked"
    loaded = import_module("threadpoolctl").threadpool_info()
    blas = [one for one in loaded if one["user_api"] == "blas"]
    return ", ".join(sorted({f"{one['architecture']}, {one['num_threads']} threads" for one in blas}))


def load_everything() -> None:
    """Import what most commands need: it is there in every fork of this process."""
    for name in (
        "numpy",
        "scipy.special",
        "scipy.sparse",
        "cereval.cli.main",
        "cereval.api",
        "cereval.report",
    ):
        import_module(name)


@contextmanager
def set_environment(kernel: Kernel) -> Iterator[None]:
    """Have processes that are started meanwhile play a machine."""
    before = {name: os.environ.pop(name, None) for name in VARIABLES}
    os.environ.update(kernel.environment)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


class Machines:
    """Keep one worker process for each kernel; the workers import everything once and keep their data."""

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self.kernels = tuple(kernels)
        self._workers: dict[Kernel, ProcessPoolExecutor] = {}

    def __enter__(self) -> Machines:
        for kernel in self.kernels:
            worker = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
            with set_environment(kernel):
                worker.submit(load_everything).result()
            self._workers[kernel] = worker
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.shutdown(cancel_futures=True)

    def ask(self, kernel: Kernel, work: Callable[[Job], Answer], job: Job) -> Answer:
        """Do one piece of work on one machine."""
        return self._workers[kernel].submit(work, job).result()

    def ask_all(self, work: Callable[[Job], Answer], jobs: Sequence[Job]) -> dict[Kernel, list[Answer]]:
        """Do the same work on every machine, as many machines at a time as there are cores."""

        def work_through(kernel: Kernel) -> list[Answer]:
            return list(self._workers[kernel].map(work, jobs))

        with ThreadPoolExecutor(os.cpu_count() or 1) as hands:
            return dict(zip(self.kernels, hands.map(work_through, self.kernels), strict=True))
