"""Runs tasks on all cores with a progress bar; whatever finished before an interruption is kept."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Any

from cereval.experiments.base import Task
from cereval.experiments.rows import RowFile

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def run_tasks(tasks: Sequence[Task], file: RowFile, *, jobs: int, title: str, quiet: bool = False) -> None:
    """Every task once, its rows appended as soon as it is done; `jobs=0` runs them in this process."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet or not tasks) as bar:
        ticks = bar.add_task(title, total=len(tasks))
        for task, rows in _results(tasks, jobs):
            file.append(task.key, rows)
            bar.advance(ticks)


def _results(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, list[dict[str, Any]]]]:
    if jobs == 0 or not tasks:
        yield from ((task, task.run()) for task in tasks)
        return
    # Spawned, not forked: a fork would inherit BLAS threads, and one thread in each process is fastest here.
    with _single_threaded(), ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(task.run): task for task in tasks}
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # Whoever is impatient interrupts twice: nobody is left to wait for, and no worker outlives the command.
            for worker in active_children():
                worker.terminate()
            raise


@contextmanager
def _single_threaded() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
