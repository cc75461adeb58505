"""Nightly gates of ten checkpoints: what a candidate's own past saves, and what a useless past costs.

    python -m benchmarks.nightly --seeds 20 --out benchmarks/results/nightly-DATE.md

Models of one family stand for the checkpoints of ten nights. Every night a gate lies three points below what the
checkpoint of that night is worth, as gates do whose bar is moved along. The past of a night is what the gates before it
asked, and no more; a useless past has the same scores in another order. Needs ../shared/data.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import markdown, publish
from cereval.datasets.tables import read_scores
from cereval.questions.mean.goal import Threshold
from cereval.questions.mean.session import Session
from cereval.questions.replay import drive

Floats = NDArray[np.float64]
MARGIN = 0.03
"""How far below the checkpoint of the night its gate lies."""

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


def ask_nights(columns: Sequence[Floats], seed: int, past: str) -> tuple[list[int], int]:
    """Return the calls of every night's gate, and how many decided wrongly. past: none, own or useless."""
    rng = np.random.default_rng(seed)
    size, known, calls, wrong = len(columns[0]), list[Floats](), [], 0
    for night, column in enumerate(columns):
        value = float(column.mean()) - MARGIN
        history = np.column_stack(known) if known and past != "none" else None
        session = Session(size, goal=Threshold(value), history=history, seed=1000 * seed + night)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for table, families in TABLES.items():
        scores = read_scores(str(options.data / table / "scores.parquet"))
        for name, family in families.items():
            columns = [np.nan_to_num(scores.model(model)) for model in nights_of(family)]
            found = {
                past: [ask_nights(columns, seed, past) for seed in range(options.seeds)]
                for past in ("none", "own", "useless")
            }
            # The first night has no past.
            means = {past: float(np.mean([calls[1:] for calls, _ in runs])) for past, runs in found.items()}
            wrong = sum(count for runs in found.values() for _, count in runs)
            rows.append(
                (
                    f"{table}, {name}",
                    f"{means['none']:.0f}",
                    f"{means['own']:.0f}",
                    f"{means['own'] / means['none']:.2f}",
                    f"{means['useless'] / means['none']:.2f}",
                    f"{wrong} of {3 * options.seeds * NIGHTS}",
                )
            )
            print(*rows[-1], flush=True)
    header = ("nights 2 to 10", "no past", "own past", "own / none", "useless / none", "wrong")
    publish("Nightly gates of ten checkpoints", "benchmarks.nightly", markdown(header, rows), options.out)


if __name__ == "__main__":
    main()
