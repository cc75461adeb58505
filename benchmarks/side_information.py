"""Side information: what past models' scores save, whether hostile ones do harm, and what it costs.

    python -m benchmarks.side_information --quick
    python -m benchmarks.side_information --full --out benchmarks/results/side-information-YYYY-MM-DD.md

Recorded results in --data, delta = .05, all labels counted, nothing fitted on the target model beforehand.
A run misses when the truth is outside the last interval (they are nested) or when every value was rejected.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import process_time

import click
import numpy as np

from benchmarks.coverage import most_misses
from benchmarks.parallel import run_all
from benchmarks.past_tables import HOSTILE, crowd, side_information, varying_models
from benchmarks.tables import markdown, publish
from cereval.paper.experiments import load
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session
from cereval.questions.replay import drive, replay

DATA = Path(__file__).parents[2] / "shared" / "data"
WAYS = ("uniform", "history", "history + groups")
JUDGED = "history + groups"
"""The way that requirements are held against: all that the data offers but the texts."""
MOST_OVER_UNIFORM = 1.05
AGAIN = 200
"""Seeds for a model that was above that limit with fewer."""
MMLU, ALPACA, MATH, GSM8K = "mmlu", "alpaca_eval", "zeroeval_math_l5", "zeroeval_gsm8k"
GPT4O, LLAMA70, MIXTRAL = (
    "helm/openai_gpt-4o-2024-05-13",
    "helm/meta_llama-3-70b",
    "routellm/mistralai/Mixtral-8x7B-Instruct-v0.1",
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """At most `most` of the items (a share) or calls (a count), with eps or a multiple of eps*.

    `model` None: the mean over all models whose scores vary.
    """

    folder: str
    model: str | None
    most: float
    eps: float = 0.0
    multiple: float = 0.0


REQUIREMENTS = (
    Requirement(MMLU, GPT4O, 0.135, multiple=1.0),
    Requirement(MMLU, GPT4O, 0.070, multiple=1.5),
    Requirement(MMLU, LLAMA70, 0.185, multiple=1.0),
    Requirement(MMLU, LLAMA70, 0.092, multiple=1.5),
    Requirement(MMLU, MIXTRAL, 0.305, multiple=1.0),
    Requirement(MMLU, MIXTRAL, 0.165, multiple=1.5),
    Requirement(ALPACA, None, 265, eps=0.02),
    Requirement(ALPACA, None, 178, eps=0.03),
    Requirement(ALPACA, None, 100, eps=0.05),
    Requirement(MATH, "gpt-4o-2024-05-13", 0.30, multiple=1.0),
    Requirement(GSM8K, "Meta-Llama-3-8B-Instruct", 0.28, multiple=1.0),
)
EVERY_MODEL = {ALPACA: 0.03, MATH: 0.06, GSM8K: 0.03, MMLU: 0.0155}
"""The half-width at which `auto` is compared with `uniform` on every model."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run."""

    folder: Path
    model: str
    eps: float
    way: str
    seed: int


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took."""

    job: Job
    items: int
    calls: int
    missed: bool


def play(job: Job) -> Run:
    series = load(job.folder).series(job.model)
    side = side_information(job.folder, series, job.way, job.seed)
    goal, size = Estimate(job.eps), len(series.scores)
    result = drive(Session(size, goal=goal, seed=job.seed, **side), series.scores)
    truth = float(series.scores.mean())
    inside = result.lower - 1e-9 <= truth <= result.upper + 1e-9
    return Run(job, len(series.scores), result.n_evaluated, not inside or result.stopped == "contradiction")


def half_width(need: Requirement, folder: Path, model: str) -> float:
    return need.eps or round(need.multiple * load(folder).series(model).eps_star, 5)


def models_of(need: Requirement, data: Path) -> list[str]:
    return varying_models(data / need.folder) if need.model is None else [need.model]


def jobs_of(need: Requirement, data: Path, seeds: int, every: int) -> list[Job]:
    folder = data / need.folder
    return [
        Job(folder, model, half_width(need, folder, model), way, seed)
        for model in models_of(need, data)[::every]
        for way in WAYS
        for seed in range(seeds)
    ]


def requirements_table(found: dict[Requirement, list[Run]]) -> str:
    rows = [_requirement_row(need, runs) for need, runs in found.items()]
    return markdown(["data", "model", "eps", "allowed", *WAYS, f"{JUDGED} / allowed", "met"], rows)


def _requirement_row(need: Requirement, runs: list[Run]) -> list[object]:
    share = need.most < 1
    taken = {
        way: float(np.mean([run.calls / _unit(need, run) for run in runs if run.job.way == way]))
        for way in WAYS
    }
    shown = [f"{value:.3f}" if share else f"{value:.0f}" for value in taken.values()]
    # Named beforehand: the better of two ways, chosen after the runs, would flatter both.
    judged = taken[JUDGED]
    model = need.model or f"{len({run.job.model for run in runs})} models"
    met = _met(judged <= need.most)
    return [
        need.folder,
        model,
        f"{runs[0].job.eps:g}",
        f"{need.most:g}",
        *shown,
        f"{judged / need.most:.2f}",
        met,
    ]


def _unit(need: Requirement, run: Run) -> int:
    """What a requirement counts in: shares of the items, or calls."""
    return run.items if need.most < 1 else 1


def every_model_table(runs: list[Run]) -> str:
    """How `auto` compares with `uniform`, model by model; the worst of each data set."""
    rows = []
    for folder in dict.fromkeys(run.job.folder for run in runs):
        ratios = sorted(
            (_ratio([run for run in runs if (run.job.folder, run.job.model) == (folder, model)]), model)
            for model in dict.fromkeys(run.job.model for run in runs if run.job.folder == folder)
        )
        worst, error, model = ratios[-1][0][0], ratios[-1][0][1], ratios[-1][1]
        over = sum(ratio > MOST_OVER_UNIFORM for (ratio, _), _ in ratios)
        surely = sum(ratio - 2 * error > MOST_OVER_UNIFORM for (ratio, error), _ in ratios)
        middle = float(np.mean([ratio for (ratio, _), _ in ratios]))
        cells = [f"{middle:.3f}", f"{worst:.3f} ± {error:.3f} ({model})", over, surely]
        rows.append([folder.name, f"{EVERY_MODEL[folder.name]:g}", len(ratios), *cells, _met(over == 0)])
    header = [
        "data",
        "eps",
        "models",
        "mean ratio",
        "worst",
        f"> {MOST_OVER_UNIFORM}",
        "by two errors",
        "met",
    ]
    return markdown(header, rows)


def doubtful(runs: list[Run]) -> list[Job]:
    """Runs with fresh seeds for the models above the limit: of many noisy ratios the largest is mostly luck."""
    models = dict.fromkeys((run.job.folder, run.job.model, run.job.eps) for run in runs)
    over = [
        model
        for model in models
        if _ratio([run for run in runs if (run.job.folder, run.job.model) == model[:2]])[0]
        > MOST_OVER_UNIFORM
    ]
    seeds = range(10_000, 10_000 + AGAIN)
    return [
        Job(folder, model, eps, way, seed)
        for folder, model, eps in over
        for way in WAYS[:2]
        for seed in seeds
    ]


def again_table(runs: list[Run]) -> str:
    if not runs:
        return "None was above the limit."
    rows = []
    for folder, model in dict.fromkeys((run.job.folder, run.job.model) for run in runs):
        mine = [run for run in runs if (run.job.folder, run.job.model) == (folder, model)]
        ratio, error = _ratio(mine)
        rows.append([folder.name, model, f"{ratio:.3f} ± {error:.3f}", _met(ratio <= MOST_OVER_UNIFORM)])
    return markdown(["data", "model", f"ratio, {AGAIN} seeds", "met"], rows)


def _ratio(runs: list[Run]) -> tuple[float, float]:
    """Calls of history over calls of uniform draws, with its standard error (delta method)."""
    taken = {way: np.array([run.calls for run in runs if run.job.way == way], float) for way in WAYS[:2]}
    uniform, auto = taken["uniform"], taken["history"]
    ratio = float(auto.mean() / uniform.mean())
    relative = sum(part.var(ddof=1) / len(part) / part.mean() ** 2 for part in (auto, uniform))
    return ratio, ratio * float(np.sqrt(relative)) if len(auto) > 1 else float("inf")


def hostile_table(runs: list[Run]) -> str:
    uniform = np.mean([run.calls for run in runs if run.job.way == "uniform"])
    rows = []
    for way in ("uniform", *HOSTILE):
        here = [run for run in runs if run.job.way == way]
        misses, bound = sum(run.missed for run in here), most_misses(len(here))
        calls = float(np.mean([run.calls for run in here]))
        rows.append(
            [way, len(here), f"{calls:.0f}", f"{calls / uniform:.3f}", misses, bound, _met(misses <= bound)]
        )
    return markdown(["history", "runs", "calls", "over uniform", "misses", "bound", "met"], rows)


def misses_line(runs: list[Run]) -> str:
    misses, bound = sum(run.missed for run in runs), most_misses(len(runs))
    rate, met = f"{misses / len(runs):.4f}", _met(misses <= bound)
    return f"All {len(runs)} runs pooled: {misses} misses ({rate}), bound {bound} (99% binomial): {met}."


def cost_line(data: Path, models: int = 100) -> str:
    """One replay of MMLU to eps* with many past models, in seconds of CPU on one thread."""
    series = load(data / MMLU).series(GPT4O)
    history = crowd(series.history, models, np.random.default_rng(0))
    start = process_time()
    result = replay(series.scores, goal=Estimate(series.eps_star), history=history)
    spent = process_time() - start
    return (
        f"Cost: MMLU with {models} past models (resampled), eps*: {spent:.1f} s of CPU for {result.n_evaluated:,} "
        f"calls, allowed 10 s: {_met(spent < 10)}."
    )


def _met(holds: bool) -> str:
    return "yes" if holds else "**NO**"


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run: seeds of each kind, and every how many-th model where all models are run."""

    seeds: int
    comparing: int
    hostile: int
    every: int


