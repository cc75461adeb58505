"""Comparisons: items needed to tell two models apart, and how often anything said was wrong.

    python -m benchmarks.compare --quick
    python -m benchmarks.compare --out benchmarks/results/compare-YYYY-MM-DD.md

Pairs of AlpacaEval's models at random, delta = .05, the default goal (the sign, or no difference larger than .02), all
other models as history; beside it the same without history, and asked whether the first is at least as good: equal
models are then no mistake, and each answer has nearly all of delta. Pairs of AlpacaEval and of GSM8K, asked for the
sign and for "not worse by more than .02". Then scenes made to mislead (`benchmarks.pair_scenes`): a run misses when any
interval shown on the way was wrong, or its decision was. Bounds are the largest numbers that a true rate of delta stays
within with probability 99%.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import click
import numpy as np

from benchmarks.coverage import DELTA, most_misses
from benchmarks.pair_scenes import SCENES, Outcome, watch
from benchmarks.parallel import run_all
from benchmarks.tables import markdown, publish
from cereval.datasets.tables import ScoresTable, read_scores
from cereval.questions.compare.goal import CompareGoal, NotWorse, Sign
from cereval.questions.compare.session import CompareSession, Comparison
from cereval.questions.replay import drive

SCORES = Path(__file__).parents[2] / "shared/data/alpaca_eval/scores.parquet"
BINARY = "zeroeval_gsm8k"
"""The folder beside that of the scores with a table of 0/1 scores."""
BINS = ((0.0, 0.02, None), (0.02, 0.05, 240), (0.05, 0.1, 105), (0.1, 0.2, 60), (0.2, 1.0, 14))
"""From, to, and the most that the median may be."""

SIGN, REGRESSION, AS_GOOD = "which is better?", "not worse by more than .02?", "at least as good?"
GOALS: dict[str, tuple[CompareGoal, float]] = {
    SIGN: (Sign(), 0.0),
    REGRESSION: (NotWorse(0.02), -0.02),
    AS_GOOD: (NotWorse(0.0), 0.0),
}
"""What is asked, and the difference at which its answer turns."""
BOTH = (SIGN, REGRESSION)
"""Asked of the pairs of both tables."""
WAYS_OFF = ((0.0, 1.0), (0.0, 0.02), (0.02, 0.05), (0.05, 0.1), (0.1, 0.2), (0.2, 1.0))

CHUNK = 20


@dataclass(frozen=True, slots=True)
class Pair:
    """One comparison: the two columns, the seed of its draws, and what is asked."""

    scores: Path
    first: str
    second: str
    seed: int
    history: bool
    goal: str = SIGN


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a pair; difference: the true one."""

    pair: Pair
    difference: float
    result: Comparison

    @property
    def wrong_sign(self) -> bool:
        signs = {"first": 1, "second": -1}
        return self.result.decision in signs and signs[self.result.decision] * self.difference <= 0

    @property
    def missed(self) -> bool:
        inside = self.result.lower - 1e-9 <= self.difference <= self.result.upper + 1e-9
        tied = self.result.decision == "no-difference" and abs(self.difference) > 0.02
        turn = GOALS[self.pair.goal][1]
        refuted = {"not-worse": self.difference < turn, "worse": self.difference >= turn}
        return not inside or tied or self.wrong_sign or refuted.get(str(self.result.decision), False)


@lru_cache(maxsize=2)
def table(path: Path) -> ScoresTable:
    return read_scores(path)


def play(pair: Pair) -> Run:
    scores = table(pair.scores)
    first, second = scores.model(pair.first), scores.model(pair.second)
    past = [name for name in scores.models if name not in (pair.first, pair.second)]
    both = ~np.isnan(first) & ~np.isnan(second)
    session = CompareSession(
        int(both.sum()),
        goal=GOALS[pair.goal][0],
        confidence=1 - DELTA,
        history=scores.history(past)[both] if pair.history else None,
        seed=pair.seed,
    )
    result: Comparison = drive(session, np.column_stack((first, second))[both], 1)
    return Run(pair, float(first[both].mean() - second[both].mean()), result)


def random_pairs(path: Path, count: int, seed: int) -> list[Pair]:
    names, rng = list(table(path).models), np.random.default_rng(seed)
    chosen = [rng.choice(len(names), 2, replace=False) for _ in range(count)]
    return [
        Pair(path, names[a], names[b], number, history)
        for history in (True, False)
        for number, (a, b) in enumerate(chosen)
    ]


def both_goals(pairs: list[Pair]) -> list[Pair]:
    """The pairs with history, for both goals."""
    return [replace(pair, goal=goal) for goal in BOTH for pair in pairs if pair.history]


def goals_table(runs: list[Run]) -> str:
    rows = []
    for scores in dict.fromkeys(run.pair.scores for run in runs):
        for goal in BOTH:
            ours = [run for run in runs if (run.pair.scores, run.pair.goal) == (scores, goal)]
            rows += [_goals_row(scores, goal, ours, *limits) for limits in WAYS_OFF]
    return markdown(["data", "asked", "how far off", "pairs", "mean items", "misses"], rows)


def _goals_row(scores: Path, goal: str, runs: list[Run], low: float, high: float) -> list[object]:
    inside = [run for run in runs if low <= abs(run.difference - GOALS[goal][1]) < high]
    items = float(np.mean([run.result.n_evaluated for run in inside])) if inside else float("nan")
    misses = sum(run.missed for run in inside)
    return [scores.parent.name, goal, f"{low:g} to {high:g}", len(inside), f"{items:.1f}", misses]


