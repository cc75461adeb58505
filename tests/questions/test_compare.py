"""Two models on the same items: validity on hard pairs, draws that do not depend on timing, failures, goals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.coverage import most_misses
from benchmarks.pair_scenes import SCENES, Scene, allowed, useful_history, watch
from numpy.typing import NDArray
from tests.questions.replays import replay_comparison

import cereval
from cereval.certificate.format import issue
from cereval.certificate.verify import verify
from cereval.errors import InvalidInput, Misuse
from cereval.plan import Known
from cereval.questions import kind_named
from cereval.questions.compare.goal import CompareGoal, Difference, NotWorse, Sign
from cereval.questions.compare.session import CompareSession, Comparison
from cereval.questions.goals import goal_from_spec
from cereval.questions.replay import drive

Floats = NDArray[np.float64]

RUNS = 3
CONFIDENCE = 0.7
"""More errors are allowed than usual, so that a few runs suffice to see too many of them."""

SCENE = useful_history(np.random.default_rng(3))
GOALS: tuple[CompareGoal, ...] = (Sign(0.02), Sign(0), Difference(0.1), NotWorse(0.05), NotWorse(0))


@pytest.mark.slow
def test_everything_shown_is_wrong_at_most_as_often_as_stated() -> None:
    """Equal, skewed and nearly equal models, lying history, failed calls; looked at after every item.

    36 runs: a true miss rate of .3 exceeds the bound (99%, binomial) with probability at most 1%, one twice as high
    with 92%. Full size: `python -m benchmarks.compare`.
    """
    outcomes = [
        watch(name, seed, CONFIDENCE)
        for number, name in enumerate(SCENES)
        for seed in range(number * RUNS, (number + 1) * RUNS)
    ]
    assert sum(one.missed for one in outcomes) <= most_misses(len(outcomes), 1 - CONFIDENCE)


def played(scene: Scene, goal: CompareGoal | None = None, **more: Any) -> Comparison:
    return replay_comparison(scene.first, scene.second, goal=goal, history=scene.history, **more)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: str(goal.spec()))
def test_calls_in_flight_change_nothing(goal: CompareGoal) -> None:
    one = played(SCENE, goal, seed=3)
    assert one == played(SCENE, goal, seed=3, batch=7) == played(SCENE, goal, seed=3, batch=500)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: str(goal.spec()))
def test_goals_are_rebuilt_from_their_specs(goal: CompareGoal) -> None:
    assert goal_from_spec(goal.spec()) == goal


def test_the_models_are_treated_alike() -> None:
    """Swapping the two mirrors everything, draws included."""
    one, other = (
        drive(
            CompareSession(len(SCENE.first), history=SCENE.history, seed=5), np.column_stack((first, second))
        )
        for first, second in ((SCENE.first, SCENE.second), (SCENE.second, SCENE.first))
    )
    mirrored = {"first": "second", "second": "first"}.get(one.decision, one.decision)
    assert (other.decision, other.n_evaluated) == (mirrored, one.n_evaluated)
    assert (other.lower, other.upper) == pytest.approx((-one.upper, -one.lower))


def test_a_decision_is_never_outside_its_interval() -> None:
    rng = np.random.default_rng(11)
    for gap in (0.0, 0.1, 0.4):
        first = (rng.random(300) < 0.5 + gap / 2).astype(float)
        second = (rng.random(300) < 0.5 - gap / 2).astype(float)
        answer = replay_comparison(first, second, seed=int(gap * 10))
        if answer.decision == "first":
            assert answer.lower >= 0
        elif answer.decision == "second":
            assert answer.upper <= 0
        else:
            assert -0.02 <= answer.lower <= answer.upper <= 0.02
        assert answer.lower <= answer.difference <= answer.upper


def test_large_differences_take_few_items_and_equal_models_are_no_difference() -> None:
    assert replay_comparison([1.0] * 500, [0.0] * 500).n_evaluated < 12
    same = replay_comparison([1.0, 0.0] * 300, [1.0, 0.0] * 300)
    assert same.decision == "no-difference"
    assert same.n_evaluated < 600


def test_equal_means_on_all_items_are_no_difference_not_a_sign() -> None:
    first, second = [1.0, 0.0, 0.1, 0.7], [0.0, 1.0, 0.7, 0.1]
    answer = replay_comparison(first, second, goal=Sign(0))
    assert (answer.decision, answer.n_evaluated) == ("no-difference", 4)


def test_the_regression_check_passes_at_the_very_limit() -> None:
    first, second = np.zeros(50), np.array([1.0] + [0.0] * 49)
    assert replay_comparison(first, second, goal=NotWorse(0.02)).decision == "not-worse"
    assert replay_comparison(first, second, goal=NotWorse(0.019)).decision == "worse"


@pytest.mark.slow
def test_the_check_for_a_regression_takes_fewer_items_than_halves_of_delta() -> None:
    """Twelve pairs that differ by .12 one way or the other: an answer of level delta for one of delta/2, which is what
    the sign is asked with.

    As a ratio: the horizons and the cap of the bets decide how much of ln(2/delta)/ln(1/delta) is left.
    """
    rng, items = np.random.default_rng(11), [0, 0]
    for number in range(12):
        first = (rng.random(1500) < 0.62).astype(float)
        second = (rng.random(1500) < (0.74 if number % 2 else 0.5)).astype(float)
        for which, goal in enumerate((NotWorse(0.0), Sign(0))):
            session = CompareSession(1500, goal=goal, seed=number)
            result = drive(session, np.column_stack((first, second)), 1)
            assert result.decision in (("worse", "second") if number % 2 else ("not-worse", "first"))
            items[which] += result.n_evaluated
    assert items[0] <= 0.95 * items[1]


def test_at_least_as_good_is_a_check_of_its_own() -> None:
    equal = [1.0, 0.0] * 20
    result = replay_comparison(equal, equal[::-1], goal=NotWorse(0))
    assert (result.decision, result.answer()) == (
        "not-worse",
        "first is not worse than second: certified, 0.00 points (exact)",
    )
    assert NotWorse(0).words == "at least as good"


@pytest.mark.parametrize("later", [Sign(0), Difference(0.1)])
def test_at_least_as_good_does_not_become_a_sign(later: CompareGoal) -> None:
    """Both its answers have nearly all of delta: a sign read off them would be wrong of equal models too often."""
    with pytest.raises(AttributeError):
        CompareSession(40, goal=NotWorse(0)).goal = later  # type: ignore[misc]


@pytest.mark.parametrize("confidence", [9 / 19, 0.5, 0.05])
def test_any_confidence_has_bets(confidence: float) -> None:
    scene = useful_history(np.random.default_rng(1))
    assert played(scene, NotWorse(0), confidence=confidence, seed=1).decision in ("not-worse", "worse")


def test_what_may_be_the_very_limit_is_not_called_worse() -> None:
    """All items were asked; with the failed score at its best the first is worse by exactly eps."""
    session = CompareSession(4, goal=NotWorse(0.25))
    pairs: list[tuple[float | None, float]] = [(0.0, 1.0), (0.0, 0.0), (0.0, 0.0), (None, 1.0)]
    while not session.done:
        (draw,) = session.ask()
        session.tell(draw, *pairs[draw.item])
    result = session.result()
    assert (result.n_evaluated, result.upper, result.decision) == (4, -0.25, "undecided")
    about = {"first": "a", "second": "b"}
    assert verify(issue(kind_named("compare"), session, result, Known(), about=about)).valid


def test_failed_calls_only_widen() -> None:
    whole, partial = (CompareSession(300, seed=2, goal=Difference(0.01)) for _ in range(2))
    rng = np.random.default_rng(8)
    first, second = rng.random(300), rng.random(300)
    for step in range(200):
        for session in (whole, partial):
            (draw,) = session.ask()
            failed = session is partial and step % 5 == 0
            session.tell(
                draw,
                None if failed else float(first[draw.item]),
                None if step % 10 == 9 and session is partial else float(second[draw.item]),
            )
    assert partial.interval.lower <= whole.interval.lower
    assert partial.interval.upper >= whole.interval.upper
    assert partial.result().failures == 60
    assert whole.result().failures == 0


def test_one_failed_model_still_bounds_the_difference() -> None:
    """With a score of 1 for the first, the difference is at least 0 whatever the second would have got."""
    session = CompareSession(1)
    (draw,) = session.ask()
    session.tell(draw, 1.0, None)
    result = session.result()
    assert (result.lower, result.upper, result.failures) == (0.0, 1.0, 1)
    assert (result.decision, result.stopped) == ("undecided", "exhausted")


def test_nothing_depends_on_the_score_about_to_be_used() -> None:
    """The draws and outlooks up to an item are the same whatever the two models answer to it."""
    seen = []
    for answer in (0.0, 1.0):
        session = CompareSession(len(SCENE.first), history=SCENE.history, seed=9, goal=Difference(0.01))
        while session.n_evaluated < 40:
            (draw,) = session.ask()
            last = session.n_evaluated == 39
            if last:
                seen.append((draw, session.method.tally.prospect()))
            session.tell(
                draw, answer if last else float(SCENE.first[draw.item]), float(SCENE.second[draw.item])
            )
    assert seen[0] == seen[1]


def test_weights_are_the_target() -> None:
    weights = np.array([3.0] * 50 + [1.0] * 350)
    answer = replay_comparison(SCENE.first, SCENE.second, weights=weights, goal=Difference(0.05))
    truth = float(np.average(SCENE.first - SCENE.second, weights=weights))
    assert answer.target == "weighted"
    assert answer.lower <= truth <= answer.upper


def test_items_that_either_model_lacks_are_left_out() -> None:
    first, second = SCENE.first.copy(), SCENE.second.copy()
    first[3], second[7] = np.nan, np.nan
    answer = replay_comparison(
        first, second, texts=[f"question {row}" for row in range(len(first))], goal=Difference(0.2)
    )
    assert answer.n_items == len(first) - 2


def test_the_scenes_know_what_is_true() -> None:
    assert allowed(Scene(np.ones(4), np.zeros(4))) == {"first"}
    assert allowed(Scene(np.ones(4), np.ones(4))) == {"no-difference"}
    assert allowed(Scene(np.zeros(4), np.ones(4), goal=NotWorse(0.1))) == {"worse"}


BAD: dict[str, tuple[Any, str]] = {
    "goal": (lambda: CompareSession(5, goal=cereval.Estimate(0.1)), "Sign"),  # type: ignore[arg-type]
    "tie": (lambda: Sign(1.5), "tie"),
    "eps": (lambda: NotWorse(-0.1), "eps"),
    "lengths": (lambda: replay_comparison([1.0], [1.0, 0.0]), "scores_b"),
    "nothing": (lambda: replay_comparison([np.nan, 1.0], [1.0, np.nan]), "at least one item"),
    "batch": (lambda: replay_comparison([1.0], [1.0], batch=0), "batch"),
    "history": (lambda: replay_comparison([1.0], [1.0], history=[[1.0], [0.0]]), "history"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name: str) -> None:
    call, hint = BAD[name]
    with pytest.raises(InvalidInput, match=hint):
        call()


def test_scores_are_checked_and_told_once() -> None:
    session = CompareSession(5)
    (draw,) = session.ask()
    with pytest.raises(InvalidInput, match="second model"):
        session.tell(draw, 1.0, 1.5)
    session.tell(draw, True, 0.0)
    with pytest.raises(Misuse, match="already"):
        session.tell(draw, 1.0, 0.0)


def test_series_in_another_order_are_refused() -> None:
    pd = pytest.importorskip("pandas")
    first = pd.Series([1.0, 0.0, 1.0], index=["a", "b", "c"])
    assert replay_comparison(first, first * 0).n_items == 3
    assert replay_comparison(first, pd.Series([1.0, 0.0, 1.0], index=[3, 4, 5])).n_items == 3
    with pytest.raises(
        InvalidInput, match=r"scores_b must be in the order of the others \(row 1 is 'b' there\)"
    ):
        replay_comparison(first, first.loc[["a", "c", "b"]])
    with pytest.raises(
        InvalidInput, match=r"scores_b must be in the order of the others \(row 0 is 'a' there\)"
    ):
        replay_comparison(first, pd.Series([1.0, 0.0, 1.0], index=["b", "c", "z"]))
    assert replay_comparison(first, pd.Series([1.0, 0.0, 1.0], index=["a", "b", "z"])).n_items == 3


# -- models that do not answer the same twice --------------------------------------------------------------------------


def tossed(
    session: CompareSession, first: Floats, second: Floats, seed: int, failing: float = 0.0
) -> Comparison:
    """Answer rightly with each item's own chance, anew at every call."""
    rng = np.random.default_rng([seed, 31])
    while not session.done:
        for draw in session.ask(1):
            scores = [float(rng.random() < rates[draw.item]) for rates in (first, second)]
            session.tell(draw, None if rng.random() < failing else scores[0], scores[1])
    return session.result()