QUICK, FULL = (
    Size(seeds=2, comparing=2, hostile=4, every=12),
    Size(seeds=10, comparing=20, hostile=40, every=1),
)


def measured(data: Path, size: Size) -> str:
    needs = {need: jobs_of(need, data, size.seeds, size.every) for need in REQUIREMENTS}
    compared = [
        Job(data / name, model, eps, way, 500 + seed)
        for name, eps in EVERY_MODEL.items()
        for model in varying_models(data / name)[:: size.every]
        for way in WAYS[:2]
        for seed in range(size.comparing)
    ]
    hostile = [
        Job(data / GSM8K, "Meta-Llama-3-8B-Instruct", 0.05, way, 900 + seed)
        for way in ("uniform", *HOSTILE)
        for seed in range(size.hostile)
    ]
    jobs = [job for found in needs.values() for job in found] + compared + hostile
    runs = dict(zip(jobs, run_all(play, jobs, "side information"), strict=True))
    once = [runs[job] for job in compared]
    again = run_all(play, doubtful(once), "again")
    tables = [
        requirements_table({need: [runs[job] for job in found] for need, found in needs.items()}),
        "`auto` (history) against `uniform`, each model:\n\n" + every_model_table(once),
        f"Those above {MOST_OVER_UNIFORM} again, with {AGAIN} fresh seeds:\n\n" + again_table(again),
        "Hostile histories, GSM8K Llama-3-8B, eps .05:\n\n" + hostile_table([runs[job] for job in hostile]),
        misses_line([*runs.values(), *again]),
        cost_line(data),
    ]
    return "\n\n".join(tables)


@click.command(help=__doc__)
@click.option(
    "--full/--quick", default=False, help="10 and 20 seeds, all models; or 2 seeds, every 12th model."
)
@click.option("--seeds", type=int, help="Other than 10 (full) or 2 (quick).")
@click.option("--every", type=int, help="Every how many-th model, where all models are run.")
@click.option("--data", type=click.Path(path_type=Path), default=DATA, help="Folder of recorded results.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the tables, with their command, here.")
def main(full: bool, seeds: int | None, every: int | None, data: Path, out: Path | None) -> None:
    missing = [name for name in EVERY_MODEL if not (data / name / "scores.parquet").exists()]
    if missing:
        click.echo(f"{data} has no {', '.join(missing)}: nothing measured")
        return
    size = FULL if full else QUICK
    size = Size(seeds or size.seeds, seeds or size.comparing, size.hostile, every or size.every)
    body = measured(data, size)
    publish("Side information on recorded results", "benchmarks.side_information", body, out)


if __name__ == "__main__":
    main()
