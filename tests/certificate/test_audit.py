"""The audit agrees with the engine on every kind of run, and no change to a certificate goes unnoticed."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import numpy as np
import pytest
from tests.certificate.cases import SCENARIOS, Scenario, certificate, estimate
from tests.certificate.forging import forge, repaired

from cereval.certificate.audit import Watched, aims_of
from cereval.certificate.audit.interval import audit
from cereval.certificate.verify import verify
from cereval.plan import Known
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
        watched = Watched(session.method)
        for number in range(120):
            if session.done:
                break
            draw = session.ask(1)[0]
            session.tell(draw, scores[draw.item])
            watched.note(draw.item, scores[draw.item], scores[draw.item])
            if number == turn and not session.done:
                session.goal = second
        aims = aims_of(first.spec(), None, session.changes)
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


def test_side_information_that_was_swapped_is_found() -> None:
    forged = certificate(Scenario("history", {"goal": estimate(0.04)}, groups=True, history=True))
    known = Known.from_dict(forged["side_information"], 600)
    assert known.groups is not None
    assert known.history is not None
    forged["side_information"] = Known(known.groups, 1 - known.history).as_dict()
    repaired(forged)
    assert verify(forged).status == "invalid"


@pytest.mark.parametrize("content", [None, 3, [], {}, "x", {"format": "cereval-certificate/1"}])
def test_anything_else_is_no_certificate(content: Any) -> None:
    assert verify(content).status == "invalid"
