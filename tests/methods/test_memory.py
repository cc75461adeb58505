"""`memory`: what drives a draw was known before it, what items answered is remembered, and it never costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cereval.errors import InvalidInput
from cereval.forecasts.pool import Pool
from cereval.methods.base import Aim, Setting
from cereval.methods.memory import FLOOR, Memory
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session
from cereval.records import Draw

Floats = NDArray[np.float64]

THIRTY = np.array([1.0] * 13 + [0.0] * 9 + [0.9, 0.8, 0.7, 0.6, 0.5, 0.5, 0.4, 0.3])


def made(size: int = 30, **side: Any) -> Memory:
    return Memory(Setting(Pool.build(size, **side), "expected", 0.05, 3, Aim(eps=0.05)))


def next_of(method: Memory) -> Draw:
    draw = method.next_draw()
    assert draw is not None
    return draw


def answers(rates: Floats, method: str, eps: float, seed: int, **side: Any) -> int:
    session = Session(len(rates), goal=Estimate(eps), target="expected", method=method, seed=seed, **side)
    rng = np.random.default_rng([seed, 987])
    while not session.done:
        (draw,) = session.ask(1)
        session.tell(draw, float(rng.random() < rates[draw.item]))
    return session.n_evaluated


def test_an_increment_is_unbiased_whatever_was_remembered() -> None:
    method, rng = made(), np.random.default_rng(1)
    for _ in range(300):
        draw = next_of(method)
        outlook, tally = method.tally.outlook, method.tally
        method.observe(draw, *2 * (float(rng.random() < THIRTY[draw.item]),))
    chances = outlook.weights / outlook.weights.sum()
    values = [float(tally.shares @ outlook.mean) + (THIRTY - outlook.mean) * tally.shares / chances]
    assert float(chances @ values[0]) == pytest.approx(THIRTY.mean(), abs=1e-12)
    assert chances.min() >= FLOOR / 30
    assert np.ptp(outlook.mean) > 0.8


def test_the_score_of_a_draw_does_not_move_its_own_forecast() -> None:
    seen = []
    for last in (0.0, 1.0):
        method = made()
        for step in range(120):
            draw = next_of(method)
            before = method.tally.prospect()
            score = last if step == 119 else float(THIRTY[draw.item] > 0.5)
            method.observe(draw, score, score)
        seen.append((draw, before))
    assert seen[0] == seen[1]


def test_draws_do_not_depend_on_how_many_are_in_flight() -> None:
    found = []
    for ahead in (1, 13):
        method, rng, waiting, draws = made(), np.random.default_rng(5), [], []
        tosses = rng.random(400)
        while method.consumed < 200:
            while len(waiting) < ahead and (draw := method.next_draw()) is not None:
                waiting.append(draw)
            draw = waiting.pop(0)
            draws.append(draw)
            method.observe(draw, *2 * (float(tosses[draw.index] < THIRTY[draw.item]),))
        found.append((draws, method.interval))
    assert found[0] == found[1]


def test_failed_calls_teach_nothing() -> None:
    method = made()
    for _ in range(100):
        method.observe(next_of(method), 0.0, 1.0)
    assert np.ptp(method.tally.outlook.mean) == 0


def test_thirty_items_take_a_third_of_the_answers() -> None:
    remembering = np.mean([answers(THIRTY, "auto", 0.03, seed) for seed in range(3)])
    assert remembering < 0.42 * answers(THIRTY, "uniform", 0.03, 0)


def test_where_all_items_toss_one_coin_memory_costs_nothing() -> None:
    coin = np.full(200, 0.3)
    ways = [np.mean([answers(coin, way, 0.05, seed) for seed in range(6)]) for way in ("auto", "uniform")]
    assert ways[0] < 1.03 * ways[1]


def test_rates_of_past_models_save_answers() -> None:
    rng = np.random.default_rng(2)
    rates = rng.beta(0.3, 0.3, 300)
    history = np.clip(rates[:, None] + rng.normal(scale=0.1, size=(300, 4)), 0, 1)
    without, known = (
        np.mean([answers(rates, "auto", 0.03, seed, **side) for seed in range(2)])
        for side in ({}, {"history": history})
    )
    assert known < 0.8 * without


def test_one_item_alone_is_asked_uniformly() -> None:
    assert Session(1, target="expected", seed=1).method.name == "uniform"
    assert Session(2, target="expected", seed=1).method.name == "memory"


def test_it_is_refused_where_no_item_is_asked_twice() -> None:
    with pytest.raises(InvalidInput, match="no item is asked twice"):
        Session(30, method="memory", seed=1)