@pytest.mark.slow
def test_of_equal_random_models_neither_is_better() -> None:
    rates, named = np.full(30, 0.8), 0
    for seed in range(40):
        session = CompareSession(
            30, goal=Sign(0.05), target="expected", confidence=0.7, budget=150, seed=seed
        )
        named += tossed(session, rates, rates, seed).decision in ("first", "second")
    assert named <= most_misses(40, 0.3) == 19


def test_what_items_answered_is_remembered() -> None:
    first = np.array([1.0] * 14 + [0.0] * 10 + [0.5] * 6)
    second = first.copy()
    second[:2] = 0.4
    counts = []
    for seed in range(3):
        result = tossed(CompareSession(30, target="expected", seed=seed), first, second, seed)
        assert (result.decision, result.target, result.method) == ("first", "expected", "memory")
        assert result.lower <= 0.04 <= result.upper
        counts.append(result.n_evaluated)
    assert np.mean(counts) < 2500


def test_the_audit_recomputes_a_comparison_of_fresh_answers() -> None:
    rng = np.random.default_rng(4)
    first, second = rng.beta(0.4, 0.4, 25), rng.beta(0.4, 0.4, 25)
    history = np.column_stack((first, second, rng.random(25)))
    for goal in (Sign(0.1), Difference(0.15), NotWorse(0.05)):
        session = CompareSession(
            25, goal=goal, target="expected", history=history, budget=250, seed=2, models=("a", "b")
        )
        result = tossed(session, first, second, 3, failing=0.05)
        assert result.failures > 0
        known, about = Known.of(session.pool), {"first": "a", "second": "b"}
        found = issue(kind_named("compare"), session, result, known, about=about)
        verdict = verify(found)
        assert verdict.valid, verdict.reasons


def test_all_items_at_once_are_no_fresh_answers() -> None:
    with pytest.raises(InvalidInput, match="every answer is fresh"):
        CompareSession(30, target="expected", method="all")
