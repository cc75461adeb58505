"""Nightly gates of ten checkpoints: what a candidate's own past saves, and what a useless past costs.

    python -m benchmarks.nightly --seeds 20 --out benchmarks/results/nightly-DATE.md

Models of one family stand for the checkpoints of ten nights. Every night a gate lies three points below what the
checkpoint of that night is worth, as gates do whose bar is moved along. The past of a night is what the gates before it
asked, and no more; a useless past has the same scores in another order. What a gate takes differs much from seed to
seed, so a useless past is also measured with another goal, the mean within 4 points. Needs ../shared/data.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import markdown, publish
from cereval.datasets.tables import read_scores
from cereval.questions.mean.goal import Estimate, Threshold
from cereval.questions.mean.session import Session
from cereval.questions.replay import drive

Floats = NDArray[np.float64]
MARGIN = 0.03
"""How far below the checkpoint of the night its gate lies."""
EPS = 0.04
PASTS = ("none", "own", "useless")

GPT = ("gpt-3.5-turbo-0125", "gpt-4o-mini-2024-07-18", "gpt-4o-2024-05-13", "gpt-4o-2024-08-06")
CLAUDE = (
    "claude-3-haiku-20240307",
    "claude-3-opus-20240229",
    "claude-3-5-sonnet-20240620",
    "claude-3-5-haiku-20241022",
    "claude-3-5-sonnet-20241022",
)
LLAMA = (
    "Meta-Llama-3-8B-Instruct",
    "Meta-Llama-3.1-8B-Instruct",
    "Meta-Llama-3-70B-Instruct",
    "Meta-Llama-3.1-70B-Instruct",
    "Meta-Llama-3.1-405B-Instruct@hyperbolic",
    "Llama-3.1-405B-Inst@sambanova",
)
GEMINI = ("gemini-1.5-flash", "gemini-1.5-flash-exp-0827", "gemini-1.5-pro")
VICUNA = (
    "vicuna-7b",
    "vicuna-13b",
    "vicuna-7b-v1.3",
    "vicuna-13b-v1.3",
    "vicuna-33b-v1.3",
    "vicuna-7b-v1.5",
    "vicuna-13b-v1.5",
    "vicuna-13b-v1.5-togetherai",
)
TABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "zeroeval_gsm8k": {"GPT": GPT, "Claude": CLAUDE, "Llama": LLAMA, "Gemini": GEMINI},
    "zeroeval_math_l5": {"GPT": GPT, "Claude": CLAUDE, "Llama": LLAMA, "Gemini": GEMINI},
    "alpaca_eval": {"Vicuna": VICUNA},
}
NIGHTS = 10


def nights_of(family: Sequence[str]) -> list[str]:
    """Return ten nights: each checkpoint stays for a while, as checkpoints do.

    >>> nights_of(["a", "b", "c"])
    ['a', 'a', 'a', 'a', 'b', 'b', 'b', 'c', 'c', 'c']
    """
    return [family[night * len(family) // NIGHTS] for night in range(NIGHTS)]


def gate(column: Floats) -> Threshold:
    return Threshold(float(column.mean()) - MARGIN)


def within(column: Floats) -> Estimate:  # noqa: ARG001
    return Estimate(EPS)


def ask_nights(
    columns: Sequence[Floats], seed: int, past: str, goal: Callable[[Floats], Threshold | Estimate]
) -> tuple[list[int], int]:
    """Return the calls of every night, and how many gates decided wrongly. past: none, own or useless."""
    rng = np.random.default_rng(seed)
    size, known, calls, wrong = len(columns[0]), list[Floats](), [], 0
    for night, column in enumerate(columns):
        history = np.column_stack(known) if known and past != "none" else None
        session = Session(size, goal=goal(column), history=history, seed=1000 * seed + night)
        result = drive(session, column)
        calls.append(result.n_evaluated)
        wrong += result.decision == "below"
        seen = np.full(size, np.nan)
        for draw, (score,) in session.log:
            seen[draw.item] = score
        if past == "useless":
            seen = rng.permutation(seen)
        known.append(seen)
    return calls, wrong


def measure(data: Path, table: str, name: str, seed: int) -> tuple[list[float], int]:
    """Return the mean calls of ten nights: of gates by each past, of gates after the first night, and of estimates
    without and with a useless past; and how many gates decided wrongly."""
    scores = read_scores(str(data / table / "scores.parquet"))
    columns = [np.nan_to_num(scores.model(model)) for model in nights_of(TABLES[table][name])]
    gates = [ask_nights(columns, seed, past, gate) for past in PASTS]
    estimates = [ask_nights(columns, seed, past, within)[0] for past in ("none", "useless")]
    means = [np.mean(calls) for calls, _ in gates] + [np.mean(calls[1:]) for calls, _ in gates]
    return [float(mean) for mean in (*means, *map(np.mean, estimates))], sum(wrong for _, wrong in gates)


def ratio(above: Floats, below: Floats) -> str:
    """Return a ratio of means with its standard error, by leaving out one seed after the other."""
    count = len(above)
    left = [(above.sum() - above[n]) / (below.sum() - below[n]) for n in range(count)]
    error = float(np.std(left) * np.sqrt(count - 1))
    return f"{above.sum() / below.sum():.2f} ± {error:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument(
        "--families", nargs="+", choices=sorted({one for each in TABLES.values() for one in each})
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows, everything, all_wrong = [], [], 0
    families = [
        (table, name)
        for table in options.tables
        for name in TABLES[table]
        if options.families is None or name in options.families
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        found = {
            (table, name): [
                pool.submit(measure, options.data, table, name, seed) for seed in range(options.seeds)
            ]
            for table, name in families
        }
        for (table, name), futures in found.items():
            figures = np.array([future.result()[0] for future in futures])
            wrong = sum(future.result()[1] for future in futures)
            rows.append(row_of(f"{table}, {name}", figures, wrong, len(PASTS) * NIGHTS * options.seeds))
            everything.append(figures)
            all_wrong += wrong
            print(*rows[-1], flush=True)
    gates = len(PASTS) * NIGHTS * options.seeds * len(families)
    rows.append(row_of("all", np.mean(everything, axis=0), all_wrong, gates))
    header = (
        "mean calls of ten nights",
        *(
            "no past",
            "own past",
            "own / none",
            "from night 2 on",
            "useless / none",
            f"within {EPS * 100:g} points",
        ),
        "wrong",
    )
    publish("Nightly gates of ten checkpoints", "benchmarks.nightly", markdown(header, rows), options.out)


def row_of(name: str, figures: NDArray[np.float64], wrong: int, gates: int) -> tuple[str, ...]:
    none, own, useless, later_none, later_own, _, within_none, within_useless = figures.T
    return (
        name,
        f"{none.mean():.0f}",
        f"{own.mean():.0f}",
        ratio(own, none),
        ratio(later_own, later_none),
        ratio(useless, none),
        ratio(within_useless, within_none),
        f"{wrong} of {gates:,}",
    )


if __name__ == "__main__":
    main()
