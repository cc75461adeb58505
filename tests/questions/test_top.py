"""What a ranking shows follows from what it shows: the order, the intervals and the places of a top k."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.questions.replays import replay_ranking

from cereval.cli.replay import truth_of_ranking
from cereval.questions.rank.goal import Beats, Order, Top
from cereval.questions.rank.order import Diagram
from cereval.questions.rank.session import ModelInterval, Ranking

NAMES = tuple("abcdefgh")


def equal_models(seed: int, items: int = 100) -> Ranking:
    """Eight models with the same mean, each right on items of its own."""
    rng = np.random.default_rng(seed)
    column = np.arange(items) < items // 2
    scores = np.column_stack([rng.permutation(column) for _ in NAMES]).astype(float)
    return replay_ranking(scores, goal=Top(1, within=0.0), models=NAMES, seed=seed)


def shown(k: int = 1, **limits: tuple[float, float]) -> Ranking:
    """A ranking with these intervals, `a` named, no pair in order and nobody eliminated."""
    scores = np.random.default_rng(0).uniform(size=(20, len(limits))).round()
    ranking = replay_ranking(scores, goal=Top(k), models=list(limits), budget=8, seed=0)
    intervals = {name: ModelInterval(sum(one) / 2, *one, 8) for name, one in limits.items()}
    return replace(
        ranking, order=(), undecided=(), winners=("a",), eliminated=(), intervals=intervals, stopped="goal"
    )


def places(ranking: Ranking) -> dict[str, str]:
    table = ranking.table()
    assert table is not None
    return {row[1]: row[0] for row in table.rows}


@pytest.mark.slow
def test_of_equal_models_none_is_said_to_be_worse() -> None:
    """Every elimination among equals is true as it is worded: k others are at least as good."""
    eliminated = 0
    for seed in range(20):
        ranking = equal_models(seed)
        words = " ".join([ranking.headline(), *ranking.lines(), *places(ranking).values()])
        assert "eliminated" not in words
        assert not ranking.order
        truth = truth_of_ranking(ranking, dict.fromkeys(NAMES, 0.5))
        assert truth["wrongly_eliminated"] == []
        eliminated += len(ranking.eliminated)
        for name in ranking.eliminated:
            assert places(ranking)[name] == ("yes" if name in ranking.winners else "≤ 1 other")
    assert eliminated, "equal models are eliminated by chance: without that the test shows nothing"


def test_a_model_below_a_winner_by_its_interval_is_not_open() -> None:
    ranking = shown(a=(0.81, 0.94), b=(0.0, 0.65), c=(0.7, 0.9))
    assert places(ranking) == {"a": "yes", "c": "open", "b": "≤ 1 other"}
    assert ranking.lines()[0] == "≤ 1 other: another model is certified to be at least as good as this one"
    assert ranking.lines()[1:] == ["a, c > b"]


def test_k_others_are_needed_and_limits_that_meet_are_enough() -> None:
    ranking = shown(2, a=(0.81, 0.94), b=(0.5, 0.65), c=(0.65, 0.9), d=(0.0, 0.55))
    assert places(ranking) == {"a": "yes", "c": "open", "d": "≤ 2 others", "b": "≤ 2 others"}
    assert "2 other models are certified" in ranking.lines()[0]


def test_nothing_follows_from_intervals_that_contradict_one_another() -> None:
    ranking = shown(a=(0.9, 0.95), b=(0.6, 0.5), c=(0.1, 0.2))
    assert set(places(ranking).values()) == {"yes", "open"}
    stopped = replace(shown(a=(0.9, 0.95), b=(0.1, 0.2)), stopped="contradiction")
    assert set(places(stopped).values()) == {"yes", "open"}


@pytest.mark.parametrize("goal", [Order(0.1), Top(1), Top(3), Beats(baseline=2)], ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_the_order_shown_is_an_order_and_true(goal: Order | Top | Beats, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = (rng.uniform(size=(300, 6)) < rng.uniform(size=6)).astype(float)
    means = dict(zip(NAMES, scores.mean(axis=0), strict=False))
    ranking = replay_ranking(scores, goal=goal, models=NAMES[:6], seed=seed)
    diagram = Diagram.of(ranking.as_dict())
    for better, others in diagram.below.items():
        assert all(means[better] > means[worse] for worse in others)
        assert all(diagram.below[worse] <= others for worse in others), "closed"
    for name, others in diagram.as_good.items():
        assert all(means[other] >= means[name] for other in others)
    assert {tuple(pair) for pair in ranking.order} <= {
        (better, worse) for better, others in diagram.below.items() for worse in others
    }
