"""Beside the best: calls, and how often the interval is wrong, on the same data with the same goal.

\b
python -m benchmarks.peers --runs 20 --only zeroeval_math_l5
python -m benchmarks.peers --runs 200 --out benchmarks/results/peers-YYYY-MM-DD.md

Each of five models of a data set in turn is the one to evaluate; the others are its past. A method of fixed size is
told the size at which its interval is narrow enough on average, which nobody knows beforehand: other seeds find it.
A run misses when its last interval does not hold the mean of all scores; `bound` is the largest number of misses that a
miss rate of 5% makes with probability 99%. Packages that are not installed are left out, and named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import process_time

import click
import numpy as np

from benchmarks.coverage import most_misses
from benchmarks.parallel import run_all
from benchmarks.past_tables import varying_models
from benchmarks.rivals import RIVALS, Case, Ending, Fixed, Rival, planned
from benchmarks.side_information import ALPACA, DATA, GSM8K, MATH, MMLU
from benchmarks.tables import markdown, publish
from cereval.paper.experiments import load

GOALS = {MMLU: 0.02, MATH: 0.04, GSM8K: 0.03, ALPACA: 0.03}
"""Half-widths that about a fifth of each data set proves."""
MEANS = (0.5, 0.9, 0.97)
SIZE, EPS = 5_000, 0.03
MODELS = 5
"""Models of a data set, evenly spaced among those whose scores vary; with few the runs of a method share its fits."""
PILOTS = 6
"""Runs at each size tried, to find the one that is told."""
EFFORTS = 8
"""Sizes tried: bisection to a 250th of twice the size that the worst variance asks for."""


@dataclass(frozen=True, slots=True)
class Job:
    """All runs of one method on one model."""

    data: str
    model: str
    rival: int
    seeds: range
    folder: Path


@dataclass(frozen=True, slots=True)
class Found:
    """What the runs of a job took, and how many missed."""

    job: Job
    calls: tuple[int, ...]
    half_widths: tuple[float, ...]
    misses: int
    seconds: float


def synthetic(model: str, seed: int) -> Case:
    """Right and wrong answers with a mean, in an order of their own."""
    mean = float(model)
    scores = np.random.default_rng([seed, 3]).permutation((np.arange(SIZE) < mean * SIZE).astype(float))
    return Case("synthetic", model, scores, None, EPS)


@cache
def recorded(folder: Path, model: str) -> Case:
    series = load(folder).series(model)
    return Case(folder.name, model, series.scores, series.history, GOALS[folder.name])


def make_case(job: Job, seed: int) -> Case:
    return synthetic(job.model, seed) if job.data == "synthetic" else recorded(job.folder, job.model)


def play(job: Job) -> Found:
    rival, started = RIVALS[job.rival], process_time()
    if rival.fixed is not None:
        size = told_size(rival.fixed, make_case(job, 0))
        ends = [rival.fixed(make_case(job, seed), size, seed) for seed in job.seeds]
    else:
        assert rival.anytime is not None
        ends = [rival.anytime(make_case(job, seed), seed) for seed in job.seeds]
    missed = sum(is_wrong(end, make_case(job, seed)) for end, seed in zip(ends, job.seeds, strict=True))
    widths = tuple((end.upper - end.lower) / 2 for end in ends)
    return Found(job, tuple(end.calls for end in ends), widths, missed, process_time() - started)


def is_wrong(end: Ending, case: Case) -> bool:
    return not end.lower - 1e-9 <= case.truth <= end.upper + 1e-9


def told_size(fixed: Fixed, case: Case) -> int:
    """Find the smallest size at which the mean half-width of a few runs is at most the goal."""
    low, high = 20, min(case.size, planned(case, 0.5))
    for _ in range(EFFORTS):
        middle = (low + high) // 2
        ends = [fixed(case, middle, 10**6 + pilot) for pilot in range(PILOTS)]
        narrow = np.mean([end.upper - end.lower for end in ends]) <= 2 * case.eps
        low, high = (low, middle) if narrow else (middle, high)
    return high


def plan_jobs(folder: Path, runs: int, only: Sequence[str]) -> Iterator[Job]:
    for number, rival in enumerate(RIVALS):
        if not rival.is_installed:
            continue
        if not only or "synthetic" in only:
            for mean in MEANS:
                job = Job("synthetic", f"{mean:g}", number, range(runs), folder)
                if rival.suits(make_case(job, 0)):
                    yield job
        for data in [name for name in GOALS if not only or name in only]:
            models = varying_models(folder / data)
            spaced = [models[int(place)] for place in np.linspace(0, len(models) - 1, MODELS)]
            each = -(-runs // len(spaced))
            for place, model in enumerate(spaced):
                job = Job(data, model, number, range(place * each, (place + 1) * each), folder / data)
                if rival.suits(make_case(job, 0)):
                    yield job


def make_table(found: Sequence[Found], title: str) -> str:
    rows = []
    for number, rival in enumerate(RIVALS):
        mine = [one for one in found if one.job.rival == number]
        if mine:
            rows.append(make_row(rival, mine))
    header = ("method", "mean calls", "90% of runs below", "mean half-width", "misses", "bound", "")
    return f"### {title}\n\n{markdown(header, rows)}\n"


def make_row(rival: Rival, mine: Sequence[Found]) -> list[object]:
    calls = np.concatenate([one.calls for one in mine])
    misses, bound = sum(one.misses for one in mine), most_misses(len(calls))
    width = np.mean(np.concatenate([one.half_widths for one in mine]))
    verdict = "too often" if misses > bound else ""
    return [
        rival.name,
        f"{calls.mean():,.0f}",
        f"{np.quantile(calls, 0.9):,.0f}",
        f"{width:.4f}",
        f"{misses} of {len(calls)}",
        bound,
        verdict,
    ]


def make_tables(found: Sequence[Found], folder: Path) -> Iterator[str]:
    for data in dict.fromkeys(one.job.data for one in found):
        mine = [one for one in found if one.job.data == data]
        if data == "synthetic":
            for mean in dict.fromkeys(one.job.model for one in mine):
                title = f"Right or wrong, mean {mean}, N = {SIZE:,}, ±{EPS:g}"
                yield make_table([one for one in mine if one.job.model == mean], title)
        else:
            case = recorded(folder / data, mine[0].job.model)
            models = len({one.job.model for one in mine})
            yield make_table(mine, f"{data}, {models} models, N = {case.size:,}, ±{case.eps:g}")


def make_promises() -> str:
    rows = [[rival.name, rival.promise] for rival in RIVALS if rival.is_installed]
    return "### What each promises at 95%\n\n" + markdown(("method", "the interval holds"), rows) + "\n"


@click.command(help=__doc__)
@click.option("--runs", default=20, show_default=True, help="Runs of each method on each data set.")
@click.option("--only", type=click.Choice([*GOALS, "synthetic"]), multiple=True, help="Only these data.")
@click.option("--cores", default=1, show_default=True, help="Processes.")
@click.option("--data", type=click.Path(path_type=Path), default=DATA, help="Folder of recorded results.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the tables to this file.")
def main(runs: int, only: tuple[str, ...], cores: int, data: Path, out: Path | None) -> None:
    missing = sorted({str(rival.package) for rival in RIVALS if not rival.is_installed})
    if missing:
        click.echo(f"not installed, left out: {', '.join(missing)}", err=True)
    jobs = list(plan_jobs(data, runs, only))
    found = run_all(play, jobs, "peers", cores)
    seconds = sum(one.seconds for one in found)
    parts = [*make_tables(found, data), make_promises(), f"{len(jobs)} jobs, {seconds:,.0f} s of one core."]
    if missing:
        parts.append(f"Not installed, left out: {', '.join(missing)}.")
    publish("Beside the best", "benchmarks.peers", "\n".join(parts), out)


if __name__ == "__main__":
    main()
