"""Ranking with past models: the order of the items follows them, what is certified does not depend on them."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
from benchmarks.coverage import most_misses
from benchmarks.rank_families import FAMILIES, wrong_claims
from numpy.typing import NDArray
from tests.certificate.forging import repaired
from tests.questions.replays import replay_ranking

from cereval.certificate.format import issue
from cereval.certificate.verify import verify
from cereval.errors import InvalidInput
from cereval.plan import Known
from cereval.questions import kind_named
from cereval.questions.rank.goal import Beats, Order, RankGoal, Top
from cereval.questions.rank.session import RankSession
from cereval.questions.replay import drive

Floats = NDArray[np.float64]
NAMES = ("a", "b", "c", "d", "e", "f")


def world(seed: int, items: int = 400) -> tuple[Floats, Floats]:
    """Six models and eight past ones that find the same items hard; on half of the items hardly anybody fails."""
    rng = np.random.default_rng(seed)
    ease = np.where(np.arange(items) % 2 == 0, 3.0, rng.normal(0.3, 0.6, size=items))
    skills = np.concatenate((np.linspace(-0.8, 0.8, 6), rng.normal(0, 0.5, size=8)))
    table = (rng.normal(size=(items, 14)) < ease[:, None] + skills).astype(float)
    return table[:, :6], table[:, 6:]


GOALS: list[RankGoal] = [Order(0.05), Order(0.1, proven=True), Top(2, 0.05), Beats(0.1, baseline=2)]


@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("like", ["like", "unlike", "few"])
def test_claims_are_true_whatever_the_past(goal: RankGoal, like: str) -> None:
    table, past = world(1)
    rng = np.random.default_rng(0)
    if like == "unlike":
        past = rng.permutation(past)
    if like == "few":
        past = np.where(rng.uniform(size=past.shape) < 0.8, np.nan, past)
    truth = dict(zip(NAMES, table.mean(axis=0), strict=True))
    ranking = replay_ranking(table, goal=goal, models=NAMES, history=past, seed=3)
    assert ranking.stopped == "goal"
    assert all(truth[better] >= truth[worse] for better, worse in ranking.order)
    assert all(one.lower - 1e-9 <= truth[name] <= one.upper + 1e-9 for name, one in ranking.intervals.items())
    assert all(one.lower <= one.estimate <= one.upper for one in ranking.intervals.values())


@pytest.mark.slow
def test_a_past_like_the_present_saves_calls() -> None:
    """Four worlds: 5,492 calls for 6,238. Real models: `python -m benchmarks.rank --only past`."""
    calls = np.zeros(2)
    for seed in range(4):
        table, past = world(seed)
        calls += [replay_ranking(table, history=known, seed=seed).calls for known in (None, past)]
    assert calls[1] < 0.95 * calls[0]


def test_items_on_which_the_past_disagreed_come_sooner() -> None:
    _, past = world(2)
    session = RankSession(400, NAMES, history=past, seed=1)
    places = np.argsort(session._rounds.order)
    assert places[1::2].mean() + 20 < places[::2].mean()
    draw = session.ask(1)[0]
    assert 0.5 / 400 < draw.probability < 2 / 400


def test_another_past_means_other_clocks_even_where_the_weights_are_the_same() -> None:
    """Else an earlier ranking with this seed, now part of the past, would have been asked by the same clocks."""
    _, past = world(2)
    orders = [RankSession(400, NAMES, history=known, seed=1)._rounds.order for known in (past, past[:, ::-1])]
    same = float(np.corrcoef(np.argsort(orders[0]), np.argsort(orders[1]))[0, 1])
    assert same < 0.4


def test_a_past_without_disagreement_changes_nothing() -> None:
    table, past = world(3)
    plain = replay_ranking(table, models=NAMES, seed=2)
    for known in (past[:, :1], np.ones_like(past), np.full_like(past, np.nan)):
        assert replay_ranking(table, models=NAMES, seed=2, history=known) == plain


def test_a_full_pass_knows_everything() -> None:
    table, past = world(6, items=30)
    ranking = replay_ranking(table, models=NAMES, goal=Order(0.001), history=past)
    means = table.mean(axis=0)
    assert ranking.stopped == "goal"
    expected = {(NAMES[i], NAMES[j]) for i in range(6) for j in range(6) if means[i] > means[j] + 1e-9}
    assert set(ranking.order) == expected
    full = [one for one in ranking.intervals.values() if one.n == 30]
    assert full
    assert all(one.lower == pytest.approx(one.upper) for one in full)


@pytest.mark.parametrize("batch", [1, 7, 500])
def test_timing_changes_nothing(batch: int) -> None:
    table, past = world(4, items=80)
    one, other = (RankSession(80, NAMES, history=past, seed=5) for _ in range(2))
    drive(one, table, 64)
    drive(other, table, batch)
    assert one.log == other.log
    assert one.result() == other.result()


@pytest.mark.slow
def test_a_misleading_past_makes_no_wrong_claims() -> None:
    """28 runs at delta = .3, over all families, seeds of their own.

    More wrong ones than 14 have probability .8%, and 81% where they are twice as likely. Each family: benchmarks/.
    """
    wrong = [wrong_claims(name, 7, 3000 + 7 * at, delta=0.3, past=True) for at, name in enumerate(FAMILIES)]
    assert sum(wrong) <= most_misses(28, 0.3) == 14


def certificate() -> dict[str, Any]:
    table, past = world(5, items=120)
    session = RankSession(120, NAMES, history=past, goal=Order(0.1), seed=6)
    result = drive(session, table, 64)
    content: dict[str, Any] = json.loads(
        json.dumps(issue(kind_named("rank"), session, result, Known(None, past), about={"data": "d"}))
    )
    return content


def test_the_certificate_holds_the_past_and_verify_follows_it() -> None:
    made = certificate()
    assert verify(made).status == "valid"
    bare, swapped = (copy.deepcopy(made) for _ in range(2))
    del bare["side_information"]
    assert verify(repaired(bare)).status == "invalid"
    _, other = world(9, items=120)
    swapped["side_information"] = Known(None, other).as_dict()
    assert "would have been" in " ".join(verify(repaired(swapped)).reasons)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"history": np.ones((9, 2))}, "history"),
        ({"history": np.full((10, 2), 1.5)}, "history"),
    ],
)
def test_bad_input_is_refused(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        RankSession(10, NAMES, **wrong)