def items_table(runs: list[Run]) -> str:
    header = ["true gap", "pairs", "median items", "at most", "met", "mean", "without history", "decisions"]
    return markdown(header, [_bin_row(runs, *limits) for limits in BINS])


def _bin_row(runs: list[Run], low: float, high: float, most: int | None) -> list[object]:
    inside = [run for run in runs if low <= abs(run.difference) < high]
    ours = [run for run in inside if run.pair.history]
    items = np.array([run.result.n_evaluated for run in ours])
    plain = [run.result.n_evaluated for run in inside if not run.pair.history]
    decisions = [str(run.result.decision) for run in ours]
    told = ", ".join(f"{decisions.count(kind)} {kind}" for kind in sorted(set(decisions)))
    if not ours:
        return [f"{low:g} to {high:g}", 0, "-", most or "-", "-", "-", "-", ""]
    median = float(np.median(items))
    met = "-" if most is None else "yes" if median <= most else "**NO**"
    gap = f"{low:g} to {high:g}"
    return [
        gap,
        len(ours),
        f"{median:g}",
        most or "-",
        met,
        f"{items.mean():.0f}",
        f"{np.median(plain):g}",
        told,
    ]


def as_good(pairs: list[Pair]) -> list[Pair]:
    """The pairs with history, asked whether the first is at least as good."""
    return [replace(pair, goal=AS_GOOD) for pair in pairs if pair.history]


def as_good_table(runs: list[Run]) -> str:
    rows = []
    for low, high, _ in BINS:
        inside = [run for run in runs if low <= abs(run.difference) < high]
        items = [run.result.n_evaluated for run in inside] or [0]
        wrong = sum(run.missed for run in inside)
        gap = f"{low:g} to {high:g}"
        rows.append([gap, len(inside), f"{np.median(items):g}", f"{np.mean(items):.0f}", wrong])
    return markdown([f"{AS_GOOD} true gap", "pairs", "median items", "mean", "anything wrong"], rows)


def wrong_table(runs: list[Run]) -> str:
    rows = []
    for history in (True, False):
        ours = [run for run in runs if run.pair.history is history]
        signs, misses = sum(run.wrong_sign for run in ours), sum(run.missed for run in ours)
        label = "history: others" if history else "no history"
        rows.append([label, len(ours), signs, misses, most_misses(len(ours))])
    return markdown(["runs with", "runs", "wrong signs", "anything wrong", "bound"], rows)


@dataclass(frozen=True, slots=True)
class Watched:
    """A chunk of one scene's seeds."""

    scene: str
    seeds: range


def play_scene(job: Watched) -> list[Outcome]:
    return [watch(job.scene, seed, 1 - DELTA) for seed in job.seeds]


def scenes_table(jobs: list[Watched], outcomes: list[list[Outcome]]) -> str:
    rows: list[list[object]] = []
    for name in dict.fromkeys(job.scene for job in jobs):
        ours = [one for job, part in zip(jobs, outcomes, strict=True) if job.scene == name for one in part]
        missed, bound = sum(one.missed for one in ours), most_misses(len(ours))
        wrong = sum(one.wrong for one in ours)
        items = float(np.mean([one.items for one in ours]))
        rows.append([name, len(ours), wrong, missed, bound, f"{items:.0f}", _holds(missed <= bound)])
    header = ["scene (400 items)", "runs", "wrong decisions", "misses", "bound", "mean items", "holds"]
    return markdown(header, rows)


def _holds(holds: bool) -> str:
    return "yes" if holds else "**NO**"


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="60 pairs and 40 runs of each scene.")
@click.option("--pairs", type=int, default=2000, show_default=True)
@click.option("--runs", type=int, default=400, show_default=True, help="Of each scene.")
@click.option("--both", type=int, default=600, show_default=True, help="Pairs that both goals are asked of.")
@click.option("--seed", type=int, default=2026, show_default=True, help="Of the choice of pairs.")
@click.option("--cores", type=int, default=2, show_default=True)
@click.option("--scores", type=click.Path(path_type=Path), default=SCORES, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Write the tables, with their command, here.")
def main(
    quick: bool, pairs: int, runs: int, both: int, seed: int, cores: int, scores: Path, out: Path | None
) -> None:
    pairs, runs, both = (60, 40, 40) if quick else (pairs, runs, both)
    chosen = random_pairs(scores, pairs, seed)
    measured = run_all(play, chosen, "pairs", cores) if pairs else []
    one_way = run_all(play, as_good(chosen), AS_GOOD, cores) if pairs else []
    tables = (scores, scores.parents[1] / BINARY / scores.name)
    asked = [one for path in tables for one in both_goals(random_pairs(path, both, seed))] if both else []
    told = run_all(play, asked, "both goals", cores) if both else []
    jobs = [
        Watched(name, range(at, min(at + CHUNK, runs))) for name in SCENES for at in range(0, runs, CHUNK)
    ]
    watched = run_all(play_scene, jobs, "scenes", cores)
    parts = [items_table(measured), wrong_table(measured), as_good_table(one_way)] if measured else []
    parts += [goals_table(told)] if told else []
    parts += [scenes_table(jobs, watched)] if jobs else []
    publish("Comparisons, AlpacaEval and scenes", "benchmarks.compare", "\n\n".join(parts), out)


if __name__ == "__main__":
    main()
