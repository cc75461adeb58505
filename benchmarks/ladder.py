"""The width on the way: what a run shows before its goal.

    python -m benchmarks.ladder
    python -m benchmarks.ladder --seeds 60 --out benchmarks/results/ladder-YYYY-MM-DD.md
    python -m benchmarks.ladder --recorded ../shared/data --seeds 3

Half-widths after 25, 50, ... results towards eps = .02, the calls at the goal, and what the same number of results
gives as a budget of calls known from the start. delta = .05.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.parallel import CORES, run_all
from benchmarks.tables import markdown, publish
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session

SIZE = 5000
EPS = 0.02
MEANS = (0.5, 0.8, 0.05)
LOOKS = (25, 50, 100, 200, 400, 800)
RECORDED = (
    ("mmlu", "helm/openai_gpt-4o-2024-05-13", 0.0155),
    ("alpaca_eval", "gpt4_1106_preview", 0.02),
    ("alpaca_eval", "Mixtral-8x7B-Instruct-v0.1", 0.02),
)


@dataclass(frozen=True, slots=True)
class Job:
    """One run: 0/1 scores of a mean, or a recorded model; stopped by a budget of calls, or by its goal."""

    scene: str
    eps: float
    seed: int
    mean: float | None = None
    folder: Path | None = None
    budget: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """What one run showed: its half-width at every look, its calls, and whether any interval missed."""

    job: Job
    widths: tuple[float, ...]
    calls: int
    missed: bool
    last: float


def scores_of(job: Job) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    if job.folder is None:
        ones = np.arange(SIZE) < round((job.mean or 0.0) * SIZE)
        return np.random.default_rng([job.seed, 17]).permutation(ones.astype(np.float64)), {}
    from benchmarks.past_tables import side_information
    from cereval.paper.experiments import load

    series = load(job.folder).series(job.scene)
    return series.scores, side_information(job.folder, series, "history + groups", job.seed)


def play(job: Job) -> Run:
    scores, side = scores_of(job)
    session = Session(len(scores), goal=Estimate(job.eps), seed=job.seed, budget=job.budget, **side)
    truth, widths, missed = float(scores.mean()), [], False
    while not session.done:
        for draw in session.ask(1):
            session.tell(draw, float(scores[draw.item]))
            missed |= not session.interval.lower - 1e-9 <= truth <= session.interval.upper + 1e-9
            if session.n_evaluated in LOOKS:
                widths.append(session.interval.half_width)
    return Run(job, tuple(widths), session.n_evaluated, missed, session.interval.half_width)


def jobs_for(scenes: Sequence[dict[str, Any]], seeds: int, budgets: Sequence[int]) -> list[Job]:
    return [
        Job(seed=seed, budget=budget, **scene)
        for scene in scenes
        for budget in (None, *budgets)
        for seed in range(seeds)
    ]


def scenes_of(recorded: Path | None) -> list[dict[str, Any]]:
    if recorded is None:
        return [{"scene": f"mean {mean:g}", "mean": mean, "eps": EPS} for mean in MEANS]
    return [{"scene": model, "eps": eps, "folder": recorded / name} for name, model, eps in RECORDED]


def table(runs: Sequence[Run]) -> str:
    header = ["scene", "stopped by", *(f"at {look}" for look in LOOKS), "calls at the goal", "95%", "misses"]
    rows: list[list[object]] = []
    for scene in dict.fromkeys(run.job.scene for run in runs):
        mine = [run for run in runs if (run.job.scene, run.job.budget) == (scene, None)]
        rows.append([scene, "goal", *_row(mine)])
        rows.extend(_budget_rows(scene, runs))
    return markdown(header, rows)


def _row(runs: Sequence[Run]) -> list[object]:
    widths = []
    for number in range(len(LOOKS)):
        there = [run.widths[number] for run in runs if len(run.widths) > number]
        widths.append(f"{np.mean(there):.3f}" if len(there) == len(runs) else "")
    calls = np.array([run.calls for run in runs])
    missed = f"{sum(run.missed for run in runs)}/{len(runs)}"
    return [*widths, f"{calls.mean():.0f}", f"{np.quantile(calls, 0.95):.0f}", missed]


def _budget_rows(scene: str, runs: Sequence[Run]) -> list[list[object]]:
    """The width that each look gives as a budget of calls known from the start."""
    shown: dict[int, list[float]] = {}
    for run in runs:
        if run.job.scene == scene and run.job.budget is not None:
            shown.setdefault(run.job.budget, []).append(run.last)
    if not shown:
        return []
    cells = [f"{np.mean(shown[look]):.3f}" if look in shown else "" for look in LOOKS]
    return [[scene, "as --max-calls", *cells, "", "", ""]]


@click.command(help=__doc__)
@click.option("--seeds", default=12, show_default=True, help="Runs for each scene.")
@click.option("--budget", "budgets", type=int, multiple=True, help="Also as a budget of so many calls.")
@click.option(
    "--recorded", type=click.Path(path_type=Path, exists=True), help="Recorded models, with history."
)
@click.option("--cores", default=CORES, show_default=True, help="Processes at a time.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the table, with its command, here.")
def main(seeds: int, budgets: tuple[int, ...], recorded: Path | None, cores: int, out: Path | None) -> None:
    runs = run_all(play, jobs_for(scenes_of(recorded), seeds, budgets), "ladder", cores)
    publish("Widths on the way", "benchmarks.ladder", table(runs), out)


if __name__ == "__main__":
    main()
