"""What the engine itself costs, without any model.

    python -m benchmarks.engine [--out FILE]

Every timing is also given as a ratio to a fixed numpy loop in the same run, so that machines can be compared.
Each replay runs in a process of its own: its peak memory is its own.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.tables import markdown, publish
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session

MMLU_SIZE, MMLU_EPS, MMLU_MEAN = 14_042, 0.0103, 0.75
FEATURES = 256
HUGE = 1_000_000
WINDOWS = 5


@dataclass(frozen=True, slots=True)
class Timing:
    """One measurement, its limit (None: for information), and the peak memory of its process."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False

    @property
    def met(self) -> str:
        if self.limit is None:
            return ""
        holds = self.value >= self.limit if self.at_least else self.value <= self.limit
        return "yes" if holds else "**NO**"

    def row(self, reference: float) -> list[object]:
        ratio = f"{self.value / reference:.2f}" if self.unit == "s" else ""
        bound = "" if self.limit is None else f"{'>=' if self.at_least else '<='} {self.limit:g}"
        return [self.name, f"{self.value:.3g}", self.unit, ratio, bound, self.met]


def reference_loop() -> float:
    """Seconds for 20,000 rounds of array work of the size that one step does."""
    values = np.linspace(0.1, 0.9, 1000)
    start = time.perf_counter()
    for _ in range(20_000):
        np.log1p(values * 0.5)
    return time.perf_counter() - start


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def mmlu_like(with_features: bool) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """0/1 scores of the size of MMLU; features of which the first says a little."""
    rng = np.random.default_rng(3)
    scores = (rng.uniform(size=MMLU_SIZE) < MMLU_MEAN).astype(np.float64)
    if not with_features:
        return scores, {}
    features = rng.standard_normal((MMLU_SIZE, FEATURES), dtype=np.float32)
    features[:, 0] += scores
    return scores, {"embeddings": features}


def replayed(method: str, limit: float) -> list[Timing]:
    """One replay with the cost of its steps in equal windows of n."""
    scores, side = mmlu_like(method == "active")
    start = time.perf_counter()
    session = Session(MMLU_SIZE, goal=Estimate(MMLU_EPS), method=method, **side)
    moments = [time.perf_counter()]
    while not session.done:
        for draw in session.ask(16):
            session.tell(draw, float(scores[draw.item]))
        moments.append(time.perf_counter())
    name = f"replay of {MMLU_SIZE} items at {MMLU_EPS}, {method}"
    calls = session.n_evaluated
    windows = [_per_step(moments, part) for part in range(WINDOWS)]
    return [
        Timing(name, moments[-1] - start, "s", limit),
        Timing(f"{name}: peak memory", peak_megabytes(), "MB", 300),
        Timing(f"{name}: calls", calls, "calls"),
        *(
            Timing(f"{name}: step, n around {calls * (2 * part + 1) // (2 * WINDOWS)}", micros, "us")
            for part, micros in enumerate(windows)
        ),
    ]


def _per_step(moments: list[float], part: int) -> float:
    edges = [part * (len(moments) - 1) // WINDOWS, (part + 1) * (len(moments) - 1) // WINDOWS]
    return 1e6 * (moments[edges[1]] - moments[edges[0]]) / (16 * max(edges[1] - edges[0], 1))


def huge() -> list[Timing]:
    """A pool of a million items: opening, then asking and telling 20,000 of them, or to the end."""
    start = time.perf_counter()
    session = Session(HUGE, goal=Estimate(0.005), method="uniform")
    opened = time.perf_counter()
    while not session.done and session.n_evaluated < 20_000:
        for draw in session.ask(64):
            session.tell(draw, float(draw.item % 4 > 0))
    rate = session.n_evaluated / (time.perf_counter() - opened)
    return [
        Timing(f"pool of {HUGE} items: opens", opened - start, "s", 2.0),
        Timing(f"pool of {HUGE} items: asks and tells", rate, "items/s", 5000, at_least=True),
        Timing(f"pool of {HUGE} items: peak memory", peak_megabytes(), "MB"),
    ]


def alone(work: Callable[..., list[Timing]], *arguments: Any) -> list[Timing]:
    """Runs in a fresh process, for a peak memory of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


@click.command(help=__doc__)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the table, with its command, to this file."
)
def main(out: Path | None) -> None:
    reference = reference_loop()
    timings = [
        Timing("reference: 20,000 x log1p of 1,000 numbers", reference, "s"),
        *alone(replayed, "uniform", 2.0),
        *alone(replayed, "active", 6.0),
        *alone(huge),
    ]
    header = ["what", "value", "unit", "x reference", "required", "met"]
    body = markdown(header, [timing.row(reference) for timing in timings])
    publish("Engine cost", "benchmarks.engine", body, out)


if __name__ == "__main__":
    main()
