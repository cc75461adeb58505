"""Charts and per-category intervals by themselves."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cereval.questions.mean.page import CategoryScores, category_estimates
from cereval.records import Interval, Step
from cereval.report.svg import interval_bar, narrowing, thinned, ticks, vertical_range


def steps(count: int) -> list[Step]:
    return [Step(n, 0.6, 0.6 - 0.5 / (n + 1), 0.6 + 0.4 / (n + 1)) for n in range(count)]


@pytest.mark.parametrize("width", [340, 720])
@pytest.mark.parametrize("count", [1, 2, 50, 5000])
def test_charts_are_well_formed_and_stay_on_the_paper(width: int, count: int) -> None:
    chart = ElementTree.fromstring(narrowing(steps(count), width))
    (band,) = [shape for shape in chart if shape.get("class") == "band"]
    points = [tuple(map(float, point.split(","))) for point in str(band.get("points")).split()]
    assert all(0 <= x <= width and 0 <= y <= 280 for x, y in points)


@pytest.mark.parametrize("least", [0.0, -1.0])
@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_bars_are_well_formed_and_stay_on_the_line(least: float, a: float, b: float, c: float) -> None:
    low, middle, high = sorted(least + (1 - least) * share for share in (a, b, c))
    bar = ElementTree.fromstring(interval_bar(middle, Interval(low, high), least))
    _, span, _ = bar
    assert -0.1 <= float(str(span.get("x"))) <= 1000
    assert float(str(span.get("x"))) + float(str(span.get("width"))) <= 1006.1
    ElementTree.fromstring(interval_bar(None, None))


def test_thinning_keeps_both_ends() -> None:
    kept = thinned(steps(100_000))
    assert len(kept) <= 300
    assert (kept[0].calls, kept[-1].calls) == (0, 99_999)


@given(st.floats(0, 0.99), st.floats(0.01, 1e6))
def test_ticks_are_few_and_inside(low: float, room: float) -> None:
    found = ticks(low, low + room)
    assert 0 <= len(found) <= 7
    slack = 1e-6 * (1 + room)
    assert all(low - slack <= tick <= low + room + slack for tick in found)


def test_a_single_value_still_has_a_range() -> None:
    low, high = vertical_range([Step(0, 1.0, 1.0, 1.0)])
    assert low < high


def test_the_last_interval_is_on_the_paper() -> None:
    """An interval may move: the axis holds the last one, wherever it went."""
    moved = [*steps(50), Step(50, 0.1, 0.02, 0.2)]
    low, high = vertical_range(moved)
    assert low <= 0.02 < 0.6 + 0.4 / 6 <= high
    assert vertical_range([Step(n, 0.0, -1.0, 1.0) for n in range(9)], least=-1.0) == (-1.0, 1.0)


@pytest.mark.slow
def test_category_intervals_hold_at_once() -> None:
    """30 runs of 10 categories at delta = .2: Bin(30, .2) exceeds 14 with chance < .001."""
    rng, misses = np.random.default_rng(5), 0
    for _ in range(30):
        missed = False
        parts = []
        for k in range(10):
            scores = (rng.random(60) < rng.random()).astype(float)
            parts.append((scores.mean(), scores[: rng.integers(1, 30)], f"c{k}"))
        found = category_estimates(
            [CategoryScores(name, 60, tuple(map(float, seen)), even=True) for _, seen, name in parts], 0.2
        )
        for (truth, _, _), one in zip(parts, found, strict=True):
            assert one.interval is not None
            missed |= not one.interval.lower - 1e-9 <= truth <= one.interval.upper + 1e-9
        misses += missed
    assert misses <= 14


def test_empty_and_full_categories() -> None:
    none, full = category_estimates(
        [CategoryScores("none", 9, (), even=True), CategoryScores("full", 2, (1.0, 0.0), even=True)], 0.05
    )
    assert (none.estimate, none.interval) == (None, Interval(0.0, 1.0))
    assert (full.estimate, full.interval) == (0.5, Interval(0.5, 0.5))


def test_failures_only_widen() -> None:
    told, failed = category_estimates(
        [
            CategoryScores("told", 40, (1.0,) * 20, even=True),
            CategoryScores("failed", 40, (*(1.0,) * 10, *(None,) * 10), even=True),
        ],
        0.05,
    )
    assert told.interval is not None
    assert failed.interval is not None
    assert failed.failures == 10
    assert failed.interval.lower < told.interval.lower
