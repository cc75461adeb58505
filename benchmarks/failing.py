"""Calls that fail for good: 0 to 20% of the items, any number in flight, every kind of question.

    python -m benchmarks.failing --runs 500 --out benchmarks/results/failing-YYYY-MM-DD.md

A run hangs when it has not ended after a minute. It misses when a truth is outside its interval, a decision is wrong or
a pair is in the wrong order; the truth counts what the model would have said where its calls fail: mostly the wrong
thing. Answers and failures arrive in an order of their own. `bound` is the largest number of misses that a true miss
rate of delta makes with probability 99%.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import click
import numpy as np

import cereval
from benchmarks.coverage import DELTA, most_misses
from benchmarks.parallel import run_all
from benchmarks.repair import outside
from benchmarks.stated_models import Stated, named, new_store, questions
from benchmarks.tables import markdown, publish
from cereval.datasets.base import DataSet, Item
from cereval.questions.compare.goal import Difference, NotWorse
from cereval.questions.rank.goal import Order, Top
from cereval.questions.tasks.goal import Macro, WhichFail
from cereval.runner.finding import planned
from cereval.runner.resume import extend_run
from cereval.runner.run import carry_out
from cereval.store.base import opened_store

SIZE = 240
MORE = 80
TASKS = 3
EPS = 0.1
LIMIT_S = 60
IN_FLIGHT = (1, 2, 3, 8, 16, 32)
MOST_FAILING = 0.2
ROUNDING = 1e-9
CHUNK = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one run: `hung` and `wrong` are the two things that may not happen, or not often."""

    kind: str
    hung: bool
    missed: bool
    failures: int
    calls: int


def model_of(rng: np.random.Generator, mean: float, rate: float, size: int = SIZE) -> Stated:
    """A model that fails more often where it would have been wrong; answers are late by up to 2 ms."""
    right = rng.uniform(size=size) < mean
    failing = rng.uniform(size=size) < rate * np.where(right, 0.6, 1.4)
    return Stated(right, failing, slow_s=0.002)


# -- the kinds --------------------------------------------------------------------------------------------------------


def estimate(rng: np.random.Generator, rate: float, how: dict[str, Any]) -> Any:
    model = model_of(rng, 0.7, rate)
    found: Any = cereval.evaluate(questions(SIZE), model=named(model)[0], eps=EPS, **how).result
    return found, outside(found, model.mean)


def threshold(rng: np.random.Generator, rate: float, how: dict[str, Any]) -> Any:
    model, least = model_of(rng, 0.7, rate), float(rng.choice([0.5, 0.65, 0.75]))
    found: Any = cereval.evaluate(questions(SIZE), model=named(model)[0], min=least, **how).result
    wrong = found.decision is not None and (found.decision == "above") != (model.mean >= least - ROUNDING)
    return found, wrong or outside(found, model.mean)


def compare(rng: np.random.Generator, rate: float, how: dict[str, Any]) -> Any:
    models = [model_of(rng, mean, rate) for mean in (0.75, 0.6)]
    goal = Difference(2 * EPS) if rng.uniform() < 0.5 else NotWorse(0.1)
    found: Any = cereval.compare(questions(SIZE), *named(*models), goal=goal, **how).result
    truth = models[0].mean - models[1].mean
    right = {
        "first": truth > 0,
        "second": truth < 0,
        "no-difference": abs(truth) <= 2 * EPS,
        "not-worse": truth >= -0.1 - ROUNDING,
        "worse": truth < -0.1,
        "undecided": True,
    }
    return found, not right[found.decision] or outside(found, truth)


def rank(rng: np.random.Generator, rate: float, how: dict[str, Any]) -> Any:
    models = [model_of(rng, mean, rate) for mean in (0.85, 0.7, 0.5)]
    goal = Order(0.15) if rng.uniform() < 0.5 else Top(1, 0.1)
    found: Any = cereval.rank(questions(SIZE), named(*models), goal=goal, **how).result
    means = dict(zip(found.models, (model.mean for model in models), strict=True))
    wrong = any(means[better] <= means[worse] for better, worse in found.order)
    return found, wrong or any(outside(one, means[name]) for name, one in found.intervals.items())


