"""Certificates of simulated runs, made without a model or a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.certificate.format import issue
from cereval.plan import Known, Plan, candidate_spec
from cereval.questions import kind_of
from cereval.questions.log import Change
from cereval.questions.session import tell
from cereval.records import Draw


@dataclass(frozen=True)
class Scenario:
    """One kind of run: its plan's fields, the scores, the share of failed calls, goals set later."""

    name: str
    plan: Mapping[str, Any]
    size: int = 600
    mean: float = 0.7
    graded: bool = False
    groups: bool = False
    history: bool = False
    failing: float = 0.0
    later: tuple[tuple[int, Mapping[str, Any], int | None], ...] = ()


def estimate(eps: float) -> dict[str, Any]:
    return {"goal": "estimate", "eps": eps}


def threshold(value: float) -> dict[str, Any]:
    return {"goal": "threshold", "value": value}


SCENARIOS = [
    Scenario("uniform", {"goal": estimate(0.05)}),
    Scenario("nearly all right", {"goal": estimate(0.04)}, mean=0.97),
    Scenario("all wrong", {"goal": estimate(0.05)}, mean=0.0),
    Scenario("graded", {"goal": estimate(0.03)}, graded=True),
    Scenario("exhausted", {"goal": estimate(0.01)}, size=60),
    Scenario("budget", {"goal": estimate(0.02), "max_calls": 120}),
    Scenario("failures", {"goal": estimate(0.06)}, failing=0.05),
    Scenario("groups", {"goal": estimate(0.05)}, groups=True),
    Scenario("history", {"goal": estimate(0.04)}, groups=True, history=True),
    Scenario(
        "history, failures, budget", {"goal": estimate(0.03), "max_calls": 200}, history=True, failing=0.03
    ),
    Scenario("history, graded and rare", {"goal": estimate(0.04)}, history=True, graded=True, mean=0.9),
    Scenario("history, above", {"goal": threshold(0.6)}, history=True),
    Scenario(
        "history, then eps", {"goal": threshold(0.7)}, history=True, later=((30, estimate(0.08), None),)
    ),
    Scenario(
        "history, given up late", {"goal": threshold(0.7)}, history=True, later=((300, estimate(0.04), None),)
    ),
    Scenario(
        "more budget, then given up",
        {"goal": threshold(0.7), "max_calls": 100},
        later=((100, threshold(0.7), 200), (200, estimate(0.05), None)),
    ),
    Scenario("population", {"goal": estimate(0.07), "target": "population"}),
    Scenario("expected", {"goal": estimate(0.07), "target": "expected"}),
    Scenario("expected with groups", {"goal": estimate(0.07), "target": "expected"}, groups=True),
    Scenario("expected, 30 items", {"goal": estimate(0.03), "target": "expected"}, size=30, mean=0.6),
    Scenario(
        "expected, graded, failures",
        {"goal": estimate(0.05), "target": "expected", "max_calls": 300},
        size=40,
        graded=True,
        history=True,
        failing=0.05,
    ),
    Scenario(
        "expected, then closer",
        {"goal": threshold(0.65), "target": "expected"},
        size=50,
        later=((40, estimate(0.05), None),),
    ),
    Scenario("above", {"goal": threshold(0.6)}),
    Scenario("below, active", {"goal": threshold(0.8)}, groups=True),
    Scenario("undecided", {"goal": threshold(0.7), "max_calls": 80}),
    Scenario("smaller eps later", {"goal": estimate(0.1)}, later=((40, estimate(0.05), None),)),
    Scenario(
        "smaller eps, active", {"goal": estimate(0.1)}, history=True, later=((60, estimate(0.04), None),)
    ),
    Scenario("more budget", {"goal": estimate(0.05), "max_calls": 50}, later=((50, estimate(0.05), 150),)),
    Scenario("threshold, then eps", {"goal": threshold(0.7)}, later=((30, estimate(0.08), None),)),
    Scenario("eps, then threshold", {"goal": estimate(0.05)}, later=((30, threshold(0.5), None),)),
    Scenario("as printed: seq", {"goal": estimate(0.2), "method": "seq"}, size=2000),
    Scenario("as printed: static", {"goal": estimate(0.2), "method": "static"}, size=200),
]


def certificate(scenario: Scenario, seed: int = 0, ahead: int = 7) -> dict[str, Any]:
    """Runs a scenario with `ahead` draws in flight and issues its certificate."""
    rng = np.random.default_rng([seed, len(scenario.name)])
    known, scores, failed = _world(scenario, rng)
    plan = Plan(
        kind="estimate",
        data_hash="sha256:0",
        n_items=scenario.size,
        candidates=(candidate_spec("m"),),
        seed=seed,
        side_information=known.names,
        **scenario.plan,
    )
    kind = kind_of(plan)
    session = kind.session(plan, known, no_earlier_run)
    draws: list[Draw] = []
    told = 0
    changes: list[Change] = []
    pending = list(scenario.later)
    while True:
        while not session.done and len(draws) - told < ahead and (fresh := session.ask(1)):
            draws += fresh
        if pending and session.n_evaluated >= pending[0][0]:
            _, goal, budget = pending.pop(0)
            changes.append(Change(session.n_evaluated, len(draws), goal, budget))
            session.change(goal, budget)
            continue
        if session.done:
            break
        draw = draws[told]
        tell(session, draw, (None if failed[draw.item] else float(scores[draw.item]),))
        told += 1
    return issue(kind, session, session.result(), known, plan=plan, changes=changes)


def no_earlier_run(run_id: str) -> Any:
    raise AssertionError(f"there is no run {run_id}")


def _world(
    scenario: Scenario, rng: np.random.Generator
) -> tuple[Known, NDArray[np.float64], NDArray[np.bool_]]:
    size = scenario.size
    groups = rng.integers(0, 4, size) if scenario.groups else None
    chance = np.full(size, scenario.mean)
    if groups is not None:
        chance = np.clip(scenario.mean + np.array([-0.4, -0.1, 0.1, 0.3])[groups], 0.02, 0.98)
    scores = rng.random(size) * 2 * (1 - chance) if scenario.graded else (rng.random(size) < chance) * 1.0
    history = None
    if scenario.history:
        history = np.where(rng.random((size, 3)) < 0.8, scores[:, None], 1 - scores[:, None])
        history[rng.random((size, 3)) < 0.1] = np.nan
    return Known(groups, history), np.clip(scores, 0, 1), rng.random(size) < scenario.failing
