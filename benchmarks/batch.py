"""Calls and rounds by batch against asking one by one, at a half-width of two points.

    python -m benchmarks.batch --seeds 20 --out benchmarks/results/batch-YYYY-MM-DD.md

Live: eight calls are in flight, and those that are not needed at the goal are counted too. By batch: every draw of a
round is asked (`cereval.runner.pace`), and all are counted. Both have the same seeds, items and scores.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.parallel import run_all
from benchmarks.past_tables import side_information
from benchmarks.populations import bernoulli
from benchmarks.side_information import DATA, GPT4O, JUDGED, LLAMA70, MIXTRAL, MMLU
from benchmarks.tables import markdown, publish
from cereval.paper.experiments import load
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session
from cereval.records import Draw
from cereval.runner.pace import is_held_back, next_round

SIZE, EPS, CONNECTIONS = 5000, 0.02, 8
MEANS = (0.5, 0.8, 0.95)
MOST_RATIO, MOST_ROUNDS = 1.15, 5.0


@dataclass(frozen=True, slots=True)
class Job:
    """One population or one recorded model, and a seed."""

    scene: str
    seed: int


@dataclass(frozen=True, slots=True)
class Run:
    """What one seed took, both ways."""

    scene: str
    live: int
    batch: int
    rounds: int
    missed: bool


def play(job: Job) -> Run:
    scores, side = _scene(job)
    make = partial(Session, len(scores), goal=Estimate(EPS), seed=job.seed, **side)
    truth, session = float(scores.mean()), make()
    calls, rounds = by_batch(session, scores)
    inside = session.interval.lower - 1e-9 <= truth <= session.interval.upper + 1e-9
    return Run(job.scene, live(make(), scores), calls, rounds, not inside)


def _scene(job: Job) -> tuple[Any, dict[str, Any]]:
    if job.scene.startswith("mean"):
        population = bernoulli(
            np.random.default_rng([job.seed, 17]), mean=float(job.scene.split()[1]), size=SIZE
        )
        return population.scores, {"method": "uniform"}
    series = load(DATA / MMLU).series(job.scene)
    return series.scores, side_information(DATA / MMLU, series, JUDGED, job.seed)


def live(session: Session, scores: Sequence[float]) -> int:
    """Return the calls with some in flight at all times."""
    out: list[Draw] = []
    calls = 0
    while not session.done:
        fresh = session.ask(CONNECTIONS - len(out))
        out += fresh
        calls += len(fresh)
        draw = out.pop(0)
        session.tell(draw, float(scores[draw.item]))
    return calls


def by_batch(session: Session, scores: Sequence[float]) -> tuple[int, int]:
    """Return the calls and the rounds."""
    calls = rounds = 0
    while not session.done:
        wanted = next_round(session, rounds)
        if is_held_back(session):
            session.open_round(wanted)
        draws: list[Draw] = []
        while len(draws) < wanted and (fresh := session.ask(wanted - len(draws))):
            draws += fresh
        rounds, calls = rounds + 1, calls + len(draws)
        for draw in draws:
            if not session.done:
                session.tell(draw, float(scores[draw.item]))
    return calls, rounds


@click.command(help=__doc__)
@click.option("--seeds", default=20)
@click.option(
    "--pieces", type=click.Path(path_type=Path), help="Keep results there, and play what it has not."
)
@click.option("--out", type=click.Path(path_type=Path))
def main(seeds: int, pieces: Path | None, out: Path | None) -> None:
    scenes = [*(f"mean {mean:g}" for mean in MEANS), GPT4O, LLAMA70, MIXTRAL]
    jobs = [Job(scene, seed) for scene in scenes for seed in range(seeds)]
    known: dict[Job, Run] = {}
    if pieces is not None and pieces.exists():
        lines = map(json.loads, pieces.read_text().splitlines())
        known = {Job(scene, seed): Run(scene, *rest) for scene, seed, *rest in lines}
    fresh = [job for job in jobs if job not in known]
    known |= zip(fresh, run_all(play, fresh, "runs"), strict=True)
    if pieces is not None:
        rows_kept = [[job.scene, job.seed, *astuple(run)[1:]] for job, run in known.items()]
        pieces.write_text("".join(json.dumps(row) + "\n" for row in rows_kept))
    runs = [known[job] for job in jobs]
    rows: list[list[object]] = []
    for scene in scenes:
        own = [run for run in runs if run.scene == scene]
        one, many = (np.mean([getattr(run, name) for run in own]) for name in ("live", "batch"))
        rounds = [run.rounds for run in own]
        rows.append(
            [
                scene,
                f"{one:.0f}",
                f"{many:.0f}",
                f"{many / one:.2f}",
                f"{np.mean(rounds):.1f}",
                max(rounds),
                sum(run.missed for run in own),
            ]
        )
    header = ("scene", "calls live", "calls by batch", "ratio", "rounds", "most rounds", "missed")
    body = (
        markdown(header, rows)
        + f"\n\n{seeds} seeds; wanted: a ratio of at most {MOST_RATIO}, {MOST_ROUNDS:g} rounds."
    )
    publish("Calls and rounds by batch", "benchmarks.batch", body, out)


if __name__ == "__main__":
    main()
