"""What a certified ranking costs on recorded results, and whether it is ever wrong.

    python -m benchmarks.rank [--full | --runs N] [--only PART] [--out FILE]

Quick: 5 runs of each; full: 200. "Ordered": the share of all model x item calls at the moment when every pair that is
truly further apart than the tie is in certified order, which only a replay can know. "Stopped": the share at which the
session stops by itself, because what is left unordered is unlikely to be further apart. Uniform: all models are asked
every item until the same holds; a tenth of the runs. Past: with the scores of models that are not ranked (AlpacaEval's
others; of GSM8K one half is ranked and the other past), and without, the same models and seeds. Floor: the same
sessions with claims by a z-test of the same level that looks after every item for free. That is not valid; what it
needs is a limit for methods that are.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.parallel import run_all
from benchmarks.rank_families import family_rows
from benchmarks.rank_floor import peeking
from benchmarks.tables import markdown, publish
from cereval.datasets.tables import read_scores
from cereval.questions.rank.goal import Order, RankGoal, Top
from cereval.questions.rank.order import PairClaims
from cereval.questions.rank.session import Ranking, RankSession

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TIE, WITHIN, DELTA = 0.05, 0.02, 0.05
ALPACA_MODELS = 50
DOUBTS = (0.1, 0.2, 0.45)
ALLOWED_TOP = {"GSM8K": 0.22, "AlpacaEval": 0.04, "MATH-L5": 0.06}


class Everyone(Order, frozen=True, tag="order"):
    """The same goal, with every model asked every item until it is reached."""

    def open(self, claims: PairClaims) -> Bools:
        found = ~np.eye(len(claims.above), dtype=bool)
        return found if self.unsettled(claims).any() else np.zeros_like(found)


@dataclass(frozen=True, slots=True)
class Run:
    """Shares of the full calls; what was wrong."""

    ordered: float
    stopped: float
    missing: int
    wrong: int
    missed: int
    short: float


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Items x models: those ranked, and those that are past."""

    ranked: Floats
    past: Floats | None = None

    @classmethod
    def split(cls, scores: Floats, ranked: int) -> Table:
        """So many models drawn with seed 0 are ranked, the others are past."""
        drawn = np.random.default_rng(0).permutation(scores.shape[1])
        return cls(scores[:, np.sort(drawn[:ranked])], scores[:, np.sort(drawn[ranked:])])


