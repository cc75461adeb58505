"""A limit that the scores of all items set may be attained: what equals it is not excluded, and nothing is decided."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import cereval
from cereval.certificate.format import digest
from cereval.certificate.verify import verify
from cereval.questions.compare.goal import NotWorse, Sign
from cereval.questions.mean.goal import Threshold
from cereval.questions.session import AskTell, tell
from cereval.questions.tasks.goal import AllAtLeast, WhichFail

SIZE = 10
PASSING = 4
"""Right answers of ten, one of which failed: the mean is .4 or .5."""


def told(session: AskTell, scores: Sequence[tuple[float | None, ...]]) -> Any:
    """Tell a session the scores of its items, None where a call failed."""
    while not session.done:
        for draw in session.ask(1):
            tell(session, draw, scores[draw.item])
    return session.result()


def one_failed(right: int = PASSING, size: int = SIZE) -> list[tuple[float | None, ...]]:
    return [(None,), *((float(item <= right),) for item in range(1, size))]


@pytest.mark.parametrize("method", ["auto", "uniform", "active", "hedged", "seq"])
def test_a_mean_that_may_equal_the_threshold_is_not_below_it(method: str) -> None:
    session = cereval.Session(SIZE, goal=Threshold(0.5), method=method, seed=1)
    result = told(session, one_failed())
    assert (result.lower, result.upper, result.failures) == (0.4, 0.5, 1)
    assert (result.decision, result.stopped, result.exit_code) == (None, "exhausted", 3)


@pytest.mark.parametrize(("value", "decision"), [(0.4, "above"), (0.51, "below"), (0.45, None)])
def test_beyond_the_ends_it_is_decided(value: float, decision: str | None) -> None:
    result = told(cereval.Session(SIZE, goal=Threshold(value), seed=1), one_failed())
    assert result.decision == decision


def test_verify_agrees_that_it_is_undecided() -> None:
    found = cereval.evaluate(
        [{"question": f"{n} + 0 =", "answer": str(n)} for n in range(SIZE)],
        model=f"python:{Path(__file__).with_name('failing_model.py')}:answer",
        at_least=0.5,
        store="sqlite://",
        history=False,
        seed=1,
    )
    assert (found.decision, found.lower, found.upper) == (None, 0.4, 0.5)
    assert verify(found.certificate).valid
    certificate = found.certificate
    turned = {**certificate, "result": {**certificate["result"], "decision": "below", "stopped": "goal"}}
    assert verify({**turned, "digest": digest(turned)}).status == "invalid"


def test_means_that_equal_the_threshold_up_to_rounding_pass() -> None:
    """A sum divided by 43 is one digit below .1, and so is the weighted mean of thirds."""
    same = told(cereval.Session(43, goal=Threshold(0.1), seed=1), [(0.1,)] * 43)
    weighted = told(cereval.Session(49, goal=Threshold(0.7), weights=[0.3] * 49, seed=1), [(0.7,)] * 49)
    assert (same.decision, weighted.decision) == ("above", "above")


@pytest.mark.parametrize("goal", [AllAtLeast(0.5), WhichFail(0.5)], ids=str)
def test_a_task_that_may_equal_the_threshold_does_not_fail(goal: Any) -> None:
    session = cereval.TaskSession(["a"] * SIZE + ["b"] * SIZE, goal=goal, seed=1)
    result = told(session, [*one_failed(), *[(1.0,)] * SIZE])
    assert (result.tasks["a"].lower, result.tasks["a"].upper) == (0.4, 0.5)
    assert (result.tasks["a"].verdict, result.decision, result.stopped) == (None, None, "exhausted")


@pytest.mark.parametrize("goal", [AllAtLeast(0.1), WhichFail(0.1)], ids=str)
def test_a_task_that_equals_the_threshold_passes(goal: Any) -> None:
    session = cereval.TaskSession(["a"] * 43 + ["b"] * 43, goal=goal, seed=1)
    result = told(session, [(0.1,)] * 86)
    assert [task.verdict for task in result.tasks.values()] == ["pass", "pass"]


def test_a_model_that_may_be_worse_by_just_so_much_is_not_worse() -> None:
    """The first is worse by .2 at most, where its failed call is wrong, and by .1 at least."""
    scores = [(None, 1.0), *[(0.0, 1.0)], *[(1.0, 1.0)] * (SIZE - 2)]
    for eps, decision in ((0.1, "undecided"), (0.2, "not-worse"), (0.09, "worse")):
        result = told(cereval.CompareSession(SIZE, goal=NotWorse(eps), seed=1), scores)
        assert result.decision == decision, eps


def test_a_difference_that_may_be_none_has_no_sign() -> None:
    scores = [(None, 1.0), *[(1.0, 1.0)] * (SIZE - 1)]
    result = told(cereval.CompareSession(SIZE, goal=Sign(0.0), seed=1), scores)
    assert (result.lower, result.upper) == (pytest.approx(-0.1), 0.0)
    assert result.decision == "undecided"
