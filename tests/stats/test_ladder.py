"""The ladder: fair under its nulls, and narrow on the way."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cereval.methods.certified import LADDER
from cereval.methods.uniform import COUNTING
from cereval.questions.goals import Goal
from cereval.questions.mean.goal import Estimate, Threshold
from cereval.questions.mean.session import Session
from cereval.records import Draw
from cereval.stats.increments import Tally
from cereval.stats.information import LARGEST_SQUARE, Information
from cereval.stats.ladder import Ladder, Rungs
from cereval.version import ENGINE

SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=4, max_size=4)


FEW = Rungs(horizons=(2.0, 5.0), share=1.0, cells=4)
EVEN = Rungs(horizons=(0.5, 1.0, 2.0), share=1.0, cells=4)
UNEVEN = Rungs(horizons=(0.5, 1.0, 2.0), share=1.0, cells=4, parts=(3.0, 1.0))


def wealth_at(scores: tuple[float, ...], draws: int, value: float, rungs: Rungs) -> np.ndarray:
    """What the rungs have against both nulls of one value, after the first draws of an order."""
    ladder, clock = Ladder(rungs, 0.1, 0.9), Information()
    tally = Tally(np.full(len(scores), 1 / len(scores)), replacement=False)
    for item in range(draws):
        prospect = tally.prospect()
        ladder.stake(prospect, clock, 0.0, 1.0)
        increment = tally.settle(item, scores[item], scores[item])
        ladder.settle(increment)
        clock.add(increment.low, prospect.variance)
    return np.exp(ladder.log_wealth(np.array([value]))[:, 0])


@given(scores=SCORES, draws=st.integers(1, 4), rungs=st.sampled_from([FEW, EVEN, UNEVEN]))
@settings(max_examples=40, deadline=None)
def test_over_all_orders_the_rungs_do_not_gain_under_their_null(
    scores: list[float], draws: int, rungs: Rungs
) -> None:
    mean = float(np.mean(scores))
    wealth = np.mean([wealth_at(order, draws, mean, rungs) for order in permutations(scores)], axis=0)
    assert (wealth <= 1 + 1e-9).all()


def test_rungs_that_come_to_the_same_horizon_are_put_together_with_all_that_they_have() -> None:
    ladder = Ladder(Rungs(horizons=(25.0, 50.0, 100.0), share=0.5, cells=4), 0.1, 0.9)
    ladder._wealth = ladder._wealth + np.arange(3)[:, None, None]
    before = np.exp(ladder._wealth).sum(axis=0)
    assert len(ladder.ahead(4 * 30.0)) == 2
    assert np.allclose(np.exp(ladder._wealth).sum(axis=0), before)
    assert len(ladder.ahead(4 * 1_000.0)) == 2


@pytest.mark.parametrize("parts", [(1.0,), (3.0, 2.0, 1.0), (5.0, 4.0, 3.0, 2.0, 1.0, 1.0, 1.0)])
def test_uneven_rungs_have_the_share_together(parts: tuple[float, ...]) -> None:
    ladder = Ladder(Rungs(share=0.3, cells=4, parts=parts), 0.1, 0.9)
    assert np.allclose(np.exp(ladder._wealth).sum(axis=0), 0.3)
    assert np.allclose(
        np.exp(ladder._wealth[0] - ladder._wealth[1]), parts[0] / parts[min(1, len(parts) - 1)]
    )


def test_there_is_a_rung_for_every_doubling_on_the_way_to_the_goal() -> None:
    rungs = Rungs()
    assert rungs.towards(96).horizons == (25.0,)
    assert rungs.towards(400).horizons == (25.0, 50.0, 100.0, 200.0)
    assert len(rungs.towards(960_000).horizons) == 15


def test_a_value_between_two_of_the_grid_counts_the_one_that_its_null_implies() -> None:
    ladder = Ladder(Rungs(share=1.0, cells=4), 0.1, 0.9)
    ladder._total = np.array([[0.0, 1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0, 9.0]])
    assert ladder.log_wealth(np.array([0.0, 0.3, 0.5, 1.0])).tolist() == [[0, 2, 2, 4], [5, 6, 7, 9]]


def test_dividing_the_grid_gives_no_value_more_than_its_neighbours_had() -> None:
    ladder = Ladder(Rungs(share=1.0, cells=4), 0.1, 0.9)
    ladder._total = np.array([[0.0, 1.0, 2.0, 3.0, 4.0], [9.0, 8.0, 7.0, 6.0, 5.0]])
    before = ladder.log_wealth(np.linspace(0, 1, 17))
    ladder._divide(4)
    assert (ladder.log_wealth(np.linspace(0, 1, 17)) == before).all()


def half_widths(
    mean: float,
    goal: Goal | None = None,
    looks: tuple[int, ...] = (50, 100, 200, 400),
    ladder: Rungs = COUNTING.ladder,
) -> list[float]:
    """Return the mean half-widths of three runs."""
    runs = [half_widths_of_one(mean, goal, looks, ladder, seed) for seed in range(3)]
    shortest = min(map(len, runs))
    return np.mean([run[:shortest] for run in runs], axis=0).tolist()


def half_widths_of_one(
    mean: float, goal: Goal | None, looks: tuple[int, ...], ladder: Rungs, seed: int
) -> list[float]:
    size = max(3000, 4 * looks[-1])
    ones = (np.arange(size) < size * mean).astype(float)
    options = {"tuning": replace(COUNTING, ladder=ladder)}
    session = Session(size, goal=goal or Estimate(0.02), method="uniform", seed=seed, options=options)
    found = []
    while session.n_evaluated < looks[-1] and not session.done:
        for draw in session.ask(1):
            session.tell(draw, float(ones[draw.item]))
        if session.n_evaluated in looks:
            found.append(session.interval.half_width)
    return found


NONE = replace(COUNTING.ladder, share=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "most"), [(0.5, 0.6), (0.8, 0.55), (0.05, 0.45)])
def test_whoever_looks_on_the_way_sees_a_decent_interval(mean: float, most: float) -> None:
    alone, ladder = half_widths(mean, ladder=NONE), half_widths(mean)
    assert all(new <= most * old for new, old in zip(ladder[:2], alone[:2], strict=True))


@pytest.mark.slow
def test_where_scores_are_rare_the_leaning_ladder_is_narrower() -> None:
    leaning, even = half_widths(0.03), half_widths(0.03, ladder=replace(COUNTING.ladder, tilt=0.0))
    assert all(new < 0.97 * old for new, old in zip(leaning[:2], even[:2], strict=True))


@pytest.mark.slow
def test_most_of_the_ladder_is_for_the_first_draws() -> None:
    for mean in (0.05, 0.5):
        even, early = (half_widths(mean, ladder=one) for one in (LADDER, COUNTING.ladder))
        assert all(new < old for new, old in zip(early[:3], even[:3], strict=True))


@pytest.mark.parametrize(("value", "step"), [(0.3, 0.0), (0.3, 0.05), (0.5, 0.01), (0.97, 0.2)])
def test_the_two_games_beside_a_value_start_with_at_most_two_shares(value: float, step: float) -> None:
    ladder = Ladder(Rungs(share=0.5, cells=16, tilt=0.9), 0.1, 0.9, step)
    below, above = np.array([max(value - step / 2, 0.0)]), np.array([min(value + step / 2, 1.0)])
    start = np.exp(ladder.log_wealth(above)[0, 0]) + np.exp(ladder.log_wealth(below)[1, 0])
    assert start <= 2 * 0.5 + 1e-12


def test_a_threshold_shows_an_interval_that_narrows() -> None:
    widths = half_widths(0.5, Threshold(0.52))
    assert widths == sorted(widths, reverse=True)
    assert widths[0] < 0.4
    assert widths[-1] < 0.2


def test_the_engine_is_named() -> None:
    assert Session(50, seed=1).settings()["engine"] == ENGINE


def test_bets_towards_a_horizon_begin_with_the_next_draw() -> None:
    session = Session(500, goal=Estimate(0.02), seed=1)
    draws: list[Draw] = session.ask(10)
    session.foresee(40)
    other = Session(500, goal=Estimate(0.02), seed=1)
    for one in (session, other):
        for draw in draws if one is session else other.ask(10):
            one.tell(draw, 1.0)
    assert session.interval == other.interval
    assert session.soonest == 40


def test_a_horizon_that_is_missed_by_rounding_alone_has_passed() -> None:
    """25 draws of equal information reach the first horizon exactly; their sum may end a digit below."""
    first = LADDER.horizons[0] * LARGEST_SQUARE
    exactly, below = (Ladder(LADDER, 0.025, 0.8).ahead(total) for total in (first, np.nextafter(first, 0)))
    assert np.allclose(exactly, below, rtol=1e-9)
