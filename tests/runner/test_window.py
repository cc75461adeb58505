"""How far calls may run ahead of their results: as far as the goal is certainly away, and no further."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cereval.questions.mean.goal import Estimate, Threshold
from cereval.questions.mean.session import Session
from cereval.runner.loop import Window

CONNECTIONS = 32


def sizes_of(scores: np.ndarray[Any, Any], session: Session) -> list[int]:
    """The window after each result, from the first to the last but one."""
    window, sizes = Window(CONNECTIONS), []
    while not session.done:
        for draw in session.ask(1):
            session.tell(draw, float(scores[draw.item]))
        sizes.append(window.size(session))
    return sizes[:-1]


@pytest.mark.parametrize(("eps", "share"), [(0.03, 0.02), (0.03, 0.5), (0.06, 0.9), (0.06, None), (0.1, 0.5)])
def test_no_run_ends_among_the_calls_that_ran_ahead(share: float | None, eps: float) -> None:
    """So that at most as many calls as connections are too many, whatever the answers take."""
    rng = np.random.default_rng(round(1000 * eps))
    for size in (400, 1500, 4000):
        scores = rng.beta(2, 1, size) if share is None else (rng.random(size) < share).astype(float)
        groups = rng.integers(0, 8, size)
        for known in ({}, {"groups": groups}):
            session = Session(size, goal=Estimate(eps), seed=size, **known)  # type: ignore[arg-type]
            sizes = sizes_of(scores, session)
            ahead = [len(sizes) + 1 - n - (size - CONNECTIONS) for n, size in enumerate(sizes, start=1)]
            assert min(ahead, default=0) >= 0


def test_far_from_the_goal_answers_may_pile_up_behind_a_slow_one() -> None:
    scores = (np.arange(5000) % 3 > 0).astype(float)
    sizes = sizes_of(scores, Session(5000, goal=Estimate(0.02), seed=1))
    half = len(sizes) // 2
    assert min(sizes[100:half]) >= 3 * CONNECTIONS
    assert max(sizes) == 4 * CONNECTIONS
    assert set(sizes[-50:]) == {CONNECTIONS}


def test_a_threshold_may_be_decided_at_any_moment() -> None:
    scores = (np.arange(2000) % 3 > 0).astype(float)
    assert set(sizes_of(scores, Session(2000, goal=Threshold(0.6), seed=1))) == {CONNECTIONS}
