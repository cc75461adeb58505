"""Many tasks at once: simultaneous coverage, and the calls that each goal takes on MMLU's 57 subjects.

    python -m benchmarks.tasks
    python -m benchmarks.tasks --full --out benchmarks/results/tasks-YYYY-MM-DD.md

A run misses when anything that it ever showed is wrong: the interval of a task, that of the macro mean, or a
verdict. delta = .05 for all of it together; `bound` as in `benchmarks.coverage`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import click
import numpy as np

from benchmarks.coverage import DELTA, most_misses
from benchmarks.parallel import run_all
from benchmarks.side_information import DATA, GPT4O, MMLU
from benchmarks.tables import markdown, publish
from benchmarks.task_scenes import GOALS, SCENES, TaskOutcome, TaskScene, watch
from cereval.datasets.tables import read_items
from cereval.paper.experiments import load
from cereval.questions.mean.goal import Estimate
from cereval.questions.replay import replay
from cereval.questions.tasks.goal import AllAtLeast, EachWithin, Macro, TasksGoal, WhichFail

MOST_SHARE = 0.22
REAL_GOALS: tuple[TasksGoal, ...] = (
    Macro(0.01),
    Macro(0.01, each=0.1),
    EachWithin(0.1),
    AllAtLeast(0.4),
    AllAtLeast(0.5),
    WhichFail(0.7),
)


@dataclass(frozen=True, slots=True)
class Job:
    """One run; `scene` None: MMLU."""

    scene: str | None
    goal: TasksGoal
    seed: int
    history: bool = True


@lru_cache(maxsize=2)
def mmlu(history: bool) -> TaskScene:
    """GPT-4o on MMLU: the subjects are the tasks, the ten other models the history."""
    benchmark = load(DATA / MMLU)
    series = benchmark.series(GPT4O)
    subjects = read_items(DATA / MMLU / "items.parquet").categories
    assert subjects is not None
    groups = np.unique(np.array(subjects)[series.kept], return_inverse=True)[1].astype(np.int64)
    return TaskScene(series.scores, groups, series.history if history else None)


def play(job: Job) -> TaskOutcome:
    if job.scene is None:
        return watch(mmlu(job.history), job.goal, job.seed, 1 - DELTA, every=25)
    scene = SCENES[job.scene](np.random.default_rng([job.seed, 77]))
    return watch(scene, job.goal, job.seed, 1 - DELTA)


def coverage_table(found: dict[Job, TaskOutcome]) -> str:
    rows = []
    for name in SCENES:
        for goal in GOALS:
            runs = [run for job, run in found.items() if (job.scene, job.goal) == (name, goal)]
            rows.append([name, _said(goal), *_counts(runs)])
    return markdown(["population", "goal", "runs", "mean calls", "misses", "bound", "holds"], rows)


def real_table(found: dict[Job, TaskOutcome]) -> str:
    rows = []
    for goal, history in dict.fromkeys((job.goal, job.history) for job in found if job.scene is None):
        runs = [
            run for job, run in found.items() if (job.scene, job.goal, job.history) == (None, goal, history)
        ]
        share = float(np.mean([run.calls / run.items for run in runs]))
        widest = float(np.mean([run.widest for run in runs]))
        decisions = ", ".join(sorted({run.decision or "-" for run in runs}))
        cells = [_said(goal), "others" if history else "none", f"{share:.3f}", f"{widest:.3f}", decisions]
        rows.append([*cells, *_counts(runs)])
    header = ["goal", "history", "share of items", "widest task", "decision"]
    return markdown([*header, "runs", "mean calls", "misses", "bound", "holds"], rows)


def _counts(runs: list[TaskOutcome]) -> list[object]:
    misses, bound = sum(run.missed for run in runs), most_misses(len(runs))
    calls = f"{np.mean([run.calls for run in runs]):.0f}"
    return [len(runs), calls, misses, bound, _met(misses <= bound)]


def required(found: dict[Job, TaskOutcome]) -> tuple[str, bool]:
    """The two figures that were asked for, in words."""
    runs = [run for job, run in found.items() if job == Job(None, Macro(0.01), job.seed)]
    valid = sum(not run.missed for run in runs) / len(runs)
    share = float(np.mean([run.calls / run.items for run in runs]))
    line = (
        f"GPT-4o, 57 subjects, macro mean within .01 with history: everything shown was right in {valid:.1%} of "
        f"{len(runs)} runs (asked: 95%: {_met(valid >= 0.95)}), {share:.3f} of the items (asked: at most "
        f"{MOST_SHARE}: {_met(share <= MOST_SHARE)})."
    )
    return line, valid >= 0.95 and share <= MOST_SHARE


def separate_line(eps: float = 0.1) -> str:
    """What 57 sessions of their own take for the same widths, each at its part of delta."""
    scene = mmlu(True)
    assert scene.history is not None
    level = 1 - EachWithin(eps).aims.parts[1] * DELTA / (int(scene.groups.max()) + 1)
    calls = 0
    for task in range(int(scene.groups.max()) + 1):
        mine = scene.groups == task
        result = replay(scene.scores[mine], goal=Estimate(eps), confidence=level, history=scene.history[mine])
        calls += result.n_evaluated
    share = calls / len(scene.scores)
    return (
        f"57 separate sessions with the same history, every subject within {eps:g}: {share:.3f} of the items."
    )


def _said(goal: TasksGoal) -> str:
    spec = goal.spec()
    values = ", ".join(f"{key} {value:g}" for key, value in spec.items() if isinstance(value, float))
    return f"{spec['goal']} ({values})"


def _met(holds: bool) -> str:
    return "yes" if holds else "**NO**"


@click.command(help=__doc__)
@click.option("--full", is_flag=True, help="200 runs of the required cell and 200 of each population.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the tables, with the command, here.")
def main(full: bool, out: Path | None) -> None:
    simulated, real, others = (200, 200, 10) if full else (20, 2, 1)
    jobs = [Job(name, goal, seed) for name in SCENES for goal in GOALS for seed in range(simulated)]
    jobs += [Job(None, REAL_GOALS[0], seed) for seed in range(real)]
    jobs += [Job(None, goal, seed) for goal in REAL_GOALS[1:] for seed in range(others)]
    jobs += [Job(None, REAL_GOALS[0], seed, history=False) for seed in range(others)]
    found = dict(zip(jobs, run_all(play, jobs, "tasks"), strict=True))
    line, holds = required(found)
    body = "\n\n".join([line, real_table(found), separate_line(), coverage_table(found)])
    publish("Many tasks at once, delta = .05", "benchmarks.tasks", body, out)
    if not holds or "**NO**" in body:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
