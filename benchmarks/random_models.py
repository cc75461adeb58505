"""Models that answer differently every time: forecasts that remember an item's own answers, beside those that do not.

    python -m benchmarks.random_models --seeds 2
    python -m benchmarks.random_models --seeds 5 --out benchmarks/results/random-models-YYYY-MM-DD.md

Rates of ten answers in --data (LiveCodeBench), 30 items of which most are always right or always wrong, and made up
ones. Every answer is a fresh toss of its item's rate, delta = .05. `uniform` is what there was before; in brackets the
share of its answers, and the worst model's. A run misses when the mean of the rates is outside the last interval.
Miss rates in hostile families: `python -m benchmarks.coverage --method memory`.

Comparisons: models of LiveCodeBench that are so many points apart, items asked again with memory and without
(`naive`); and equal models, right four times out of five, with a budget of draws, as they are compared by default
now and as if they repeated themselves (the target benchmark).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from benchmarks.coverage import DELTA, most_misses
from benchmarks.parallel import run_all
from benchmarks.side_information import DATA
from benchmarks.tables import markdown, publish
from cereval.datasets.tables import read_scores
from cereval.methods.base import Setting
from cereval.methods.uniform import Uniform
from cereval.questions.compare.session import CompareSession
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session

Floats = NDArray[np.float64]

EPS = (0.03, 0.02)
UNIFORM, MEMORY, HISTORY = WAYS = ("uniform", "memory", "memory + history")
FOLDERS = {"repair": "livecodebench_repair", "test generation": "livecodebench_testgen"}
ASKED_ONCE = "N=1"
"""In the name of a model whose rates are not known."""


@dataclass(frozen=True, slots=True)
class Job:
    """All runs of one model, by its number in a group, at one eps in one way."""

    group: str
    model: int
    eps: float
    way: str
    seeds: int
    data: Path


@dataclass(frozen=True, slots=True)
class Runs:
    """What they took: mean number of answers, and how often the interval missed."""

    job: Job
    answers: float
    misses: int


def rates_of(group: str, data: Path) -> Floats:
    """The rates of a group of models: items x models."""
    if group in FOLDERS:
        found = read_scores(data / FOLDERS[group] / "scores.parquet").models
        return np.column_stack([column for name, column in found.items() if ASKED_ONCE not in name])
    return MADE_UP[group][:, None]


def _made_up() -> dict[str, Floats]:
    rng = np.random.default_rng(3)
    rates = [1.0] * 13 + [0.0] * 9 + [0.9, 0.8, 0.7, 0.6, 0.5, 0.5, 0.4, 0.3]
    return {
        "30 items": np.array(rates),
        "442 items at .4": np.full(442, 0.4),
        "442 items at .03": np.full(442, 0.03),
        "30 items at .9": np.full(30, 0.9),
        "442 items, Beta(2,2)": rng.beta(2, 2, 442),
        "facts, 5% of 2,000": (np.arange(2000) < 100) * 1.0,
        "facts, 40% of 5,000": (np.arange(5000) < 2000) * 1.0,
    }


MADE_UP = _made_up()


def play(job: Job) -> Runs:
    table = rates_of(job.group, job.data)
    rates, misses, answers = table[:, job.model], 0, []
    history = np.delete(table, job.model, axis=1) if job.way == HISTORY else None
    for seed in range(job.seeds):
        tosses = np.random.default_rng([seed, job.model, 987])
        session = Session(
            len(rates),
            goal=Estimate(job.eps),
            target="expected",
            method=job.way.split()[0],
            history=history,
            seed=1000 * job.model + seed,
        )
        while not session.done:
            for draw in session.ask(1):
                session.tell(draw, float(tosses.random() < rates[draw.item]))
        interval = session.interval
        misses += not interval.lower <= rates.mean() <= interval.upper
        answers.append(session.n_evaluated)
    return Runs(job, float(np.mean(answers)), misses)


def jobs(data: Path, seeds: int) -> list[Job]:
    found = []
    for group in (*FOLDERS, *MADE_UP):
        models = rates_of(group, data).shape[1]
        for way in WAYS if models > 1 else WAYS[:2]:
            times = seeds if models > 1 else 10 * seeds
            found += [Job(group, model, eps, way, times, data) for model in range(models) for eps in EPS]
    return found


def theory(table: Floats, eps: float) -> tuple[float, float]:
    """Draws whose normal interval is as wide, variance known: all items alike, and the least with the rates known."""
    quantile = float(ndtri(1 - DELTA / 2)) / eps
    mean, within = table.mean(axis=0), np.sqrt(table * (1 - table)).mean(axis=0)
    return float((mean * (1 - mean)).mean()) * quantile**2, float((within**2).mean()) * quantile**2


def tabulate(measured: Sequence[Runs], data: Path) -> str:
    rows = []
    for group in dict.fromkeys(one.job.group for one in measured):
        for eps in EPS:
            found = {
                way: [
                    one for one in measured if (one.job.group, one.job.eps, one.job.way) == (group, eps, way)
                ]
                for way in WAYS
            }
            independent, least = theory(rates_of(group, data), eps)
            cells = [_cell(found[way], found[UNIFORM]) for way in WAYS]
            rows.append([group, len(found[UNIFORM]), eps, *cells, f"{independent:,.0f} / {least:,.0f}"])
    runs = [one for one in measured if one.job.way != UNIFORM]
    count, missed = sum(one.job.seeds for one in runs), sum(one.misses for one in runs)
    header = ["items", "models", "eps", *WAYS, "normal theory: independent / rates known"]
    said = (
        f"Misses with memory: {missed} of {count:,} runs; at most {most_misses(count)} with probability 99%."
    )
    return f"{markdown(header, rows)}\n\n{said}"


def _cell(runs: Sequence[Runs], before: Sequence[Runs]) -> str:
    if not runs:
        return ""
    mean, usual = (float(np.mean([one.answers for one in ones])) for ones in (runs, before))
    if runs is before:
        return f"{mean:,.0f}"
    worst = max(one.answers / other.answers for one, other in zip(runs, before, strict=True))
    beside = f"; worst {worst:.2f}" if len(runs) > 1 else ""
    return f"{mean:,.0f} ({mean / usual:.2f}{beside})"


# -- comparisons ------------------------------------------------------------------------------------------------------

NAIVE, TOSSES = "naive", "benchmark"
FRESH: Literal["expected"] = "expected"
GAPS = {"close": (0.01, 0.04), "wide": (0.06, 0.2)}
EQUAL = 0.8


@dataclass(frozen=True, slots=True)
class Pairing:
    """Comparisons of two models, with a seed each: how they are made, and after how many draws they are given up."""

    name: str
    way: str
    pairs: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]
    budget: int | None
    first_seed: int = 0


@dataclass(frozen=True, slots=True)
class Compared:
    """What became of them: draws, how many named a winner, and how many intervals or decisions were wrong."""

    pairing: Pairing
    draws: tuple[int, ...]
    named: int
    wrong: int


def compare(pairing: Pairing) -> Compared:
    draws, named, wrong = [], 0, 0
    for seed, (one, other) in enumerate(pairing.pairs, pairing.first_seed):
        first, second, size = np.array(one), np.array(other), len(one)
        tosses = np.random.default_rng([seed, 55])
        target = TOSSES if pairing.way == TOSSES else FRESH
        session = CompareSession(size, target=target, budget=pairing.budget, seed=seed)
        if pairing.way == NAIVE:
            setting = Setting(session.pool, FRESH, DELTA, seed, session.goal.aim(pairing.budget))
            session._predictor = None
            session._begin(Uniform(setting), None)
        while not session.done:
            for draw in session.ask(1):
                rates = first[draw.item], second[draw.item]
                session.tell(draw, *(float(tosses.random() < rate) for rate in rates))
        result, truth = session.result(), float(first.mean() - second.mean())
        winner = {"first": 1, "second": -1}.get(str(result.decision), 0)
        named += winner != 0
        wrong += (
            not result.lower <= truth <= result.upper or winner * truth < 0 or (winner != 0 and truth == 0)
        )
        draws.append(result.n_evaluated)
    return Compared(pairing, tuple(draws), named, wrong)


def pairings(data: Path, pairs: int, equal: int) -> list[Pairing]:
    found = []
    for group in FOLDERS:
        table = rates_of(group, data)
        means = table.mean(axis=0)
        for gap, (least, most) in GAPS.items():
            apart = [
                (tuple(table[:, i]), tuple(table[:, j]))
                for i in range(len(means))
                for j in range(i)
                if least <= abs(means[i] - means[j]) <= most
            ]
            chosen = tuple(apart[:: max(len(apart) // pairs, 1)][:pairs])
            found += [Pairing(f"{group}, {gap}", way, chosen, None) for way in (NAIVE, FRESH)]
    for size in (60, 300):
        rates = (EQUAL,) * size
        for way in (TOSSES, FRESH):
            alike = ((rates, rates),) * equal
            found.append(Pairing(f"{size} items, equal models", way, alike, 400))
    return [
        Pairing(one.name, one.way, one.pairs[at : at + CHUNK], one.budget, at)
        for one in found
        for at in range(0, len(one.pairs), CHUNK)
    ]


CHUNK = 10


def tabulate_compared(found: Sequence[Compared]) -> str:
    rows = []
    for name, way in dict.fromkeys((one.pairing.name, one.pairing.way) for one in found):
        own = [one for one in found if (one.pairing.name, one.pairing.way) == (name, way)]
        draws = [count for one in own for count in one.draws]
        named, wrong = sum(one.named for one in own), sum(one.wrong for one in own)
        mean, bound = f"{np.mean(draws):,.0f}", most_misses(len(draws))
        rows.append([name, way, len(draws), mean, named, wrong, bound])
    header = ["models", "way", "comparisons", "draws", "winner named", "wrong", "bound (99%)"]
    return markdown(header, rows)


@click.command(help=__doc__)
@click.option(
    "--seeds", default=2, show_default=True, help="Runs of each model, ten times as many of made up ones."
)
@click.option("--pairs", default=6, show_default=True, help="Comparisons of each distance.")
@click.option("--equal", default=400, show_default=True, help="Comparisons of equal models of each size.")
@click.option("--data", type=click.Path(path_type=Path), default=DATA, show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the table, with its command, to this file."
)
def main(seeds: int, pairs: int, equal: int, data: Path, out: Path | None) -> None:
    measured = run_all(play, jobs(data, seeds), "random models") if seeds else []
    compared = run_all(compare, pairings(data, pairs, equal), "comparisons")
    tables = [tabulate(measured, data)] if measured else []
    body = "\n\n".join([*tables, tabulate_compared(compared)])
    publish("Models that answer differently every time", "benchmarks.random_models", body, out)


if __name__ == "__main__":
    main()
