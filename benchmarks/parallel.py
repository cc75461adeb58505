"""Many independent runs on all cores, with progress on stderr. Needs nothing but the standard library."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

Job = TypeVar("Job")
Answer = TypeVar("Answer")

EVERY_S = 30.0
"""Between two lines of progress."""
CORES = os.cpu_count() or 1
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def run_all(
    work: Callable[[Job], Answer], jobs: Sequence[Job], label: str, cores: int = CORES
) -> list[Answer]:
    """`work` on every job, in the order of the jobs; the answers do not depend on the number of cores."""
    os.environ.update(ONE_THREAD)
    found: list[Answer] = []
    shown = time.monotonic()
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        for answer in pool.map(work, jobs):
            found.append(answer)
            if time.monotonic() - shown > EVERY_S:
                shown = time.monotonic()
                print(f"{label}: {len(found):,} of {len(jobs):,}", file=sys.stderr, flush=True)
    return found
