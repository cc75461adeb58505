"""`Session`: the same answers give the same certificate, whatever the order, the moment or the machine."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from benchmarks.populations import clusters
from hypothesis import given, settings
from hypothesis import strategies as st

from cereval.errors import InvalidInput, Misuse
from cereval.methods.uniform import Uniform
from cereval.questions.goals import Goal
from cereval.questions.log import Change, Log, replayed
from cereval.questions.mean.goal import Estimate, Threshold
from cereval.questions.mean.session import Session
from cereval.records import Draw, Result, Scored

SIZE = 300
POPULATION = clusters(np.random.default_rng(8), size=SIZE)
HISTORY = np.random.default_rng(9).uniform(size=(SIZE, 4)).round()
HISTORY[::7, 1] = np.nan
WEIGHTS = np.random.default_rng(10).pareto(1.5, SIZE)
WEIGHTS[::11] = 0.0

PLANS: dict[str, dict[str, Any]] = {
    "uniform": {"method": "uniform"},
    "hedged": {"method": "hedged"},
    "weights": {"method": "uniform", "weights": WEIGHTS},
    "population": {"method": "uniform", "target": "population"},
    "expected": {"method": "uniform", "target": "expected"},
    "embeddings": {"method": "active", "embeddings": POPULATION.embeddings},
    "partition": {"method": "partition", "embeddings": POPULATION.embeddings},
    "groups": {"method": "active", "groups": POPULATION.groups},
    "history": {"method": "active", "history": HISTORY},
    "everything": {
        "method": "active",
        "embeddings": POPULATION.embeddings,
        "groups": POPULATION.groups,
        "history": HISTORY,
        "weights": WEIGHTS,
    },
    "active expected": {"method": "active", "target": "expected", "groups": POPULATION.groups},
}
SIDE = ("embeddings", "groups", "history", "weights")


def opened(plan: str, goal: Goal | None = None, **more: Any) -> Session:
    return Session(SIZE, goal=goal or Estimate(0.1), seed=4, **(PLANS[plan] | more))


def score_of(draw: Draw) -> float:
    """A fixed answer to each draw: with `expected`, an item that comes again may be answered otherwise."""
    return float((POPULATION.scores[draw.item] + (draw.index % 5 == 0)) % 2)


def answer(session: Session, draw: Draw, failing: int = 0) -> None:
    if failing and draw.item % failing == 0:
        session.fail(draw)
    else:
        session.tell(draw, score_of(draw))


def finish(session: Session, in_flight: int = 1, seed: int | None = None, failing: int = 0) -> Result:
    """Keeps `in_flight` draws out and answers them in an order of chance."""
    order = np.random.default_rng(0 if seed is None else seed)
    pending = list(session.outstanding)
    while not session.done:
        if len(pending) < in_flight:
            pending += session.ask(in_flight - len(pending))
        answer(session, pending.pop(int(order.integers(len(pending))) if seed is not None else 0), failing)
    return session.result()


# timing


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(
    ("goal", "in_flight", "seed"),
    [(Estimate(0.1), 3, None), (Threshold(0.45), 16, 1), (Estimate(0.1), 200, 3)],
)
def test_draws_and_result_do_not_depend_on_timing(
    plan: str, goal: Goal, in_flight: int, seed: int | None
) -> None:
    alone, crowd = (opened(plan, goal, budget=400) for _ in range(2))
    expected = finish(alone, failing=13)
    assert finish(crowd, in_flight, seed, failing=13) == expected
    assert crowd._draws[: expected.n_evaluated] == list(alone._draws)


@pytest.mark.parametrize("plan", PLANS)
def test_another_seed_gives_other_draws(plan: str) -> None:
    first, second = opened(plan), Session(SIZE, goal=Estimate(0.1), seed=5, **PLANS[plan])
    assert [draw.item for draw in first.ask(20)] != [draw.item for draw in second.ask(20)]


def test_results_are_consumed_in_draw_order_only() -> None:
    session = opened("uniform")
    first, *rest = session.ask(10)
    for draw in rest:
        session.tell(draw, 1.0)
    assert session.n_evaluated == 0
    session.tell(first, 1.0)
    assert session.n_evaluated == 10


# what is shown


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(sorted(PLANS)),
    st.sampled_from([Estimate(0.05), Estimate(0.3), Threshold(0.5), Threshold(0.9)]),
    st.sampled_from([0, 2, 9]),
    st.sampled_from(["zeros", "ones", "halves", "mixed"]),
)
def test_every_interval_is_a_number_inside_the_one_before(
    plan: str, goal: Goal, failing: int, kind: str
) -> None:
    session = opened(plan, goal, budget=250)
    values = {"zeros": 0.0, "ones": 1.0, "halves": 0.5}
    before = session.interval
    while not session.done:
        (draw,) = session.ask()
        if failing and draw.item % failing == 0:
            session.fail(draw)
        else:
            session.tell(draw, values.get(kind, score_of(draw)))
        if session.result().stopped == "contradiction":
            return
        now = session.interval
        assert 0.0 <= before.lower <= now.lower + 1e-12 <= now.upper + 2e-12
        assert now.upper - 1e-12 <= before.upper <= 1.0
        assert now.lower <= session.estimate <= now.upper
        before = now


@pytest.mark.parametrize("plan", ["uniform", "hedged", "weights", "embeddings", "everything"])
def test_with_all_items_in_the_interval_is_the_exact_mean(plan: str) -> None:
    few = {key: value[:30] if key in SIDE else value for key, value in PLANS[plan].items()}
    session = Session(30, goal=Estimate(0.4), confidence=1 - 1e-15, **few)
    session.goal = Estimate(1e-9)
    while not session.done:
        for draw in session.ask(50):
            session.tell(draw, POPULATION.scores[draw.item])
    exact = float(np.average(POPULATION.scores[:30], weights=few.get("weights")))
    result = session.result()
    assert result.n_evaluated == np.count_nonzero(few.get("weights", np.ones(30)))
    assert result.lower == result.upper == result.estimate == pytest.approx(exact, abs=1e-14)
    assert result.half_width == 0.0


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("method", ["uniform", "active", "hedged"])
@pytest.mark.parametrize("score", [0.0, 0.3, 1.0])
def test_tiny_pools(size: int, method: str, score: float) -> None:
    session = Session(size, goal=Estimate(0.01), method=method)
    while not session.done:
        for draw in session.ask(5):
            session.tell(draw, score)
    result = session.result()
    assert (result.n_evaluated, result.stopped) == (size, "goal")
    assert result.lower == result.upper == pytest.approx(score, abs=1e-15)


@pytest.mark.parametrize("plan", PLANS)
def test_the_goal_is_kept(plan: str) -> None:
    result = finish(opened(plan, Estimate(0.1), budget=2000))
    if result.stopped == "goal":
        assert result.half_width <= 0.1 + 1e-12
        assert result.lower <= result.estimate <= result.upper
    else:
        assert (plan, result.stopped) == ("population", "exhausted")


def test_failed_calls_widen_but_never_drop() -> None:
    session = opened("uniform", Estimate(0.01))
    finish(session, failing=3)
    result = session.result()
    failed = sum(item % 3 == 0 for item in range(SIZE))
    assert (result.stopped, result.failures, result.n_evaluated) == ("exhausted", failed, SIZE)
    assert result.upper - result.lower == pytest.approx(failed / SIZE)


def test_a_session_in_which_every_call_fails_shows_everything() -> None:
    result = finish(opened("embeddings", Estimate(0.1)), failing=1)
    assert (result.lower, result.upper, result.stopped) == (0.0, 1.0, "exhausted")


def contradicted() -> Session:
    """Twenty results, all right, after which the games are made to reject every value from both sides."""
    session = opened("uniform", Estimate(0.1))
    *most, last = session.ask(20)
    for draw in most:
        session.tell(draw, 1.0)
    assert isinstance(session.method, Uniform)
    table = session.method._table
    assert table is not None
    table._rejected[:] = True
    table._close()
    session.tell(last, 1.0)
    return session


def test_a_contradiction_is_said_and_shows_what_the_scores_alone_prove() -> None:
    result = contradicted().result()
    assert result.stopped == "contradiction"
    assert "rejects every value" in result.notes[0]
    assert (result.lower, result.upper) == (pytest.approx(20 / SIZE, abs=1e-9), 1.0)
    assert result.lower <= result.estimate <= result.upper


def test_a_contradiction_does_not_end_with_a_new_goal() -> None:
    session = contradicted()
    session.goal = Estimate(0.4)
    assert session.result().stopped == "contradiction"
    with pytest.raises(Misuse, match="contradiction"):
        session.ask()


# misuse


def test_asking_after_the_end_is_refused() -> None:
    session = opened("uniform", Estimate(0.3))
    finish(session)
    with pytest.raises(Misuse, match="ended"):
        session.ask()


def test_telling_twice_is_refused() -> None:
    session = opened("uniform")
    draw, other = session.ask(2)
    session.tell(draw, 1)
    for again in (session.fail, lambda one: session.tell(one, 1.0)):
        with pytest.raises(Misuse, match="told already"):
            again(draw)
    session.fail(other)
    with pytest.raises(Misuse, match="told already"):
        session.tell(other, 1.0)


@pytest.mark.parametrize("change", [{"index": 7}, {"index": -1}, {"item": 12345}, {"probability": 0.5}])
def test_foreign_draws_are_refused(change: dict[str, Any]) -> None:
    session = opened("uniform")
    (draw,) = session.ask()
    fields = {"index": draw.index, "item": draw.item, "probability": draw.probability}
    with pytest.raises(Misuse, match="not asked"):
        session.tell(Draw(**(fields | change)), 1.0)
    session.tell(draw, 1.0)
    assert session.n_evaluated == 1


@pytest.mark.parametrize("score", [-0.01, 1.01, float("nan"), float("inf"), None, "1", "right", [1.0], 1j])
def test_bad_scores_are_refused_and_leave_no_trace(score: Any) -> None:
    session = opened("uniform")
    (draw,) = session.ask()
    with pytest.raises(InvalidInput, match="score must be a number in"):
        session.tell(draw, score)
    assert session.n_evaluated == 0
    session.tell(draw, 1.0)
    assert session.n_evaluated == 1


@pytest.mark.parametrize("score", [True, 1, np.float32(1), np.int64(1), np.True_])
def test_numbers_of_any_kind_are_scores(score: Any) -> None:
    session = opened("uniform")
    (draw,) = session.ask()
    session.tell(draw, score)
    assert told(session) == {0: (1.0,)}


# budget


@pytest.mark.parametrize("plan", PLANS)
def test_no_more_than_the_budget_is_asked(plan: str) -> None:
    session = opened(plan, Estimate(0.005), budget=45)
    result = finish(session, in_flight=64)
    assert (result.stopped, result.n_evaluated, len(session._draws)) == ("budget", 45, 45)


def test_bets_aim_at_the_budget() -> None:
    widths = [
        finish(opened("uniform", Estimate(0.005), budget=budget)).half_width
        if budget == 100
        else _width_after(opened("uniform", Estimate(0.005)), 100)
        for budget in (100, None)
    ]
    assert widths[0] < 0.8 * widths[1]


def _width_after(session: Session, calls: int) -> float:
    for draw in session.ask(calls):
        answer(session, draw)
    return session.interval.half_width


# new goals


def test_a_looser_goal_may_end_the_session_at_once() -> None:
    session = opened("uniform", Estimate(0.02))
    _width_after(session, 120)
    shown = session.interval
    session.goal = Estimate(0.3)
    assert session.done
    assert session.interval == shown


@pytest.mark.parametrize("plan", ["uniform", "embeddings"])
def test_a_tighter_goal_goes_on_from_what_is_known(plan: str) -> None:
    session = opened(plan, Estimate(0.2))
    loose = finish(session)
    session.goal = Estimate(0.05)
    assert not session.done
    tight = finish(session)
    assert loose.lower <= tight.lower <= tight.upper <= loose.upper
    assert tight.half_width <= 0.05
    assert tight.n_evaluated < SIZE


def test_a_much_tighter_goal_costs_about_what_it_would_have_from_the_start() -> None:
    """The grid of the old goal must not limit the new one: its step was wider than the new interval."""
    moved, direct = (Session(40_000, goal=Estimate(eps), method="uniform") for eps in (0.45, 0.004))
    for session in (moved, direct):
        while not session.done or session.goal != Estimate(0.004):
            if session.done:
                session.goal = Estimate(0.004)
            for draw in session.ask(10):
                session.tell(draw, 0.0)
    assert moved.n_evaluated < 1.3 * direct.n_evaluated < 10_000


def test_a_new_goal_does_not_move_the_bets_on_draws_already_decided() -> None:
    shown = []
    for eps in (0.01, 0.3):
        session = opened("uniform", Estimate(0.1))
        pending = session.ask(60)
        session.goal = Estimate(eps)
        for draw in pending[:40]:
            answer(session, draw)
        session.goal = Estimate(0.004)
        for draw in pending[40:]:
            answer(session, draw)
        shown.append(session.interval)
    assert shown[0] == shown[1]


def test_results_that_waited_count_towards_a_new_goal() -> None:
    session = opened("uniform", Estimate(0.3))
    for draw in session.ask(200):
        session.tell(draw, score_of(draw))
    ended = session.n_evaluated
    assert ended < 200
    session.goal = Estimate(0.1)
    assert session.n_evaluated > ended


def test_from_an_estimate_to_a_threshold_the_interval_decides() -> None:
    session = opened("uniform", Estimate(0.05))
    _width_after(session, 100)
    shown = session.interval
    session.goal = Threshold(0.8)
    result = finish(session)
    assert result.decision == "below"
    assert shown.lower <= result.lower
    assert result.upper <= 0.8


def test_from_an_undecided_threshold_to_an_estimate() -> None:
    session = opened("uniform", Threshold(0.5))
    _width_after(session, 40)
    assert session.result().decision is None
    session.goal = Estimate(0.1)
    result = finish(session)
    assert (result.stopped, result.decision) == ("goal", None)
    assert result.half_width <= 0.1


@pytest.mark.parametrize(("other", "decision"), [(0.2, "above"), (0.85, "below")])
def test_from_one_undecided_threshold_to_another(other: float, decision: str) -> None:
    session = Session(5000, goal=Threshold(0.5), method="uniform")
    for draw in session.ask(40):
        session.tell(draw, float(draw.index % 2))
    assert not session.done
    session.goal = Threshold(other)
    while not session.done:
        (draw,) = session.ask()
        session.tell(draw, float(draw.index % 2))
    assert session.result().decision == decision
    assert session.n_evaluated < 400


def test_a_threshold_test_and_the_intervals_after_it_share_one_delta() -> None:
    """Given up undecided, it has had its chance of error: what follows is shown at the share kept for it."""
    early, late = opened("uniform", Estimate(0.02)), opened("uniform", Threshold(0.5))
    late.goal = Estimate(0.02)
    widths = [_width_after(session, 80) for session in (early, late)]
    assert widths[0] < widths[1]


def test_a_decided_threshold_has_spent_its_error() -> None:
    session = opened("uniform", Threshold(0.9))
    finish(session)
    for goal in (Estimate(0.1), Threshold(0.8)):
        with pytest.raises(Misuse, match="new session"):
            session.goal = goal
    session.goal = Threshold(0.9)
    assert session.result().decision == "below"


@pytest.mark.slow
def test_a_mean_equal_to_the_threshold_is_at_least_the_threshold() -> None:
    for size in (2, 3, 5, 6, 7, 9, 10, 11, 13, 17, 29):
        for ones in range(1, size):
            session = Session(size, goal=Threshold(ones / size), method="uniform", confidence=0.999999)
            while not session.done:
                (draw,) = session.ask()
                session.tell(draw, float(draw.item < ones))
            assert session.result().decision == "above"


# told again


def told(session: Session) -> dict[int, Scored]:
    return {index: scores for index, scores in enumerate(session._told) if scores is not None}


def retold(session: Session, fresh: Session) -> Session:
    """A session of the same settings that was told the same, from the log alone."""
    changes = [Change(**json.loads(json.dumps(change.as_dict()))) for change in session.changes]
    replayed(fresh, Log(told(session), session.n_drawn, changes, dict(enumerate(session._draws))))
    return fresh


def assert_same(one: Session, other: Session) -> None:
    assert (one._draws, told(one), one.changes) == (other._draws, told(other), other.changes)
    assert one.result() == other.result()
    assert one.outstanding == other.outstanding
    assert (one.goal, one.done) == (other.goal, other.done)


GOALS = [Estimate(0.3), Estimate(0.12), Estimate(0.05), Threshold(0.5), Threshold(0.62)]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(PLANS)), st.data())
def test_a_session_that_is_told_its_log_is_the_same_and_goes_on_the_same(
    plan: str, data: st.DataObject
) -> None:
    goal, budget = data.draw(st.sampled_from(GOALS)), data.draw(st.sampled_from([None, 150]))
    session = opened(plan, goal, budget=budget)
    for _ in range(data.draw(st.integers(0, 12))):
        _one_event(session, data)
    copy = retold(session, opened(plan, goal, budget=budget))
    assert_same(session, copy)
    if not session.done:
        assert session.ask(3) == copy.ask(3)
    for draw in session.outstanding[::2]:
        answer(session, draw, 13)
        answer(copy, draw, 13)
    assert_same(session, copy)


def _one_event(session: Session, data: st.DataObject) -> None:
    event = data.draw(st.sampled_from(["ask", "tell", "tell", "tell all", "goal"]))
    if event == "ask" and not session.done:
        session.ask(data.draw(st.integers(1, 40)))
    elif event == "goal" and not (session.done and isinstance(session.goal, Threshold)):
        session.goal = data.draw(st.sampled_from(GOALS))
    elif event.startswith("tell") and session.outstanding:
        draws = data.draw(st.permutations(session.outstanding))
        for draw in draws if event == "tell all" else draws[: len(draws) // 2 + 1]:
            answer(session, draw, 13)
