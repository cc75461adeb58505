"""How often a figure of `cereval judge` misses, with judges, labels and answers of all kinds.

    python -m benchmarks.judges --runs 1000 --out benchmarks/results/judges-YYYY-MM-DD.md

A run misses a figure when the truth, counted from all labels, is outside its interval after any label on the way.
All figures of a run hold at once: delta = .05 for any miss, of which agreement to leniency share four fifths and
length has one fifth; flips and order have half each. `bound` is the largest number of misses that such a chance makes
with probability 99%.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.coverage import DELTA, most_misses
from benchmarks.parallel import CORES, run_all
from benchmarks.tables import markdown, publish
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session
from cereval.records import Draw, Part
from cereval.report.judge import (
    FOR_VERDICTS,
    PASS_MARK,
    order_games,
    order_parts,
    tell_with,
    verdict_games,
    verdict_parts,
)

Floats = NDArray[np.float64]

ITEMS, EPS, CHUNK, SLACK = 200, 0.08, 20, 1e-9
VERDICTS = ("agreement", "kappa", "sensitivity", "specificity", "leniency")
SHARES = {**dict.fromkeys(VERDICTS, FOR_VERDICTS), "length": 1 - FOR_VERDICTS, "flips": 0.5, "order": 0.5}
"""The share of delta that each figure's misses may take."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What people say of every answer, what the judge says, and how long the answers are.

    failing: the share of the labels that never come. in_flight: how many are handed out before the first is back; they
    are told in the order of the draws, as from a store. orders: the judge's preferences where an answer is shown first,
    and second; then nobody labels.
    """

    labels: Floats
    grades: Floats
    lengths: Floats
    failing: float = 0.0
    in_flight: int = 1
    method: str = "auto"
    orders: Floats | None = None


Make = Callable[[np.random.Generator], Scene]


def judged(
    mean: float,
    agrees: float,
    *,
    lenient: float | None = None,
    longer: float = 0.0,
    contrary: bool = False,
    graded: bool = False,
    failing: float = 0.0,
    in_flight: int = 1,
    method: str = "auto",
) -> Make:
    """Make labels of some mean, and a judge that gives the same verdict on a share of the answers and says "right" to
    `lenient` of the others, to more of them where the answer is long. contrary: it gives the other verdict instead.
    graded: people give 0, .25, ... 1."""

    def make(rng: np.random.Generator) -> Scene:
        lengths = rng.exponential(size=ITEMS)
        labels = (rng.random(ITEMS) < mean).astype(float)
        chance = (mean if lenient is None else lenient) + longer * (lengths > np.median(lengths))
        says = np.where(rng.random(ITEMS) < agrees, (labels > 0) != contrary, rng.random(ITEMS) < chance)
        grades = np.where(says, rng.integers(5, 10, ITEMS), rng.integers(0, 5, ITEMS)) / 9
        if graded:
            labels = np.where(labels > 0, rng.integers(2, 5, ITEMS), rng.integers(0, 2, ITEMS)) / 4
        return Scene(labels, grades, lengths, failing, in_flight, method)

    return make


def ordered(lean: float, noise: float, *, failing: float = 0.0, in_flight: int = 1) -> Make:
    """Make a judge that likes what comes first by `lean`, and is `noise` unsure of everything."""

    def make(rng: np.random.Generator) -> Scene:
        quality = rng.random(ITEMS)
        both = quality[:, None] + np.array([lean, -lean]) / 2 + noise * rng.standard_normal((ITEMS, 2))
        orders = np.asarray(np.round(np.clip(both, 0, 1), 4), dtype=np.float64)
        nothing = np.zeros(ITEMS)
        return Scene(orders.mean(axis=1), nothing, nothing, failing, in_flight, "auto", orders)

    return make


SCENES: dict[str, Make] = {
    "agrees 95%": judged(0.7, 0.95),
    "agrees 60%": judged(0.7, 0.6),
    "tosses a coin": judged(0.5, 0.0),
    "always disagrees": judged(0.5, 1.0, contrary=True),
    "calls nearly all right": judged(0.5, 0.2, lenient=0.97),
    "calls all right": judged(0.8, 0.0, lenient=1.0),
    "nearly all are right": judged(0.97, 0.9),
    "nearly none is right": judged(0.03, 0.9),
    "likes long answers": judged(0.6, 0.6, lenient=0.3, longer=0.5),
    "people grade 1 to 5": judged(0.6, 0.85, graded=True),
    "10% of labels never come": judged(0.6, 0.85, failing=0.1),
    "16 labels at a time": judged(0.6, 0.85, in_flight=16),
    "without the grades as history": judged(0.6, 0.85, method="uniform"),
    "order: looks at nothing else": ordered(0.9, 0.05),
    "order: leans a little": ordered(0.1, 0.1),
    "order: does not matter": ordered(0.0, 0.02),
    "order: 10% of calls fail": ordered(0.2, 0.1, failing=0.1, in_flight=8),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Which figures ever missed in a run, and the half-widths at its end."""

    missed: frozenset[str]
    labels: int
    widths: dict[str, float]