def tasks(rng: np.random.Generator, rate: float, how: dict[str, Any]) -> Any:
    model, least = model_of(rng, 0.7, rate), 0.6
    goal = Macro(EPS) if rng.uniform() < 0.5 else WhichFail(least)
    found: Any = cereval.tasks(questions(SIZE, TASKS), model=named(model)[0], goal=goal, **how).result
    means = {f"kind {number}": float(model.right[number::TASKS].mean()) for number in range(TASKS)}
    wrong = any(
        outside(one, means[name])
        or (one.verdict is not None and (one.verdict == "pass") != (means[name] >= least))
        for name, one in found.tasks.items()
    )
    return found, wrong or outside(found.macro, float(np.mean(list(means.values()))))


def growing(rng: np.random.Generator, rate: float, how: dict[str, Any]) -> Any:
    """Two versions, the second of which holds the first's items and some more."""
    model = model_of(rng, 0.7, rate, SIZE + MORE)
    (name,), rows = named(model), questions(SIZE + MORE)
    first = cereval.extend(None, rows[:SIZE], model=name, eps=EPS, **how)
    with opened_store(how["store"]) as store:
        more = [Item(f"more {row['answer']}", row["question"], (row["answer"],)) for row in rows[SIZE:]]
        work = extend_run(first.run_id, store, DataSet.of("more", more), {})
        found: Any = asyncio.run(
            carry_out(work, planned(work.plan, work.items, store, history=True), store)
        ).result
    wrong = any(outside(one, float(model.right[: one.n_items].mean())) for one in found.versions)
    return found, wrong


KINDS: dict[str, Callable[[np.random.Generator, float, dict[str, Any]], Any]] = {
    "run --eps": estimate,
    "run --at-least": threshold,
    "compare": compare,
    "rank": rank,
    "tasks": tasks,
    "extend": growing,
}


# -- one run, and many ------------------------------------------------------------------------------------------------


class HungError(Exception):
    """A run that did not end."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise where what is inside takes longer, whatever it waits for."""

    def stop(_: int, __: FrameType | None) -> None:
        raise HungError(f"no end after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def outcome(number: int, limit_s: float = LIMIT_S) -> Outcome:
    """Run number so many: its kind, its share of failing items and its calls in flight are drawn from it."""
    rng = np.random.default_rng([number, 81])
    kind = list(KINDS)[number % len(KINDS)]
    rate, connections = float(rng.uniform(0, MOST_FAILING)), int(rng.choice(IN_FLIGHT))
    with new_store() as store:
        try:
            with limited(limit_s):
                found, missed = KINDS[kind](rng, rate, {"store": store, "connections": connections})
        except HungError:
            return Outcome(kind, hung=True, missed=False, failures=0, calls=0)
    return Outcome(kind, hung=False, missed=missed, failures=found.failures, calls=found.n_evaluated)


def play(numbers: range) -> list[Outcome]:
    return [outcome(number) for number in numbers]


def measure(runs: int) -> list[Outcome]:
    """So many runs, on all cores."""
    jobs = [range(at, min(at + CHUNK, runs)) for at in range(0, runs, CHUNK)]
    return [one for outcomes in run_all(play, jobs, "failing") for one in outcomes]


def table(found: list[Outcome]) -> str:
    header = ["kind", "runs", "hung", "misses", "bound", "failed calls", "mean results", "holds"]
    rows = [_row(kind, [one for one in found if one.kind == kind]) for kind in KINDS]
    return markdown(header, [*rows, _row("all", found)])


def _row(kind: str, found: list[Outcome]) -> list[object]:
    hung, misses, bound = (
        sum(one.hung for one in found),
        sum(one.missed for one in found),
        most_misses(len(found)),
    )
    calls = f"{np.mean([one.calls for one in found]):.1f}" if found else "-"
    holds = "yes" if not hung and misses <= bound else "**NO**"
    return [kind, len(found), hung, misses, bound, sum(one.failures for one in found), calls, holds]


@click.command(help=__doc__)
@click.option("--runs", default=500, show_default=True, help="Runs in all; the kinds take turns.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the table, with its command, to this file."
)
def main(runs: int, out: Path | None) -> None:
    found = measure(runs)
    publish(f"Runs with calls that fail for good, delta = {DELTA}", "benchmarks.failing", table(found), out)
    if any(one.hung for one in found) or sum(one.missed for one in found) > most_misses(len(found)):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
