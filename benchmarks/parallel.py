"""Many independent runs on all cores, or on a Ray cluster (`--on ray`), with progress on stderr."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

import click
from rich.console import Console
from rich.progress import Progress

from cereval.experiments.places import ONE_THREAD, PLACES, ray_results

Job = TypeVar("Job")
Answer = TypeVar("Answer")

CORES = os.cpu_count() or 1
CHOSEN = {"place": "local"}
"""Where this process has its runs carried out."""


def _choose(context: click.Context, option: click.Parameter, value: str) -> None:  # noqa: ARG001
    CHOSEN["place"] = value


ON = click.option(
    "--on",
    type=click.Choice(PLACES),
    default="local",
    callback=_choose,
    expose_value=False,
    help="All cores of this machine, or a Ray cluster.",
)
"""The option of every benchmark that calls `run_all`."""


def run_all(
    work: Callable[[Job], Answer], jobs: Sequence[Job], label: str, cores: int = CORES
) -> list[Answer]:
    """`work` on every job, in the order of the jobs; the answers do not depend on the number of cores."""
    if CHOSEN["place"] == "ray":
        with Progress(console=Console(stderr=True), transient=True) as progress:
            ended = ray_results([partial(work, job) for job in jobs], cores)
            found = dict(progress.track(ended, total=len(jobs), description=label))
        return [found[place] for place in range(len(jobs))]
    os.environ.update(ONE_THREAD)
    with (
        ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        return list(progress.track(pool.map(work, jobs), total=len(jobs), description=label))
