"""The repair experiment: read the failures of a first run, mend just those, and evaluate again.

    python -m benchmarks.repair --runs 200 --out benchmarks/results/repair-YYYY-MM-DD.md
    python -m benchmarks.repair --runs 200 --fixed-seed 0

The theorems need scores that do not depend on the draws. A version that was repaired where the first run looked does
depend on the draws of that run: whoever repeats them, with a fixed seed, meets the mended items again and no others.
With seeds drawn anew, which is the default, the second run is as good as any.

A run misses when its truth is outside the interval, when a pair is certified in the wrong order, or when a decision is
wrong. `choose` is the other trap: rank equal models on a few items, then rank the best and the worst of them again with
the answers kept. `bound` is the largest number of misses that a true miss rate of delta makes with probability 99%.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

import cereval
from benchmarks.coverage import DELTA, most_misses
from benchmarks.parallel import run_all
from benchmarks.stated_models import MODELS, Stated, named, new_store, questions
from benchmarks.tables import markdown, publish
from cereval.questions.mean.goal import Estimate
from cereval.questions.rank.goal import Order

SIZE = 600
EPS = 0.08
LEAST = 0.8
TIE = 0.1
LOOK = 40
"""Items that each model answers before two of them are chosen."""
ROUNDING = 1e-9
CHUNK = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """The second run: whether anything in it is wrong, what it says of the repaired model, and the truth."""

    missed: bool
    estimate: float
    truth: float
    kept: int = 0


def outside(one: Any, truth: float) -> bool:
    """Whether the truth is outside an interval."""
    return not one.lower - ROUNDING <= truth <= one.upper + ROUNDING


def first_version(rng: np.random.Generator, mean: float = 0.7) -> Stated:
    return Stated(rng.uniform(size=SIZE) < mean)


def mended(model: Stated) -> Stated:
    """The model, right wherever its run saw it fail."""
    return model.repaired([item for item in model.asked if not model.right[item]])


# -- one experiment for each way to evaluate --------------------------------------------------------------------------


def by_evaluate(rng: np.random.Generator, seed: int | None) -> Outcome:
    """`cereval.evaluate_scores`, twice."""

    def estimated(model: Stated) -> Any:
        def score(item: int) -> float:
            model.asked.append(item)
            return float(model.right[item])

        return cereval.evaluate_scores(range(SIZE), score, goal=Estimate(EPS), seed=seed)

    first = first_version(rng)
    estimated(first)
    second = mended(first)
    result = estimated(second)
    return Outcome(outside(result, second.mean), result.estimate, second.mean)


def by_run(rng: np.random.Generator, seed: int | None) -> Outcome:
    """`cereval run`, each time with a store of its own."""
    first = first_version(rng)
    _run(first, seed, eps=EPS)
    second = mended(first)
    result = _run(second, seed, eps=EPS)
    return Outcome(outside(result, second.mean), result.estimate, second.mean)


def by_run_in_one_store(rng: np.random.Generator, seed: int | None) -> Outcome:
    """`cereval run` twice in one store: the second learns from the first."""
    first = first_version(rng)
    with new_store() as store:
        cereval.evaluate(questions(SIZE), model=named(first)[0], eps=EPS, store=store, **seeded(seed))
        second = mended(first)
        result = cereval.evaluate(
            questions(SIZE), model=named(first, second)[1], eps=EPS, store=store, **seeded(seed)
        )
    return Outcome(outside(result, second.mean), result.estimate, second.mean)


def by_gate(rng: np.random.Generator, seed: int | None) -> Outcome:
    """`cereval gate --min .8`: it fails, is repaired, and is asked again."""
    first = first_version(rng)
    _run(first, seed, min=LEAST, fresh=True)
    second = mended(first)
    result = _run(second, seed, min=LEAST, fresh=True)
    passes = second.mean >= LEAST - ROUNDING
    wrong = result.decision is not None and (result.decision == "above") != passes
    return Outcome(wrong or outside(result, second.mean), result.estimate, second.mean)


def by_rank(rng: np.random.Generator, seed: int | None) -> Outcome:
    """`cereval rank` of three models, the worst of which is repaired."""
    first, rivals = first_version(rng, 0.65), [first_version(rng, mean) for mean in (0.75, 0.8)]
    _rank([first, *rivals], seed)
    second = mended(first)
    result = _rank([second, *rivals], seed)
    means = dict(zip(result.models, (one.mean for one in (second, *rivals)), strict=True))
    return Outcome(_wrong(result, means), result.intervals[result.models[0]].estimate, second.mean)


def by_choice(rng: np.random.Generator, seed: int | None) -> Outcome:
    """`cereval rank` of equal models; then of the best and the worst of them, with the answers kept."""
    right = np.arange(SIZE // 2) < 0.7 * SIZE // 2
    models = [Stated(rng.permutation(right)) for _ in range(MODELS)]
    with new_store() as store:
        names = named(*models)
        rows = questions(len(right))
        looked = cereval.rank(
            rows, names, goal=Order(TIE), max_calls=LOOK * MODELS, store=store, **seeded(seed)
        )
        estimates = {name: one.estimate for name, one in looked.intervals.items()}
        chosen = [max(names, key=estimates.__getitem__), min(names, key=estimates.__getitem__)]
        result = cereval.rank(rows, chosen, goal=Order(TIE / 2), store=store, **seeded(seed))
    kept = sum(result.certificate.get("provenance", {}).get("kept", {}).values())
    means = dict.fromkeys(result.models, float(right.mean()))
    first = result.intervals[result.models[0]]
    return Outcome(_wrong(result, means), first.estimate, float(right.mean()), kept)


def seeded(seed: int | None) -> Any:
    """Options with this seed; None: it is drawn."""
    return {} if seed is None else {"seed": seed}


def _run(model: Stated, seed: int | None, **settings: Any) -> Any:
    with new_store() as store:
        return cereval.evaluate(
            questions(SIZE), model=named(model)[0], store=store, **seeded(seed), **settings
        ).result


def _rank(models: list[Stated], seed: int | None) -> Any:
    with new_store() as store:
        return cereval.rank(
            questions(SIZE), named(*models), goal=Order(TIE), store=store, **seeded(seed)
        ).result


def _wrong(result: Any, means: dict[str, float]) -> bool:
    disordered = any(means[better] <= means[worse] + ROUNDING for better, worse in result.order)
    return disordered or any(outside(one, means[name]) for name, one in result.intervals.items())


WAYS: dict[str, Callable[[np.random.Generator, int | None], Outcome]] = {
    "evaluate": by_evaluate,
    "run": by_run,
    "run, one store": by_run_in_one_store,
    "gate": by_gate,
    "rank": by_rank,
    "choose, then rank": by_choice,
}


# -- many of them -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job:
    """Some experiments of one way; the populations are numbered, the seeds of the runs drawn or fixed."""

    way: str
    numbers: range
    seed: int | None


def play(job: Job) -> list[Outcome]:
    return [WAYS[job.way](np.random.default_rng([number, 18]), job.seed) for number in job.numbers]


def measure(ways: list[str], runs: int, seed: int | None) -> dict[str, list[Outcome]]:
    """Every way, `runs` times, on all cores."""
    jobs = [Job(way, range(at, min(at + CHUNK, runs)), seed) for way in ways for at in range(0, runs, CHUNK)]
    found: dict[str, list[Outcome]] = {way: [] for way in ways}
    for job, outcomes in zip(jobs, run_all(play, jobs, "repair"), strict=True):
        found[job.way] += outcomes
    return found


def table(found: dict[str, list[Outcome]], seed: int | None) -> str:
    header = [
        "way",
        "seed",
        "runs",
        "misses",
        "bound",
        "mean estimate",
        "mean truth",
        "answers kept",
        "holds",
    ]
    rows = [_row(way, outcomes, seed) for way, outcomes in found.items()]
    return markdown(header, rows)


def _row(way: str, outcomes: list[Outcome], seed: int | None) -> list[object]:
    misses, bound = sum(one.missed for one in outcomes), most_misses(len(outcomes))
    means = [f"{np.mean([getattr(one, name) for one in outcomes]):.3f}" for name in ("estimate", "truth")]
    kept = f"{np.mean([one.kept for one in outcomes]):.1f}"
    holds = "yes" if misses <= bound else "**NO**"
    return [way, "drawn" if seed is None else seed, len(outcomes), misses, bound, *means, kept, holds]


@click.command(help=__doc__)
@click.option("--runs", default=200, show_default=True, help="Experiments for each way to evaluate.")
@click.option(
    "--way", "ways", multiple=True, type=click.Choice(list(WAYS)), help="Only this; may be repeated."
)
@click.option("--fixed-seed", type=int, help="The seed of every run: the trap. Without it seeds are drawn.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the table, with its command, to this file."
)
def main(runs: int, ways: tuple[str, ...], fixed_seed: int | None, out: Path | None) -> None:
    found = measure(list(ways or WAYS), runs, fixed_seed)
    publish(f"The repair experiment at delta = {DELTA}", "benchmarks.repair", table(found, fixed_seed), out)
    wrong = [way for way, outcomes in found.items() if sum(x.missed for x in outcomes) > most_misses(runs)]
    if wrong and fixed_seed is None:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
