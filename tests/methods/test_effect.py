"""What the result says of side information: what helped, and by how many calls."""

from __future__ import annotations

import numpy as np
import pytest
from tests.paper.tables import alike

from cereval.forecasts.pool import Pool
from cereval.methods.active import effect_note, uniform_calls
from cereval.methods.base import Aim, Setting
from cereval.questions.mean.goal import Estimate
from cereval.questions.replay import replay


def setting_of(size: int) -> Setting:
    return Setting(Pool(size), "benchmark", 0.05, seed=0, aim=Aim(eps=0.04))


@pytest.mark.slow
def test_the_estimate_of_uniform_calls_is_near_what_uniform_takes() -> None:
    for mean in (0.5, 0.9):
        scores = (np.random.default_rng(3).uniform(size=3000) < mean).astype(float)
        taken = np.mean(
            [
                replay(scores, goal=Estimate(0.04), method="uniform", seed=seed).n_evaluated
                for seed in range(8)
            ]
        )
        told = uniform_calls(scores, np.ones(3000), 0.04, setting_of(3000))
        assert told == pytest.approx(taken, rel=0.05)


def test_importance_undoes_unequal_draws() -> None:
    """Hard items drawn three times as often; weighted back, the variance is that of the pool."""
    scores = np.array([0.0, 1.0] * 30 + [1.0] * 20)
    importance = np.array([1 / 3] * 60 + [1.0] * 20)
    even = np.array([0.0, 1.0] * 10 + [1.0] * 20)
    told = uniform_calls(scores, importance, 0.05, setting_of(1000))
    assert told == uniform_calls(even, np.ones(40), 0.05, setting_of(1000))


def test_notes_say_what_helped_and_by_how_much() -> None:
    table = alike(1500, 6)
    notes = replay(table[:, 0], goal=Estimate(0.04), history=table[:, 1:]).notes
    assert "explain" in notes[0]
    assert "one step ahead" in notes[0]
    assert "uniform draws would have taken about" in notes[1]


def test_notes_say_that_nothing_helped_and_never_a_negative_share() -> None:
    rng = np.random.default_rng(5)
    scores = (rng.uniform(size=800) < 0.6).astype(float)
    for seed in range(4):
        history = rng.integers(2, size=(800, 3)).astype(float)
        notes = replay(scores, goal=Estimate(0.06), history=history, seed=seed).notes
        assert not any("-" in note and "%" in note for note in notes)
        assert "nothing known beforehand helped" in notes[0] or "explain" in notes[0]


def test_nothing_to_compare_with_is_no_note() -> None:
    assert effect_note(10, None) is None
    assert "about as many" in str(effect_note(100, 80))
