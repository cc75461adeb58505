"""Plans against what the methods really need."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cereval
from cereval.errors import InvalidInput
from cereval.stats.planning import GoalForecast, MethodForecast, Scenario, plan_estimate, plan_threshold


def row(outlook: GoalForecast, method: str) -> MethodForecast:
    return next(row for row in outlook.forecasts if row.method == method)


def calls(outlook: GoalForecast, method: str) -> int:
    found = row(outlook, method).calls
    assert found is not None
    return found


def replayed(mean: float, goal: cereval.Estimate | cereval.Threshold, runs: int, size: int = 2000) -> float:
    scores = (np.arange(size) < round(size * mean)).astype(float)
    return float(
        np.mean(
            [cereval.replay(scores, goal=goal, method="uniform", seed=s).n_evaluated for s in range(runs)]
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "eps"), [(0.5, 0.05), (0.1, 0.03), (0.9, 0.05)])
def test_uniform_is_planned_within_a_fifth_of_what_it_takes(mean: float, eps: float) -> None:
    planned = calls(plan_estimate(Scenario(2000, mean=mean), eps), "uniform")
    assert planned == pytest.approx(replayed(mean, cereval.Estimate(eps), runs=5), rel=0.2)


@pytest.mark.slow
def test_a_threshold_is_planned_within_two_fifths() -> None:
    planned = calls(plan_threshold(Scenario(2000, mean=0.85), 0.75), "uniform")
    assert planned == pytest.approx(replayed(0.85, cereval.Threshold(0.75), runs=15), rel=0.4)


def test_the_printed_methods_are_planned_exactly() -> None:
    outlook = plan_estimate(Scenario(5000, mean=0.5), 0.05)
    scores = np.arange(5000) % 2
    assert (
        calls(outlook, "seq") == cereval.replay(scores, goal=cereval.Estimate(0.05), method="seq").n_evaluated
    )
    assert calls(outlook, "static") == 5000
    assert calls(outlook, "hoeffding") == 738


@given(
    size=st.integers(1, 10**6),
    mean=st.floats(0, 1),
    eps=st.floats(0.01, 0.5),
    explained=st.floats(0, 0.99),
)
def test_plans_are_ordered_as_the_theory_says(size: int, mean: float, eps: float, explained: float) -> None:
    outlook = plan_estimate(Scenario(size, variance=mean * (1 - mean), explained=explained), eps)
    assert all(1 <= calls(outlook, forecast.method) <= size for forecast in outlook.forecasts)
    assert calls(outlook, "normal") <= calls(outlook, "uniform")
    assert calls(outlook, "active") <= calls(outlook, "uniform")
    assert calls(outlook, "hoeffding") <= calls(outlook, "seq")


def test_a_finer_goal_a_higher_confidence_and_a_larger_variance_take_more() -> None:
    base = calls(plan_estimate(Scenario(5000, variance=0.1), 0.03), "uniform")
    assert calls(plan_estimate(Scenario(5000, variance=0.1), 0.02), "uniform") > base
    assert calls(plan_estimate(Scenario(5000, variance=0.1, confidence=0.99), 0.03), "uniform") > base
    assert calls(plan_estimate(Scenario(5000, variance=0.2), 0.03), "uniform") > base
    assert calls(plan_estimate(Scenario(5000, variance=0.1, target="expected"), 0.03), "uniform") > base


def test_a_population_that_is_too_small_is_told_and_how_many_it_takes() -> None:
    outlook = plan_estimate(Scenario(500, mean=0.5, target="population"), 0.02)
    assert row(outlook, "uniform").calls is None
    needed = row(outlook, "uniform").needed
    assert any(
        f"uniform: 500 items are too few for this goal, it needs about {needed:,}" in w
        for w in outlook.warnings
    )
    enough = plan_estimate(Scenario(needed, mean=0.5, target="population"), 0.02)
    assert calls(enough, "uniform") == needed
    assert not any(warning.startswith("uniform") for warning in enough.warnings)


def test_the_paper_warns_on_a_benchmark_and_a_goal_too_fine_is_told() -> None:
    outlook = plan_estimate(Scenario(1000, mean=0.5), 0.005)
    assert any(w.startswith("seq: asks all 1,000 items") for w in outlook.warnings)
    assert any("nearly all 1,000 items are asked" in w for w in outlook.warnings)
    assert any("worst case" in w for w in plan_estimate(Scenario(1000), 0.1).warnings)


def test_side_information_does_not_help_a_population() -> None:
    outlook = plan_estimate(Scenario(5000, mean=0.5, explained=0.5, target="population"), 0.05)
    assert "active" not in {forecast.method for forecast in outlook.forecasts}


def test_groups_bring_the_oracle_and_the_saving_ratio() -> None:
    outlook = plan_estimate(Scenario(50_000, groups=((0.5, 0.02), (0.5, 0.02))), 0.05)
    assert outlook.partition is not None
    assert outlook.partition.benign
    assert calls(outlook, "oracle") < 50_000
    with pytest.raises(InvalidInput, match="masses"):
        plan_estimate(Scenario(100, groups=((0.5, 0.02), (0.2, 0.02))), 0.05)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"size": 0}, "items must be a whole number >= 1, got 0"),
        ({"confidence": 1.0}, r"confidence must be a number in \(0, 1\), got 1.0"),
        ({"mean": 1.5}, r"mean must be a number in \[0, 1\], got 1.5"),
        ({"mean": float("nan")}, "mean must be"),
        ({"variance": 0.3}, r"variance must be a number in \[0, 0.25\], got 0.3"),
        ({"mean": 0.5, "variance": 0.2}, "variance must be left out"),
        ({"explained": 1.0}, r"explained must be a share in \[0, 1\), got 1.0"),
    ],
)
def test_impossible_scenarios_are_refused(setting: dict[str, float], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        Scenario(**{"size": 100, **setting})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mean", "threshold", "says"), [(None, 0.5, "mean"), (0.5, 0.5, "tie"), (0.5, 1.0, "threshold")]
)
def test_impossible_thresholds_are_refused(mean: float | None, threshold: float, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        plan_threshold(Scenario(100, mean=mean), threshold)


def test_a_confidence_of_nearly_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"confidence must be at least 1e-12 away .*, got 1e-300"):
        plan_threshold(Scenario(100, mean=0.7, confidence=1e-300), 0.6)
