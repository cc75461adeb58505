"""Models made to deceive a ranking: equal means, rare scores, copies, heavy tails; and pasts made to mislead it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from cereval.questions.rank.goal import Order
from cereval.questions.rank.session import RankSession

Floats = NDArray[np.float64]

DELTA = 0.05


def identical(rng: np.random.Generator) -> Floats:
    """Eight models with exactly the same mean on different items."""
    return np.column_stack([rng.permutation(np.arange(200) < 140).astype(float) for _ in range(8)])


def skewed(rng: np.random.Generator) -> Floats:
    """Means from .97 to .985, in steps of one item."""
    return np.column_stack([rng.permutation(np.arange(200) < 194 + k % 4).astype(float) for k in range(8)])


def copies(rng: np.random.Generator) -> Floats:
    """One model and seven that copy it but for one item, lost or won."""
    base = (rng.uniform(size=200) < 0.6).astype(float)
    found = np.tile(base[:, None], (1, 8))
    for model in range(1, 8):
        item = rng.integers(200)
        found[item, model] = 1 - found[item, model]
    return found


def graded(rng: np.random.Generator) -> Floats:
    """Graded scores, mostly near 0 with a heavy tail, close means."""
    return rng.beta(0.1, 0.9 - 0.01 * np.arange(8), size=(200, 8))


FAMILIES: dict[str, Callable[[np.random.Generator], Floats]] = {
    "identical": identical,
    "skewed": skewed,
    "copies": copies,
    "graded": graded,
}


def misleading(scores: Floats, rng: np.random.Generator) -> Floats:
    """Six past models that disagree where the first half of the models beat the second, and agree where they lose.

    So the items on which the first half wins come sooner; a few entries are missing.
    """
    half = scores.shape[1] // 2
    ahead = scores[:, :half].mean(axis=1) > scores[:, half:].mean(axis=1)
    past = np.where(ahead[:, None], rng.integers(0, 2, size=(len(scores), 6)), 1).astype(float)
    return np.where(rng.uniform(size=past.shape) < 0.1, np.nan, past)


def wrong_claims(
    family: str, runs: int, first_seed: int = 0, delta: float = DELTA, *, past: bool = False
) -> int:
    """Runs to the end of a tiny tie, with any wrong claim: a reversed order, or any order of equal means."""
    wrong = 0
    for seed in range(first_seed, first_seed + runs):
        rng = np.random.default_rng(10_000 + seed)
        scores = FAMILIES[family](rng)
        names = [str(i) for i in range(scores.shape[1])]
        session = RankSession(
            len(scores),
            names,
            goal=Order(0.002),
            confidence=1 - delta,
            history=misleading(scores, rng) if past else None,
            seed=seed,
            budget=1440,
        )
        while not session.done:
            for draw in session.ask(4096):
                session.tell(draw, float(scores[draw.item, draw.model]))
        means = scores.mean(axis=0)
        order = session.result().order
        wrong += any(means[int(one)] <= means[int(other)] for one, other in order)
    return wrong


def allowed(runs: int, delta: float = DELTA) -> int:
    """More wrong runs than this have probability below .001 if the chance of one is delta."""
    return int(binom.ppf(0.999, runs, delta))


def family_rows(runs: int) -> list[list[object]]:
    rows: list[list[object]] = []
    for family in FAMILIES:
        for what, past in (("", False), (", misled by the past", True)):
            wrong = wrong_claims(family, runs, past=past)
            rows.append([f"{family}{what}", f"wrong runs of {runs}", wrong, f"<= {allowed(runs)}"])
    return rows
