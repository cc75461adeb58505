"""Data that grow: all versions valid at once whatever the new items are, and nothing asked twice."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from benchmarks.coverage import most_misses
from benchmarks.growing import least_ratio
from benchmarks.growing_scenes import ENEMIES, bernoulli, run_grown
from tests.questions.replays import replay_growing

import cereval
from cereval.errors import InvalidInput, Misuse
from cereval.questions.growing.session import Growing
from cereval.questions.log import Log, replayed
from cereval.questions.mean.goal import Estimate, Threshold
from cereval.questions.replay import checked_sizes, drive

RUNS = 12
CONFIDENCE = 0.8
"""More errors are allowed than usual, so that a few runs suffice to see too many of them."""

SCORES = (np.random.default_rng(3).uniform(size=500) < 0.7).astype(float)
SIZES = [300, 380, 500]


@pytest.mark.slow
def test_all_versions_hold_at_once_whatever_the_new_items_are() -> None:
    """Friends and enemies, watched at every step; a true miss rate of .2 exceeds the bound with chance 1%."""
    outcomes = [
        run_grown((70, 20, 20), 0.13, seed, newcomers, confidence=CONFIDENCE)
        for number, newcomers in enumerate(ENEMIES.values())
        for seed in range(number * RUNS, (number + 1) * RUNS)
    ]
    assert sum(one.missed for one in outcomes) <= most_misses(len(outcomes), 1 - CONFIDENCE)
    assert max(one.widest for one in outcomes) <= 0.13


@pytest.mark.parametrize("mean", [0.5, 0.05])
def test_a_sample_of_one_population_is_covered_through_all_versions(mean: float) -> None:
    newcomers = partial(bernoulli, mean=mean)
    outcomes = [
        run_grown((150, 50, 50), 0.15, seed, newcomers, source=mean, confidence=CONFIDENCE)
        for seed in range(30)
    ]
    assert sum(one.missed for one in outcomes) <= most_misses(len(outcomes), 1 - CONFIDENCE)
    assert all(sum(one.calls[1:]) == 0 for one in outcomes if one.widest <= 0.15 and one.calls[0] < 150)


@pytest.mark.parametrize("target", ["benchmark", "population"])
def test_calls_in_flight_change_nothing(target: str) -> None:
    one = replay_growing(SCORES, SIZES, goal=Estimate(0.08), target=target, seed=3)
    assert one == replay_growing(SCORES, SIZES, goal=Estimate(0.08), target=target, seed=3, batch=7)
    assert one == replay_growing(SCORES, SIZES, goal=Estimate(0.08), target=target, seed=3, batch=500)
    assert one != replay_growing(SCORES, SIZES, goal=Estimate(0.08), target=target, seed=4)


def test_each_version_reaches_the_goal_and_asks_only_new_items() -> None:
    session = Growing(300, goal=Estimate(0.08), seed=1)
    drive(session.last, SCORES)
    (first,) = session.versions
    session.extend(80)
    while not session.done:
        for draw in session.ask(3):
            assert 300 <= draw.item < 380
            session.tell(draw, float(SCORES[draw.item]))
    assert session.versions[0] == first
    assert [version.stopped for version in session.versions] == ["goal", "goal"]
    assert session.result().n_evaluated == sum(version.calls for version in session.versions)
    assert all(version.half_width <= 0.08 for version in session.versions)


def test_a_single_version_costs_little_more_than_a_plain_run() -> None:
    plain = cereval.replay(SCORES, goal=Estimate(0.06), seed=2).n_evaluated
    grown = replay_growing(SCORES, [500], goal=Estimate(0.06), seed=2).n_evaluated
    assert grown <= 1.25 * plain


@pytest.mark.parametrize("target", ["benchmark", "population"])
def test_versions_that_are_told_their_logs_go_on_as_the_first_would(target: str) -> None:
    session = Growing(300, goal=Estimate(0.08), target=target, seed=5)
    drive(session.last, SCORES)
    session.extend(80)
    again = Growing(300, goal=Estimate(0.08), target=target, seed=5)
    for number, log in enumerate(session.logs):
        if number:
            again.extend(80)
        draws = {draw.index: draw for draw, _ in log}
        replayed(again.last, Log({draw.index: scores for draw, scores in log}, len(draws), draws=draws))
    for one in (session, again):
        drive(one.last, SCORES)
        one.extend(120)
        drive(one.last, SCORES)
    assert again.result() == session.result()


def test_all_items_asked_give_the_exact_mean() -> None:
    result = replay_growing(SCORES[:30], [20, 30], goal=Estimate(0.01))
    assert [version.calls for version in result.versions] == [20, 10]
    for version in result.versions:
        assert version.lower == pytest.approx(SCORES[: version.n_items].mean(), abs=1e-9)
        assert version.upper == pytest.approx(version.lower, abs=1e-9)


def test_a_few_new_items_cost_at_most_themselves() -> None:
    result = replay_growing(SCORES, [300, 301, 305, 320], goal=Estimate(0.1), seed=2)
    assert [version.stopped for version in result.versions] == ["goal"] * 4
    assert all(version.calls <= version.n_new for version in result.versions)


def test_failed_calls_only_widen() -> None:
    whole, holes = (Growing(100, goal=Estimate(0.01), seed=1) for _ in range(2))
    for number in range(60):
        (draw,) = whole.ask(1)
        assert holes.ask(1) == [draw]
        whole.tell(draw, 1.0)
        holes.fail(draw) if number % 10 == 5 else holes.tell(draw, 1.0)
        assert holes.interval.lower <= whole.interval.lower + 1e-12
        assert holes.interval.upper >= whole.interval.upper - 1e-12


def test_no_new_version_before_the_last_has_ended() -> None:
    session = Growing(100)
    with pytest.raises(Misuse, match="has not ended"):
        session.extend(10)


def test_draws_given_up_with_a_version_are_not_taken_later() -> None:
    session = Growing(300, goal=Estimate(0.2), seed=1)
    while not session.done:
        draws = session.ask(50)
        for draw in draws[:45]:
            session.tell(draw, float(SCORES[draw.item]))
            if session.done:
                break
    late = session.outstanding[-1]
    session.extend(50)
    with pytest.raises(Misuse, match="not asked"):
        session.tell(late, 1.0)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"goal": Threshold(0.5)}, "goal"),
        ({"target": "expected"}, "target"),
        ({"confidence": 1.0}, "confidence"),
        ({"seed": -1}, "seed"),
        ({"n_items": 0}, "n_items"),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        Growing(**{"n_items": 10, **change})  # type: ignore[arg-type]


@pytest.mark.parametrize("sizes", [[], [5, 5], [8, 6], [11]])
def test_versions_grow(sizes: list[int]) -> None:
    with pytest.raises(InvalidInput, match="sizes"):
        checked_sizes(sizes, 10)


def test_the_least_ratio_falls_with_the_share_asked_and_is_1_for_one_version() -> None:
    ratios = [least_ratio([600, 100, 100, 100, 100], eps, 0.25) for eps in (0.1, 0.05, 0.02)]
    assert ratios == sorted(ratios, reverse=True)
    assert least_ratio([1000], 0.05, 0.25) == pytest.approx(1, abs=0.02)
