"""Many tasks in one session: simultaneous validity, draws that do not depend on timing, decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmarks.coverage import most_misses
from benchmarks.task_scenes import GOALS, SCENES, TaskScene, easy, watch
from tests.questions.replays import replay_tasks

import cereval
from cereval.errors import InvalidInput
from cereval.questions import kind_named
from cereval.questions.goals import goal_from_spec
from cereval.questions.tasks.goal import AllAtLeast, EachWithin, Macro, TasksGoal, WhichFail
from cereval.questions.tasks.session import TaskSession, TasksResult

RUNS = 4
CONFIDENCE = 0.7
"""More errors are allowed than usual, so that a few runs suffice to see too many of them."""


@pytest.mark.slow
def test_everything_shown_is_wrong_at_most_as_often_as_stated() -> None:
    """Every population and goal; the runs have seeds of their own, so that one bound holds for all of them.

    48 runs, looked at after every third result: a true miss rate of .3 exceeds the bound (99%, binomial) with
    probability at most 1%, one twice as high with probability 96%.
    """
    cells = [(make, goal) for make in SCENES.values() for goal in GOALS]
    outcomes = [
        watch(make(np.random.default_rng([seed, 5])), goal, seed, CONFIDENCE, every=3)
        for number, (make, goal) in enumerate(cells)
        for seed in range(number * RUNS, (number + 1) * RUNS)
    ]
    assert sum(one.missed for one in outcomes) <= most_misses(len(outcomes), 1 - CONFIDENCE)


def played(scene: TaskScene, goal: TasksGoal, **more: Any) -> TasksResult:
    return replay_tasks(scene.scores, scene.groups, goal=goal, history=scene.history, **more)


SCENE = easy(np.random.default_rng(4))


@pytest.mark.parametrize("goal", [*GOALS, Macro(0.08, each=0.2)], ids=lambda goal: str(goal.spec()))
def test_calls_in_flight_change_nothing(goal: TasksGoal) -> None:
    one = played(SCENE, goal, seed=3)
    assert one == played(SCENE, goal, seed=3, batch=7) == played(SCENE, goal, seed=3, batch=300)
    assert one != played(SCENE, goal, seed=4)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: str(goal.spec()))
def test_goals_are_rebuilt_from_their_specs(goal: TasksGoal) -> None:
    assert goal_from_spec(goal.spec()) == goal


def test_each_tasks_increments_are_unbiased_at_every_step() -> None:
    """The mean of X over the task's unseen items, with the chances that the session's weights give them."""
    session = TaskSession(SCENE.groups, goal=EachWithin(0.1), history=SCENE.history, seed=2)
    checked = 0
    for step in range(150):
        (draw,) = session.ask(1)
        engine = session.method
        session.tell(draw, float(SCENE.scores[draw.item]))
        follower = engine.followers[(step * 7) % 3]
        tally, members = follower.tally, follower.members
        left = np.flatnonzero(tally.left)
        weights = tally.outlook.weights[left]
        scores, mean = SCENE.scores[members[left]], tally.outlook.mean[left]
        rest = tally.shares[left] @ mean
        if len(left):
            values = tally.seen_low + rest + (scores - mean) * tally.shares[left] * weights.sum() / weights
            assert weights / weights.sum() @ values == pytest.approx(SCENE.scores[members].mean(), abs=1e-9)
            checked += 1
    assert checked > 100


def test_the_macro_goal_costs_little_more_than_its_mean_alone() -> None:
    sizes = np.bincount(SCENE.groups)
    weights = 1 / sizes[SCENE.groups]
    alone = cereval.replay(
        SCENE.scores,
        goal=cereval.Estimate(0.06),
        weights=weights,
        groups=SCENE.groups,
        history=SCENE.history,
    )
    together = played(SCENE, Macro(0.06))
    assert together.macro.half_width <= 0.06
    assert together.n_evaluated <= 1.25 * alone.n_evaluated


def test_every_task_within_eps_and_no_more_calls_than_one_by_one() -> None:
    result = played(SCENE, EachWithin(0.12))
    assert result.stopped == "goal"
    assert all(task.half_width <= 0.12 for task in result.tasks.values())
    level = 1 - 0.9 * 0.05 / 3
    alone = sum(
        cereval.replay(
            SCENE.scores[SCENE.groups == task], goal=cereval.Estimate(0.12), confidence=level
        ).n_evaluated
        for task in range(3)
    )
    assert result.n_evaluated <= 1.05 * alone


def two_tasks(first: float, second: float, size: int = 300) -> tuple[np.ndarray[Any, Any], list[str]]:
    ramp = (np.arange(size) + 0.5) / size
    return np.concatenate([(ramp < first), (ramp < second)]).astype(float), ["a"] * size + ["b"] * size


def test_all_pass_and_some_fail() -> None:
    scores, groups = two_tasks(0.9, 0.8)
    passed = replay_tasks(scores, groups, goal=AllAtLeast(0.6))
    assert (passed.decision, passed.failing) == ("all-pass", ())
    assert [task.verdict for task in passed.tasks.values()] == ["pass", "pass"]
    assert all(task.lower >= 0.6 for task in passed.tasks.values())
    failed = replay_tasks(scores, groups, goal=AllAtLeast(0.88))
    assert (failed.decision, failed.failing) == ("some-fail", ("b",))
    assert failed.tasks["a"].verdict is None


def test_which_fail_decides_every_task() -> None:
    scores, groups = two_tasks(0.9, 0.4)
    result = replay_tasks(scores, groups, goal=WhichFail(0.65))
    assert {name: task.verdict for name, task in result.tasks.items()} == {"a": "pass", "b": "fail"}


def test_a_mean_equal_to_the_threshold_passes_once_all_is_known() -> None:
    scores, groups = two_tasks(0.5, 0.9, size=20)
    result = replay_tasks(scores, groups, goal=WhichFail(0.5))
    assert (result.decision, result.failing) == ("all-pass", ())
    assert result.tasks["a"].n == 20


def test_tasks_that_are_settled_get_no_more_calls() -> None:
    scores, groups = two_tasks(1.0, 0.5, size=2000)
    result = replay_tasks(scores, groups, goal=EachWithin(0.05))
    assert result.tasks["a"].n < 0.5 * result.tasks["b"].n


def test_failed_calls_only_widen() -> None:
    session = TaskSession(SCENE.groups, goal=Macro(0.03), history=SCENE.history, budget=200, seed=1)
    while not session.done:
        for draw in session.ask(4):
            if draw.index % 20 == 0:
                session.fail(draw)
            else:
                session.tell(draw, float(SCENE.scores[draw.item]))
    result = session.result()
    assert result.failures == sum(task.failures for task in result.tasks.values()) == 10
    for name, task in result.tasks.items():
        assert task.lower <= SCENE.means[int(name)] <= task.upper
    assert result.stopped == "budget"


def test_all_items_asked_give_the_exact_means() -> None:
    result = played(SCENE, Macro(0.0001))
    for name, task in result.tasks.items():
        assert task.lower == pytest.approx(SCENE.means[int(name)], abs=1e-4)
    assert result.macro.estimate == pytest.approx(SCENE.means.mean(), abs=1e-4)


def test_one_task_and_tiny_tasks() -> None:
    assert replay_tasks([1.0, 0.0] * 100, ["only"] * 200, goal=Macro(0.1)).stopped == "goal"
    tiny = replay_tasks([1.0, 0.0, 1.0], ["a", "b", "c"], goal=EachWithin(0.1))
    assert [task.estimate for task in tiny.tasks.values()] == [1.0, 0.0, 1.0]


def test_missing_scores_are_no_part_of_their_task() -> None:
    scores = np.array([1.0, np.nan, 0.0, 1.0])
    result = replay_tasks(scores, ["a", "a", "b", "b"], goal=EachWithin(0.01))
    assert (result.tasks["a"].n_items, result.n_items) == (1, 3)


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "groups of another length": (lambda: replay_tasks([1, 0], ["a"]), "groups"),
    "a goal for one target": (lambda: TaskSession(["a"], goal=cereval.Estimate(0.1)), "goal"),  # type: ignore[arg-type]
    "history of another length": (lambda: replay_tasks([1, 0], ["a", "b"], history=[[1.0]]), "history"),
    "no items": (lambda: TaskSession([]), "groups"),
    "eps": (lambda: Macro(2.0), "eps"),
    "each": (lambda: Macro(0.1, each=0.0), "each"),
    "threshold": (lambda: AllAtLeast(1.0), "threshold"),
    "budget": (lambda: TaskSession(["a"], budget=0), "budget"),
    "spec": (lambda: kind_named("tasks").goal({"goal": "estimate"}), "goal"),
    "too many tasks": (lambda: TaskSession([str(i) for i in range(1001)]), "groups"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_is_named(name: str) -> None:
    call, field = WRONG[name]
    with pytest.raises(InvalidInput, match=field):
        call()
