"""Many independent runs on all cores, with progress on stderr."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

from cereval.paper.figures import ONE_THREAD

Job = TypeVar("Job")
Answer = TypeVar("Answer")

CORES = os.cpu_count() or 1


def run_all(
    work: Callable[[Job], Answer], jobs: Sequence[Job], label: str, cores: int = CORES
) -> list[Answer]:
    """`work` on every job, in the order of the jobs; the answers do not depend on the number of cores."""
    os.environ.update(ONE_THREAD)
    with (
        ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        return list(progress.track(pool.map(work, jobs), total=len(jobs), description=label))
