"""Populations of many tasks for measurements of coverage, and one run watched at every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cereval.questions.tasks.goal import AllAtLeast, EachWithin, Macro, TasksGoal, WhichFail
from cereval.questions.tasks.session import TaskSession

Floats = NDArray[np.float64]
SLACK = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class TaskScene:
    """Scores of all items, the task of each, and past models' scores."""

    scores: Floats
    groups: NDArray[np.int64]
    history: Floats | None

    @property
    def means(self) -> Floats:
        return np.asarray(np.bincount(self.groups, self.scores) / np.bincount(self.groups))


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """missed: anything shown on the way was wrong."""

    calls: int
    items: int
    missed: bool
    decision: str | None
    widest: float


def easy(rng: np.random.Generator) -> TaskScene:
    """Three tasks of middling difficulty, and past models that are right on the same items."""
    return _scene(rng, sizes=(80, 120, 200), means=(0.45, 0.7, 0.8), past=1.5)


def skewed(rng: np.random.Generator) -> TaskScene:
    """Nearly always right, nearly never, and a tiny task that is all right: the range limits the bets."""
    return _scene(rng, sizes=(200, 150, 12), means=(0.97, 0.04, 1.0), past=None)


def adversarial(rng: np.random.Generator) -> TaskScene:
    """A history that is the truth in one task and its opposite in another; unequal sizes; means near .6."""
    scene = _scene(rng, sizes=(30, 250, 100, 60), means=(0.5, 0.62, 0.58, 0.7), past=None)
    flipped = np.where(np.isin(scene.groups, (1, 3)), 1 - scene.scores, scene.scores)
    noise = rng.uniform(size=(len(flipped), 4)) < 0.1
    return TaskScene(scene.scores, scene.groups, np.where(noise, 1 - flipped[:, None], flipped[:, None]))


def _scene(
    rng: np.random.Generator, sizes: tuple[int, ...], means: tuple[float, ...], past: float | None
) -> TaskScene:
    groups = rng.permutation(np.repeat(np.arange(len(sizes)), sizes)).astype(np.int64)
    chance = np.asarray(means)[groups]
    if past is None:
        return TaskScene((rng.uniform(size=len(groups)) < chance).astype(float), groups, None)
    inner = np.clip(chance, 0.01, 0.99)
    logits = np.log(inner / (1 - inner)) + past * rng.normal(size=len(groups))
    chance = 1 / (1 + np.exp(-logits))
    history = (rng.uniform(size=(len(groups), 5)) < chance[:, None]).astype(float)
    return TaskScene((rng.uniform(size=len(groups)) < chance).astype(float), groups, history)


SCENES: Mapping[str, Callable[[np.random.Generator], TaskScene]] = {
    "easy": easy,
    "skewed": skewed,
    "adversarial": adversarial,
}
GOALS: tuple[TasksGoal, ...] = (Macro(0.06), EachWithin(0.15), AllAtLeast(0.6), WhichFail(0.6))


def watch(scene: TaskScene, goal: TasksGoal, seed: int, confidence: float, every: int = 1) -> TaskOutcome:
    """One run in which all intervals are looked at after every `every` results, and the decision at the end."""
    session = TaskSession(scene.groups, goal=goal, confidence=confidence, history=scene.history, seed=seed)
    missed = False
    while not session.done:
        for draw in session.ask(1):
            session.tell(draw, float(scene.scores[draw.item]))
        if session.n_evaluated % every == 0 or session.done:
            missed |= _wrong(session, scene)
    result = session.result()
    widest = max(task.half_width for task in result.tasks.values())
    return TaskOutcome(session.n_evaluated, session.n_items, missed, result.decision, widest)


def _wrong(session: TaskSession, scene: TaskScene) -> bool:
    """A mean outside its interval, a wrong verdict, or all values rejected."""
    result, means = session.result(), scene.means
    if result.stopped == "contradiction":
        return True
    shown = [*result.tasks.values(), result.macro]
    truths = [*(float(means[int(name)]) for name in result.tasks), float(means.mean())]
    outside = any(
        not one.lower - SLACK <= truth <= one.upper + SLACK for one, truth in zip(shown, truths, strict=True)
    )
    threshold = session.goal.aims.threshold
    verdicts = [
        one.verdict is not None and (one.verdict == "fail") != (truth < (threshold or 0.0) - SLACK)
        for one, truth in zip(shown, truths, strict=True)
    ]
    return outside or any(verdicts)
