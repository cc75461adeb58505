"""Draws, and the logs that may stand in for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cereval.errors import LogMismatch
from cereval.methods.drawing import TOLERANCE, draw_order, draw_with_replacement, draw_without_replacement
from cereval.records import Draw

WEIGHTS = np.array([0.1, 0.4, 0.0, 0.3, 0.2])


def logged(draw: object, weights: np.ndarray, count: int) -> list[Draw]:
    items, chances = draw(np.random.default_rng(1), weights, count)  # type: ignore[operator]
    return [
        Draw(number, int(item), float(chance))
        for number, (item, chance) in enumerate(zip(items, chances, strict=True))
    ]


@pytest.mark.parametrize("draw", [draw_with_replacement, draw_without_replacement])
def test_a_log_is_taken_as_it_is_and_the_rest_is_drawn(draw: object) -> None:
    log = [
        Draw(0, 3, 0.3 * (1 + TOLERANCE / 2)),
        Draw(1, 0, 0.1 if draw is draw_with_replacement else 0.1 / 0.7),
    ]
    items, chances = draw(np.random.default_rng(7), WEIGHTS, 4, log)  # type: ignore[operator]
    assert items[:2].tolist() == [3, 0]
    assert chances[:2].tolist() == [one.probability for one in log]
    assert 2 not in items


@pytest.mark.parametrize("draw", [draw_with_replacement, draw_without_replacement])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"item": -1}, "not in 0..4"),
        ({"item": 10**6}, "not in 0..4"),
        ({"item": 2, "probability": 0.0}, "no weight"),
        ({"probability": float("nan")}, "is computed"),
        ({"probability": -0.1}, "is computed"),
    ],
)
def test_what_cannot_have_been_drawn_is_refused(draw: object, change: dict[str, float], said: str) -> None:
    log = logged(draw, WEIGHTS, 2)
    with pytest.raises(LogMismatch, match=said):
        draw(np.random.default_rng(1), WEIGHTS, 4, [log[0], replace(log[1], **change)])  # type: ignore[operator]


def test_an_item_that_comes_twice_is_named() -> None:
    log = [Draw(0, 1, 0.4), Draw(1, 1, 0.4)]
    with pytest.raises(LogMismatch, match="draw 1 has item 1, which was drawn before"):
        draw_without_replacement(np.random.default_rng(1), WEIGHTS, 4, log)
    with pytest.raises(LogMismatch, match="draw 1 has item 1, which was drawn before"):
        draw_order(np.random.default_rng(1), 5, log)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "draws"), [(100, 200), (10_000, 200), (1_000_000, 60)])
def test_no_neighbour_passes_for_the_item_that_was_drawn(size: int, draws: int) -> None:
    """With replacement, where sums of many weights meet one small weight."""
    weights = np.full(size, 1 / size)
    honest = logged(draw_with_replacement, weights, draws)
    again = np.random.default_rng(1)
    assert draw_with_replacement(again, weights, draws, honest, check=True)[0].tolist() == [
        d.item for d in honest
    ]
    accepted = 0
    for place, one in enumerate(honest):
        swapped = [*honest[:place], replace(one, item=(one.item + 1) % size), *honest[place + 1 :]]
        try:
            draw_with_replacement(np.random.default_rng(1), weights, draws, swapped, check=True)
            accepted += 1
        except LogMismatch:
            pass
    assert accepted <= 2


def test_a_race_lost_by_less_than_a_millionth_is_no_contradiction() -> None:
    class Fixed:
        def standard_exponential(self, count: int) -> np.ndarray:
            return np.array([1.0, 1.0 + TOLERANCE / 2, 1.0 + 3 * TOLERANCE])[:count]

    weights = np.full(3, 1 / 3)
    for order, fine in (([0, 1, 2], True), ([1, 0, 2], True), ([2, 0, 1], False), ([0, 2, 1], False)):
        log = [Draw(number, item, 1 / (3 - number)) for number, item in enumerate(order)]
        if fine:
            draw_without_replacement(Fixed(), weights, 3, log, check=True)  # type: ignore[arg-type]
        else:
            with pytest.raises(LogMismatch, match="would have been item"):
                draw_without_replacement(Fixed(), weights, 3, log, check=True)  # type: ignore[arg-type]