@lru_cache(maxsize=1)
def tables() -> dict[str, Table]:
    """Complete columns; of AlpacaEval 50 are ranked."""
    found = {}
    for name, folder in (
        ("GSM8K", "zeroeval_gsm8k"),
        ("AlpacaEval", "alpaca_eval"),
        ("MATH-L5", "zeroeval_math_l5"),
    ):
        columns = read_scores(DATA / folder / "scores.parquet").models.values()
        found[name] = np.column_stack([column for column in columns if not np.isnan(column).any()])
    whole = {name: Table(scores) for name, scores in found.items() if name != "AlpacaEval"}
    half = Table.split(found["GSM8K"], found["GSM8K"].shape[1] // 2)
    return {**whole, "AlpacaEval": Table.split(found["AlpacaEval"], ALPACA_MODELS), "GSM8K, half": half}


def run(scores: Floats, goal: RankGoal, seed: int, past: Floats | None = None) -> Run:
    """One session, and the moment at which every pair further apart than the tie was in order."""
    names = [str(i) for i in range(scores.shape[1])]
    session = RankSession(len(scores), names, goal=goal, confidence=1 - DELTA, history=past, seed=seed)
    means = scores.mean(axis=0)
    apart = means[:, None] - means[None, :] > TIE
    ordered, before = float("nan"), None
    while not session.done:
        for draw in session.ask(4096):
            session.tell(draw, float(scores[draw.item, draw.model]))
        if session.claims is not before:
            before = session.claims
            if np.isnan(ordered) and not (apart & ~before.above).any():
                ordered = session.n_evaluated / scores.size
    return judged(session.result(), means, ordered, apart)


@dataclass(frozen=True, slots=True)
class Job:
    """One run; peek: with claims that cost nothing to look at; past: with history."""

    data: str
    goal: RankGoal
    seed: int
    peek: bool = False
    past: bool = False


def play(job: Job) -> Run:
    table = tables()[job.data]
    with peeking() if job.peek else nullcontext():
        return run(table.ranked, job.goal, job.seed, table.past if job.past else None)


def runs_of(name: str, goal: RankGoal, count: int, *, peek: bool = False, past: bool = False) -> list[Run]:
    jobs = [Job(name, goal, seed, peek, past) for seed in range(count)]
    return run_all(play, jobs, f"{name}, {goal.spec()['goal']}")


def judged(result: Ranking, means: Floats, ordered: float, apart: Bools) -> Run:
    pairs = np.array([[int(one), int(other)] for one, other in result.order], dtype=int).reshape(-1, 2)
    certain = np.zeros_like(apart)
    certain[pairs[:, 0], pairs[:, 1]] = True
    limits = [result.intervals[str(i)] for i in range(len(means))]
    chosen = [int(name) for name in result.winners]
    best = np.sort(means)[::-1][len(chosen) - 1] if chosen else 0.0
    return Run(
        ordered=ordered,
        stopped=result.calls / result.calls_full,
        missing=int((apart & ~certain).sum()),
        wrong=int((means[pairs[:, 0]] < means[pairs[:, 1]]).sum()),
        missed=sum(not (x.lower - 1e-9 <= m <= x.upper + 1e-9) for x, m in zip(limits, means, strict=True)),
        short=float(best - means[chosen].min()) if chosen else 0.0,
    )


def order_rows(name: str, runs: int) -> list[list[object]]:
    mine = runs_of(name, Order(TIE), runs)
    every = runs_of(name, Everyone(TIE), max(runs // 10, 2))
    complete = [one.ordered for one in mine if one.missing == 0]
    at = float(np.nanmean([one.ordered for one in every]))
    return [
        [
            name,
            "calls when all pairs further apart were ordered (runs where they were)",
            _share(complete),
            "38%",
        ],
        [name, "runs in which they were all ordered at the stop", f"{len(complete) / runs:.1%}", ""],
        [
            name,
            "pairs further apart left unordered, mean",
            f"{np.mean([one.missing for one in mine]):.2f}",
            "",
        ],
        [name, "calls at the stop", _share([one.stopped for one in mine]), ""],
        [name, "uniform: the same", f"{at:.1%}", ""],
        [name, "uniform: calls at the stop", _share([one.stopped for one in every]), ""],
        [name, "calls / uniform, ordered", f"{np.mean(complete) / at:.2f}", "0.75"],
        [name, "calls / uniform, at the stop", f"{_ratio(mine, every):.2f}", "0.75"],
        [name, "runs with a wrong order", f"{np.mean([one.wrong > 0 for one in mine]):.1%}", "5%"],
        [name, "runs with an interval that misses", f"{np.mean([one.missed > 0 for one in mine]):.1%}", "5%"],
    ]


def doubt_rows(name: str, runs: int) -> list[list[object]]:
    """What giving pairs up earlier saves, and what it leaves unordered."""
    means = tables()[name].ranked.mean(axis=0)
    apart = int((means[:, None] - means[None, :] > TIE).sum())
    rows: list[list[object]] = []
    for doubt in DOUBTS:
        found = runs_of(name, Order(TIE, doubt), runs)
        left = np.mean([one.missing for one in found]) / apart
        shares = _share([one.stopped for one in found])
        rows.append(
            [
                name,
                f"doubt {doubt:g}: calls at the stop; pairs further apart left",
                f"{shares}; {left:.2%}",
                "",
            ]
        )
    return rows


def past_rows(name: str, runs: int) -> list[list[object]]:
    """What past models' scores save."""
    rows: list[list[object]] = []
    for way, past in (("without", False), ("with", True)):
        found = runs_of(name, Order(TIE), runs, past=past)
        complete = [one.ordered for one in found if one.missing == 0]
        wrong = np.mean([one.wrong > 0 for one in found])
        rows += [
            [name, f"{way} past: calls at the stop", _share([one.stopped for one in found]), ""],
            [name, f"{way} past: calls when all pairs further apart were ordered", _share(complete), ""],
            [name, f"{way} past: pairs left, mean", f"{np.mean([one.missing for one in found]):.2f}", ""],
            [name, f"{way} past: runs with a wrong order", f"{wrong:.1%}", "5%"],
            [name, f"{way} past: runs with an interval that misses", _missed(found), "5%"],
        ]
    return rows


def floor_rows(name: str, runs: int) -> list[list[object]]:
    """What claims that cost nothing to look at would need, with the same schedule."""
    found = runs_of(name, Order(TIE), max(runs // 10, 2), peek=True)
    complete = [one.ordered for one in found if one.missing == 0]
    missing = np.mean([one.missing for one in found])
    return [
        [name, "floor (not valid): calls when all pairs further apart were ordered", _share(complete), ""],
        [name, "floor (not valid): calls at the stop", _share([one.stopped for one in found]), ""],
        [name, "floor (not valid): pairs further apart left unordered, mean", f"{missing:.2f}", ""],
    ]


def _missed(found: list[Run]) -> str:
    return f"{np.mean([one.missed > 0 for one in found]):.1%}"


def _ratio(mine: list[Run], every: list[Run]) -> float:
    return float(np.mean([one.stopped for one in mine]) / np.mean([one.stopped for one in every]))


def top_rows(name: str, runs: int) -> list[list[object]]:
    found = runs_of(name, Top(1, WITHIN), runs)
    wrong = float(np.mean([one.short > WITHIN for one in found]))
    return [
        [name, "top-1: calls", _share([one.stopped for one in found]), f"{ALLOWED_TOP[name]:.0%}"],
        [name, f"top-1: answers more than {WITHIN} below the best", f"{wrong:.1%}", "5%"],
    ]


def _share(shares: list[float]) -> str:
    if not shares:
        return "none"
    return f"{np.mean(shares):.1%} (90% of runs: {np.quantile(shares, 0.9):.1%})"


# -- size --------------------------------------------------------------------------------------------------------------


def large(models: int = 200, items: int = 10_000, calls: int = 200_000) -> list[list[object]]:
    """What the scheduler itself takes: all deciding, none of the answering."""
    rng = np.random.default_rng(0)
    scores = (rng.uniform(size=(items, models)) < np.linspace(0.5, 0.9, models)).astype(float)
    session = RankSession(items, [str(i) for i in range(models)], goal=Order(TIE), budget=calls)
    start = time.perf_counter()
    while not session.done:
        for draw in session.ask(4096):
            session.tell(draw, float(scores[draw.item, draw.model]))
    spent = 1000 * (time.perf_counter() - start) / session.n_evaluated
    session.result()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    name = f"{models} models x {items:,} items, {session.n_evaluated:,} calls"
    return [[name, "ms per draw", f"{spent:.3f}", "5"], [name, "peak memory, GB", f"{memory:.2f}", "2"]]


def alone(work: Callable[..., list[list[object]]], *arguments: Any) -> list[list[object]]:
    """Runs in a fresh process, for a peak memory of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


PARTS = ("size", "families", "top", "order", "past", "floor", "doubt")
DATA_OF = {"top": ("GSM8K", "AlpacaEval", "MATH-L5"), "past": ("GSM8K, half", "AlpacaEval")}
"""Where a part is played on other data than GSM8K and AlpacaEval."""


def measured(part: str, runs: int) -> list[list[object]]:
    """The rows of one part of the table."""
    if part == "size":
        return alone(large)
    if part == "families":
        return family_rows(2 * runs)
    rows = {
        "top": top_rows,
        "order": order_rows,
        "past": past_rows,
        "floor": floor_rows,
        "doubt": doubt_rows,
    }[part]
    return [row for name in DATA_OF.get(part, ("GSM8K", "AlpacaEval")) for row in rows(name, runs)]


@click.command(help=__doc__)
@click.option("--full", is_flag=True, help="200 runs of each instead of 5.")
@click.option("--runs", type=click.IntRange(1), help="Another number of runs.")
@click.option("--only", type=click.Choice(PARTS), multiple=True, help="Only this part; may be repeated.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the table, with its command, to this file."
)
def main(full: bool, runs: int | None, only: tuple[str, ...], out: Path | None) -> None:
    count = runs or (200 if full else 5)
    rows = [row for part in only or PARTS for row in measured(part, count)]
    body = markdown(["data", "what", f"value, {count} runs", "required"], rows)
    publish("Ranking", "benchmarks.rank", body, out)


if __name__ == "__main__":
    main()
