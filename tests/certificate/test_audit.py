"""The audit agrees with the engine on every kind of run, and no change to a certificate goes unnoticed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.certificate.cases import SCENARIOS, Scenario, certificate, estimate

from cereval.certificate.audit import Watched
from cereval.certificate.audit.interval import audit
from cereval.certificate.format import chained, digest
from cereval.certificate.verify import verify
from cereval.plan import Known, digest_of
from cereval.questions.mean.audit import aim_of
from cereval.questions.mean.goal import Estimate, Threshold
from cereval.questions.mean.session import Goal, Session


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_an_honest_certificate_is_valid(scenario: Scenario) -> None:
    verdict = verify(certificate(scenario, seed=len(scenario.name) % 3))
    assert verdict.valid, verdict.reasons


TURNS: tuple[tuple[Goal, Goal], ...] = (
    (Estimate(0.15), Estimate(0.05)),
    (Estimate(0.05), Threshold(0.58)),
    (Threshold(0.6), Estimate(0.1)),
    (Threshold(0.6), Threshold(0.62)),
)


@pytest.mark.parametrize(("first", "second"), TURNS, ids=lambda goal: goal.spec()["goal"])
def test_the_audit_follows_every_change_of_goal(first: Goal, second: Goal) -> None:
    rng = np.random.default_rng(6)
    for seed, turn in enumerate((3, 30, 60)):
        scores = rng.choice([0.0, 0.5, 1.0], 600, p=[0.2, 0.4, 0.4])
        session = Session(600, goal=first, seed=seed, confidence=(0.5, 0.8, 0.95)[seed])
        watched, aims = Watched(session.method), [aim_of(0, first.spec(), None)]
        for number in range(120):
            if session.done:
                break
            draw = session.ask(1)[0]
            session.tell(draw, scores[draw.item])
            watched.note(draw.item, scores[draw.item], scores[draw.item])
            if number == turn and not session.done:
                session.goal = second
                aims.append(aim_of(session.n_drawn, second.spec(), None))
        given_up = aims[0].threshold is not None and len(aims) > 1
        found = audit(watched.case(aims, equal=True, replacement=False, given_up=given_up)).interval
        assert found.lower == pytest.approx(session.interval.lower, abs=1e-9)
        assert found.upper == pytest.approx(session.interval.upper, abs=1e-9)


def test_what_was_in_flight_leaves_no_trace() -> None:
    scenario = Scenario("history", {"goal": estimate(0.04)}, groups=True, history=True)
    assert certificate(scenario, ahead=1) == certificate(scenario, ahead=29)


def test_random_single_field_changes_are_all_detected() -> None:
    rng = random.Random(0)
    plans = [
        Scenario("groups", {"goal": estimate(0.12)}, groups=True),
        Scenario("failures", {"goal": estimate(0.15)}, failing=0.05),
        Scenario("later", {"goal": estimate(0.1), "max_calls": 20}, later=((20, estimate(0.1), 40),)),
    ]
    originals = [certificate(scenario) for scenario in plans]
    for number in range(300):
        forged = copy.deepcopy(originals[number % len(originals)])
        where = forge(forged, rng)
        verdict = verify(json.loads(json.dumps(forged)))
        assert verdict.status == "invalid", where
        assert verdict.reasons


NUMBERS = ("result", "draws", "plan.seed", "plan.confidence", "plan.target", "plan.method", "plan.goal")
"""What is recomputed. Names, versions and scores are the log's word; the store has them too."""


@pytest.mark.parametrize("number", range(14))
def test_a_forger_who_repairs_the_hashes_is_found_by_recomputing(number: int) -> None:
    forged = certificate(Scenario("forged", {"goal": estimate(0.1)}, groups=True, failing=0.02))
    where = forge(forged, random.Random(number), only=NUMBERS[number % len(NUMBERS)])
    repair(forged)
    assert verify(json.loads(json.dumps(forged))).status == "invalid", where


def test_side_information_that_was_swapped_is_found() -> None:
    forged = certificate(Scenario("history", {"goal": estimate(0.04)}, groups=True, history=True))
    known = Known.from_dict(forged["side_information"], 600)
    assert known.groups is not None
    assert known.history is not None
    forged["side_information"] = Known(known.groups, 1 - known.history).as_dict()
    repair(forged)
    assert verify(forged).status == "invalid"


@pytest.mark.parametrize("content", [None, 3, [], {}, "x", {"format": "cereval-certificate/1"}])
def test_anything_else_is_no_certificate(content: Any) -> None:
    assert verify(content).status == "invalid"


def repair(forged: dict[str, Any]) -> None:
    from cereval.plan import Plan

    try:
        forged["run_id"] = Plan.from_dict(forged["plan"]).run_id
    except Exception:
        return
    forged["chain"] = chained(digest_of(forged["plan"]), forged["log"])
    forged["digest"] = digest(forged)


def forge(value: Any, rng: random.Random, only: str | None = None) -> str:
    """Changes one field somewhere; returns where."""
    found = [(".".join(map(str, path)), holder, key) for path, holder, key in leaves(value)]
    if only == "draws":
        found = [one for one in found if one[2] in ("item", "probability")]
    elif only is not None:
        found = [one for one in found if one[0].startswith(only)]
    where, holder, key = rng.choice(found)
    holder[key] = other(holder[key], rng)
    return where


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        inner = value[key]
        if isinstance(inner, dict | list) and inner:
            yield from leaves(inner, (*path, key))
        else:
            yield (*path, key), value, key


def other(value: Any, rng: random.Random) -> Any:
    """A value of the same kind that is not the same."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice((-1, 1, 7))
    if isinstance(value, float):
        return rng.choice((value + 1e-6, 1 - value if value != 0.5 else 0.25, value * 0.999 + 2e-3))
    if isinstance(value, str):
        spot = rng.randrange(len(value) + 1)
        return value[:spot] + "x" + value[spot:]
    return 0.5 if value is None else None
