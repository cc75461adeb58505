"""Certificates of many tasks: honest ones are valid, any change is found, also by a forger who repairs hashes."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import numpy as np
import pytest
from benchmarks.task_scenes import TaskScene, adversarial, easy
from tests.certificate.test_audit import forge

from cereval.certificate.base import chained, digest, issue
from cereval.certificate.verify import verify
from cereval.goals.tasks import AllAtLeast, EachWithin, Macro, TasksGoal, WhichFail
from cereval.kinds import kind_named
from cereval.plan import Known, digest_of
from cereval.sessions.tasks import TaskSession

GOALS = [
    Macro(0.08),
    Macro(0.08, each=0.25),
    EachWithin(0.2),
    AllAtLeast(0.3),
    AllAtLeast(0.75),
    WhichFail(0.6),
]
NAMES = np.array(["sums", "words", "a long name", "d"])


def certificate(scene: TaskScene, goal: TasksGoal, failing: float = 0.0, budget: int | None = None) -> Any:
    rng = np.random.default_rng(1)
    session = TaskSession(NAMES[scene.groups], goal=goal, history=scene.history, seed=5, budget=budget)
    while not session.done:
        for draw in session.ask(1):
            score = None if rng.uniform() < failing else float(scene.scores[draw.item])
            session.fail(draw) if score is None else session.tell(draw, score)
    known = Known(session.engine.groups, scene.history)
    about = {"model": "m", "data": ["x"], "items": "h"}
    return json.loads(json.dumps(issue(kind_named("tasks"), session, session.result(), known, about=about)))


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: str(goal.spec()))
@pytest.mark.parametrize("make", [easy, adversarial])
def test_an_honest_certificate_is_valid(make: Any, goal: TasksGoal) -> None:
    scene = make(np.random.default_rng(8))
    verdict = verify(certificate(scene, goal, failing=0.02, budget=250))
    assert verdict.valid, verdict.reasons


def test_a_session_that_asked_everything_is_valid() -> None:
    scene = easy(np.random.default_rng(2))
    few = TaskScene(scene.scores[:40], scene.groups[:40], None)
    assert verify(certificate(few, Macro(0.01))).valid


def test_every_single_change_is_found() -> None:
    rng = random.Random(0)
    original = certificate(easy(np.random.default_rng(8)), AllAtLeast(0.75), failing=0.02)
    for _ in range(300):
        forged = copy.deepcopy(original)
        where = forge(forged, rng)
        assert verify(forged).status == "invalid", where


NUMBERS = ("result", "draws", "settings.seed", "settings.confidence", "settings.goal", "settings.budget")


@pytest.mark.parametrize("number", range(24))
def test_a_forger_who_repairs_the_hashes_is_found_by_recomputing(number: int) -> None:
    forged = certificate(easy(np.random.default_rng(8)), WhichFail(0.6), failing=0.02, budget=60)
    where = forge(forged, random.Random(number), only=NUMBERS[number % len(NUMBERS)])
    forged["chain"] = chained(digest_of(forged["settings"]), forged["log"])
    forged["digest"] = digest(forged)
    assert verify(forged).status == "invalid", where


@pytest.mark.parametrize("content", [None, 3, {}, {"format": "cereval-tasks/1"}])
def test_anything_else_is_no_certificate(content: Any) -> None:
    assert verify(content).status == "invalid"