def watch(scene: Scene, seed: int, delta: float = DELTA) -> Outcome:
    """Play a run that people label, and check every figure after every label."""
    says = scene.grades >= PASS_MARK
    figures: Callable[[], tuple[Part, ...]]
    if scene.orders is None:
        games = verdict_games(says, scene.lengths, np.arange(ITEMS), delta)
        history = scene.grades[:, None] if scene.method == "auto" else None
        figures = lambda: verdict_parts(games, says)  # noqa: E731
    else:
        games = order_games(dict(enumerate(scene.orders.tolist())), ITEMS, delta)
        history = None
        figures = lambda: order_parts(games)  # noqa: E731
    session = Session(
        ITEMS, goal=Estimate(EPS), method=scene.method, history=history, seed=seed, confidence=1 - delta
    )
    chance, true = np.random.default_rng([seed, 77]), truths(scene)
    failing = chance.random(ITEMS) < scene.failing
    pending: list[Draw] = []
    missed: set[str] = set()
    while not session.done:
        pending += session.ask(scene.in_flight - len(pending)) if len(pending) < scene.in_flight else []
        draw = pending.pop(0)
        label = None if failing[draw.item] else float(scene.labels[draw.item])
        tell_with(games, session, draw, (label,))
        missed |= {one.name for one in figures() if _misses(one, true.get(one.name))}
    widths = {one.name: (one.upper - one.lower) / 2 for one in figures()}
    return Outcome(frozenset(missed), session.n_evaluated, widths)


def _misses(part: Part, truth: float | None) -> bool:
    return truth is not None and not part.lower - SLACK <= truth <= part.upper + SLACK


def truths(scene: Scene) -> dict[str, float]:
    """Count the figures from all labels and all verdicts, as a textbook has them; what is undefined is left out."""
    if scene.orders is not None:
        first, second = scene.orders.T
        return {
            "flips": float(np.mean((first > 0.5) != (second > 0.5))),
            "order": float(np.mean(first - second)),
        }
    says, right = scene.grades >= PASS_MARK, scene.labels >= PASS_MARK
    agreement = float(np.mean(says == right))
    chance = says.mean() * right.mean() + (1 - says.mean()) * (1 - right.mean())
    long = scene.lengths > np.median(scene.lengths)
    lenient = [float(says[half].mean() - right[half].mean()) for half in (long, ~long)]
    found = {
        "agreement": agreement,
        "leniency": float(says.mean() - right.mean()),
        "length": lenient[0] - lenient[1],
    }
    if chance < 1:
        found["kappa"] = float((agreement - chance) / (1 - chance))
    if right.any():
        found["sensitivity"] = float(says[right].mean())
    if not right.all():
        found["specificity"] = float(np.mean(~says[~right]))
    return found


@dataclass(frozen=True, slots=True)
class Job:
    """A chunk of one scene's seeds."""

    scene: str
    seeds: range
    delta: float = DELTA


def play(job: Job) -> list[Outcome]:
    make = SCENES[job.scene]
    return [watch(make(np.random.default_rng([seed, 991])), seed, job.delta) for seed in job.seeds]


def row(name: str, outcomes: Sequence[Outcome], figures: Sequence[str]) -> list[object]:
    """One line: how often each figure missed, and any of them."""
    counts = [sum(figure in one.missed for one in outcomes) for figure in figures]
    labels = np.mean([one.labels for one in outcomes])
    return [name, len(outcomes), f"{labels:.0f}", *counts, sum(bool(one.missed) for one in outcomes)]


def bounds(runs: int, figures: Sequence[str], delta: float = DELTA) -> list[int]:
    """The most misses allowed of each figure, and of any of them."""
    return [*(most_misses(runs, SHARES[figure] * delta) for figure in figures), most_misses(runs, delta)]


@click.command(help=__doc__)
@click.option("--runs", default=200, show_default=True, help="Runs for each scene.")
@click.option("--cores", type=int, default=CORES, show_default=True, help="Processes.")
@click.option("--out", type=click.Path(path_type=Path), help="Where the tables go.")
def main(runs: int, cores: int, out: Path | None) -> None:
    jobs = [Job(name, range(at, min(at + CHUNK, runs))) for name in SCENES for at in range(0, runs, CHUNK)]
    found: dict[str, list[Outcome]] = {name: [] for name in SCENES}
    for job, outcomes in zip(jobs, run_all(play, jobs, "judges", cores), strict=True):
        found[job.scene] += outcomes
    tables, holds = [], True
    for figures, names in (
        ((*VERDICTS, "length"), [name for name in SCENES if not name.startswith("order")]),
        (("flips", "order"), [name for name in SCENES if name.startswith("order")]),
    ):
        rows = [row(name, found[name], figures) for name in names]
        most = bounds(runs, figures)
        holds = holds and all(
            int(str(count)) <= bound for one in rows for count, bound in zip(one[3:], most, strict=True)
        )
        every = [one for name in names for one in found[name]]
        pooled = row("all of them", every, figures)
        widths = [f"{np.mean([one.widths[figure] for one in every]):.3f}" for figure in figures]
        tables.append(
            markdown(
                ["judge", "runs", "labels", *figures, "any"],
                [
                    *rows,
                    ["at most allowed in each row", runs, "", *most],
                    pooled,
                    ["at most allowed in all", len(every), "", *bounds(len(every), figures)],
                    ["mean half-width at the end", "", "", *widths, ""],
                ],
            )
        )
    about = f"Runs in which a figure missed after any label; {ITEMS} answers, the mean within {EPS:g}."
    publish("What is certified of a judge", "benchmarks.judges", "\n\n".join([about, *tables]), out)
    if not holds:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
