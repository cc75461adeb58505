"""One evaluation to be watched: what is true, what is answered, and whether anything shown was ever wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.questions.goals import Goal
from cereval.questions.mean.goal import Threshold
from cereval.questions.mean.session import Session
from cereval.records import Draw

Floats = NDArray[np.float64]

ROUNDING = 1e-9
"""The truth is itself a rounded sum: an interval that ends this near to it has not missed."""


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A model that scores `scores[i]` on item i (or, with `noisy`, 1 with that chance, anew at every call).

    graded: with `noisy`, scores are spread about that mean instead of being 0 or 1. best_first: of the calls in flight
    the one about the best item comes back first, instead of any. changes: goals that are set once as many results have
    been consumed. closer: a goal set once the first is met, as by `resume`. foreseen: a horizon is set anew at every so
    many results, from the results so far (the worst that money or pace could do). failing: items whose calls fail.
    """

    scores: Floats
    truth: float
    goal: Goal
    plan: Mapping[str, Any] = field(default_factory=dict)
    failing: NDArray[np.bool_] | None = None
    noisy: bool = False
    graded: bool = False
    best_first: bool = False
    changes: tuple[tuple[int, Goal], ...] = ()
    closer: Goal | None = None
    foreseen: int = 0
    in_flight: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether any interval or decision shown was wrong, and how many results were consumed."""

    missed: bool
    calls: int


def watch(scene: Scene, method: str, seed: int, confidence: float = 0.95) -> Outcome:
    """Plays a scene to its end and checks everything that the session shows on the way."""
    session = Session(
        len(scene.scores), goal=scene.goal, method=method, seed=seed, confidence=confidence, **scene.plan
    )
    answers = np.random.default_rng([seed, 77])
    changes, closer = list(scene.changes), scene.closer
    pending: list[Draw] = []
    missed = False
    while not session.done:
        pending += session.ask(scene.in_flight - len(pending)) if len(pending) < scene.in_flight else []
        _answer(session, scene, pending.pop(_arriving(scene, pending, answers)), answers)
        missed |= _wrong(session, scene.truth)
        while changes and session.n_evaluated >= changes[0][0] and not _decided(session):
            session.goal = changes.pop(0)[1]
            missed |= _wrong(session, scene.truth)
        if scene.foreseen and session.n_evaluated % scene.foreseen == 1 and not session.done:
            session.foresee(_spiteful(session))
        if closer is not None and session.stopped == "goal":
            session.goal, closer = closer, None
            missed |= _wrong(session, scene.truth)
    return Outcome(missed, session.n_evaluated)


def _spiteful(session: Session) -> int:
    """A horizon that follows the results: near while the last ones were high, far while they were low."""
    recent = [scores[0] or 0.0 for _, scores in session.log[-8:]]
    return session.n_drawn + (3 if np.mean(recent) > session.estimate else 60)


def _arriving(scene: Scene, pending: list[Draw], answers: np.random.Generator) -> int:
    if scene.best_first:
        return int(np.argmax(scene.scores[[draw.item for draw in pending]]))
    return int(answers.integers(len(pending)))


def _answer(session: Session, scene: Scene, draw: Draw, answers: np.random.Generator) -> None:
    if scene.failing is not None and scene.failing[draw.item]:
        session.fail(draw)
        return
    score = float(scene.scores[draw.item])
    if scene.noisy and scene.graded:
        score = float(answers.beta(2 * score + 1e-9, 2 * (1 - score) + 1e-9))
    elif scene.noisy:
        score = float(answers.uniform() < score)
    session.tell(draw, score)


def _wrong(session: Session, truth: float) -> bool:
    """Outside the interval shown, or on the other side of the threshold than decided."""
    interval = session.interval
    if not interval.lower - ROUNDING <= truth <= interval.upper + ROUNDING:
        return True
    return session.done and _wrong_decision(session, truth)


def _wrong_decision(session: Session, truth: float) -> bool:
    goal, decision = session.goal, session.result().decision
    if not isinstance(goal, Threshold) or decision is None:
        return False
    return truth < goal.value - ROUNDING if decision == "above" else truth > goal.value + ROUNDING


def _decided(session: Session) -> bool:
    return isinstance(session.goal, Threshold) and session.done


SceneMaker = Callable[[np.random.Generator], Scene]
