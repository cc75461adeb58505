"""How often is the usual interval wrong? `python -m benchmarks.peeking`

What most people do: the mean plus and minus 1.96 standard errors. Looked at after every answer (from the 30th on)
until it is narrow enough, it misses far more often than the 5% it claims where scores are rare; at one fixed number of
answers it misses where the score is near 0 or 1. Beside it `uniform`, which may be looked at after every answer.

Populations of 0/1 scores, N = 5,000, goal +-.02; a run misses when the interval at its end does not hold the mean.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import markdown, publish
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session
from cereval.questions.replay import drive

SIZE, EPS, LEAST, FIXED, QUANTILE = 5000, 0.02, 30, 100, 1.959964
MEANS = (0.5, 0.8, 0.9, 0.97)

Floats = NDArray[np.float64]


def usual_interval(scores: Floats) -> tuple[Floats, Floats]:
    """Return the running mean, and 1.96 standard errors of it."""
    count = np.arange(1, len(scores) + 1)
    mean = np.cumsum(scores) / count
    return mean, QUANTILE * np.sqrt(mean * (1 - mean) / count)


def looking_misses(scores: Floats, truth: float) -> bool:
    """Tell whether the usual interval misses where it is first narrow enough."""
    mean, radius = usual_interval(scores)
    narrow = np.flatnonzero(radius[LEAST - 1 :] <= EPS)
    at = LEAST - 1 + int(narrow[0]) if len(narrow) else len(scores) - 1
    return bool(abs(mean[at] - truth) > radius[at])


def fixed_misses(scores: Floats, truth: float) -> bool:
    """Tell whether the usual interval misses after a number of answers that was fixed before."""
    mean, radius = usual_interval(scores[:FIXED])
    return bool(abs(mean[-1] - truth) > radius[-1])


def certified_misses(scores: Floats, truth: float, seed: int) -> bool:
    """Tell whether the certified interval misses where a session ends."""
    session = Session(SIZE, goal=Estimate(EPS), method="uniform", seed=seed)
    result = drive(session, scores, 1)
    return not result.lower <= truth <= result.upper


def row(mean: float, runs: int, certified: int) -> list[object]:
    """Return the miss rates at one mean."""
    misses = np.zeros(3)
    for seed in range(runs):
        rng = np.random.default_rng([seed, int(100 * mean)])
        scores = rng.permutation((np.arange(SIZE) < mean * SIZE).astype(float))
        misses[:2] += looking_misses(scores, mean), fixed_misses(scores, mean)
        if seed < certified:
            misses[2] += certified_misses(scores, mean, seed)
    looking, fixed = misses[:2] / runs
    return [mean, f"{looking:.1%}", f"{fixed:.1%}", f"{misses[2] / certified:.1%} ({certified} runs)"]


@click.command(help=__doc__)
@click.option("--runs", default=2000, show_default=True, help="Runs of the usual interval at each mean.")
@click.option("--certified", default=100, show_default=True, help="Runs of `uniform` at each mean.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the table, with its command, to this file."
)
def main(runs: int, certified: int, out: Path | None) -> None:
    header = [
        "mean",
        "usual interval, looked at until narrow",
        f"usual interval, {FIXED} answers",
        "cereval, looked at after every answer",
    ]
    body = markdown(header, [row(mean, runs, certified) for mean in MEANS])
    publish("Miss rates of the usual 95% interval", "benchmarks.peeking", body, out)


if __name__ == "__main__":
    main()
