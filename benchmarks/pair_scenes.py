"""Pairs of models that are hard to compare: equal ones, rare differences, history that lies, calls that fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cereval.questions.compare.goal import CompareGoal, NotWorse, Sign
from cereval.questions.compare.session import CompareSession

Floats = NDArray[np.float64]
SIZE = 400
SLACK = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """The true scores of two models; `failing`: items on which the first model's call fails."""

    first: Floats
    second: Floats
    history: Floats | None = None
    failing: NDArray[np.bool_] | None = None
    goal: CompareGoal = Sign()  # noqa: RUF009 - frozen

    @property
    def difference(self) -> float:
        return float(self.first.mean() - self.second.mean())


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run went; missed: some interval shown on the way was wrong, or the decision was."""

    missed: bool
    wrong: bool
    items: int
    decision: str


def equal(rng: np.random.Generator) -> Scene:
    """Exactly the same mean on other items: every sign is wrong."""
    first = (rng.random(SIZE) < 0.7).astype(float)
    return Scene(first, rng.permutation(first))


def equal_graded(rng: np.random.Generator) -> Scene:
    first = rng.beta(2, 1, size=SIZE)
    return Scene(first, rng.permutation(first))


def outside_the_tie(rng: np.random.Generator) -> Scene:
    """A difference just larger than the tie: "no-difference" is wrong, and so is the other sign."""
    first = (np.arange(SIZE) < 0.7 * SIZE + 9).astype(float)
    second = (np.arange(SIZE) < 0.7 * SIZE).astype(float)
    return Scene(rng.permutation(first), rng.permutation(second))


def skewed(rng: np.random.Generator) -> Scene:
    """Two models that are nearly always right, equally often."""
    first = (rng.random(SIZE) < 0.98).astype(float)
    return Scene(first, rng.permutation(first))


def rare_reversal(rng: np.random.Generator) -> Scene:
    """A little worse on nearly all items, far better on a few: a tiny advantage that most samples hide."""
    first = np.where(rng.permutation(SIZE) < 12, 1.0, 0.47)
    return Scene(first, np.full(SIZE, 0.485))


def lying_history(rng: np.random.Generator) -> Scene:
    """Past models that agree with the first on one half of the items, with its opposite on the other."""
    scene = equal(rng)
    half = rng.random((SIZE, 4)) < 0.5
    past = np.where(half, scene.first[:, None], 1 - scene.second[:, None])
    return Scene(scene.first, scene.second, past)


def inverted_history(rng: np.random.Generator) -> Scene:
    """Past models that are right where the first is wrong, and a true copy that is nearly as good."""
    skill = rng.random(SIZE)
    first = (rng.random(SIZE) < skill).astype(float)
    return Scene(first, rng.permutation(first), np.column_stack([1 - first, rng.random(SIZE), 1 - skill]))


def useful_history(rng: np.random.Generator) -> Scene:
    skill = rng.beta(0.7, 0.4, size=SIZE)
    first, second = ((rng.random(SIZE) < skill).astype(float) for _ in range(2))
    return Scene(first, second, (rng.random((SIZE, 8)) < skill[:, None]).astype(float))


def failures(rng: np.random.Generator) -> Scene:
    """The first model's calls fail on a tenth of the items, all of them items that it gets wrong."""
    scene = equal(rng)
    wrong = np.flatnonzero(scene.first == 0)
    failing = np.zeros(SIZE, dtype=bool)
    failing[rng.choice(wrong, size=min(SIZE // 10, len(wrong)), replace=False)] = True
    return Scene(scene.first, scene.second, failing=failing)


def regression(rng: np.random.Generator) -> Scene:
    """Worse by a hair more than allowed: "not-worse" is wrong."""
    first = (np.arange(SIZE) < 0.7 * SIZE).astype(float)
    second = (np.arange(SIZE) < 0.7 * SIZE + 9).astype(float)
    return Scene(rng.permutation(first), rng.permutation(second), goal=NotWorse(0.02))


def at_the_limit(rng: np.random.Generator) -> Scene:
    """Worse by exactly as much as allowed: "worse" is wrong, and the limit is what the bets lean on."""
    first = (np.arange(SIZE) < 0.7 * SIZE).astype(float)
    second = (np.arange(SIZE) < 0.7 * SIZE + 8).astype(float)
    return Scene(rng.permutation(first), rng.permutation(second), goal=NotWorse(0.02))


def as_good(rng: np.random.Generator) -> Scene:
    """Exactly as good, and nothing worse is allowed: "worse" is wrong."""
    scene = equal_graded(rng)
    return Scene(scene.first, scene.second, goal=NotWorse(0))


SCENES: dict[str, Callable[[np.random.Generator], Scene]] = {
    scene.__name__.replace("_", " "): scene
    for scene in (
        equal,
        equal_graded,
        outside_the_tie,
        skewed,
        rare_reversal,
        lying_history,
        inverted_history,
        useful_history,
        failures,
        regression,
        at_the_limit,
        as_good,
    )
}


def watch(name: str, seed: int, confidence: float = 0.95) -> Outcome:
    """One run, looked at after every item; scenes and sessions have separate random streams."""
    scene = SCENES[name](np.random.default_rng([seed, 461]))
    session = CompareSession(SIZE, goal=scene.goal, history=scene.history, seed=seed, confidence=confidence)
    truth, missed = (1 + scene.difference) / 2, False
    while not session.done:
        for draw in session.ask():
            failed = scene.failing is not None and scene.failing[draw.item]
            session.tell(
                draw, None if failed else float(scene.first[draw.item]), float(scene.second[draw.item])
            )
            interval = session.interval
            missed |= not interval.lower - SLACK <= truth <= interval.upper + SLACK
    result = session.result()
    wrong = result.decision not in (*allowed(scene), "undecided")
    return Outcome(
        missed or wrong or result.stopped == "contradiction", wrong, result.n_evaluated, str(result.decision)
    )


def allowed(scene: Scene) -> set[str]:
    """The decisions that are true of a scene."""
    difference = scene.difference
    if isinstance(scene.goal, NotWorse):
        return {"not-worse" if difference >= -scene.goal.eps - SLACK else "worse"}
    tie = scene.goal.tie if isinstance(scene.goal, Sign) else scene.goal.eps
    right = {"no-difference"} if abs(difference) <= tie + SLACK else set()
    if abs(difference) > SLACK:
        right.add("first" if difference > 0 else "second")
    return right
