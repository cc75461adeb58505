"""A ranking's certificate: honest ones hold, no change goes unnoticed, and the audit is a second opinion."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cereval.certificate.audit.ranking import RankingProof
from cereval.certificate.base import chained, digest, issue
from cereval.certificate.verify import verify
from cereval.goals.rank import Beats, Order, RankGoal, Top
from cereval.kinds import kind_named
from cereval.plan import Known, digest_of
from cereval.sessions.rank import RankSession

MEANS = (0.95, 0.7, 0.68, 0.3)
GOALS: list[RankGoal] = [
    Order(0.1),
    Order(0.1, proven=True),
    Top(1, 0.05),
    Top(2, 0.1),
    Beats(0.1, baseline=1),
]


def certificate(goal: RankGoal, budget: int | None = None) -> dict[str, Any]:
    """120 items, four models; every 29th call fails."""
    table = np.random.default_rng(1).uniform(size=(120, 4)) < MEANS
    session = RankSession(120, ("a", "b", "c", "d"), goal=goal, budget=budget, seed=4)
    while not session.done:
        for draw in session.ask(16):
            if draw.index % 29 == 28:
                session.fail(draw)
            else:
                session.tell(draw, float(table[draw.item, draw.model]))
    made = issue(kind_named("rank"), session, session.result(), Known(), about={"data": "data"})
    found: dict[str, Any] = json.loads(json.dumps(made))
    return found


def repaired(content: dict[str, Any]) -> dict[str, Any]:
    """What a forger would do: make all hashes fit again."""
    content["chain"] = chained(digest_of(content["settings"]), content["log"])
    return {**content, "digest": digest(content)}


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_an_honest_certificate_is_valid(goal: RankGoal) -> None:
    content = certificate(goal)
    verdict = verify(content)
    assert verdict.valid, verdict.reasons
    assert "order, answer and intervals recomputed by the audit" in verdict.checked


def test_a_budget_that_ends_within_a_round_is_valid() -> None:
    content = certificate(Order(0.02), budget=101)
    assert verify(content).valid


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every leaf of a JSON value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from places(inner, (*path, number))
    else:
        yield path


def forge(content: dict[str, Any], path: tuple[Any, ...]) -> None:
    inner = content
    for step in path[:-1]:
        inner = inner[step]
    old = inner[path[-1]]
    if isinstance(old, bool) or old is None or isinstance(old, list):
        inner[path[-1]] = {True: False, False: True}.get(old, 0.5) if not isinstance(old, list) else ["x"]
    else:
        inner[path[-1]] = (
            old + "x" if isinstance(old, str) else old + 1 if isinstance(old, int) else old / 2 + 0.01
        )


def test_200_single_field_changes_are_all_detected() -> None:
    original, rng = certificate(Order(0.1)), random.Random(0)
    leaves = list(places(original))
    for path in rng.sample(leaves, 200):
        forged = copy.deepcopy(original)
        forge(forged, path)
        assert verify(forged).status == "invalid", path


RECOMPUTED = [("result", "order"), ("result", "ties"), ("result", "intervals"), ("result", "calls"), ("log",)]


@pytest.mark.parametrize("number", range(20))
def test_a_forger_who_repairs_the_hashes_is_found_by_recomputing(number: int) -> None:
    original = certificate(Order(0.1))
    prefix = RECOMPUTED[number % len(RECOMPUTED)]
    leaves = [path for path in places(original) if path[: len(prefix)] == prefix and path[-1] != "score"]
    forged = copy.deepcopy(original)
    forge(forged, random.Random(number).choice(leaves))
    assert verify(repaired(forged)).status == "invalid"


def test_the_audit_objects_to_what_the_log_does_not_prove() -> None:
    content = certificate(Order(0.1))
    assert RankingProof(content).objection() is None
    content["result"]["order"].append(["b", "c"])
    assert "not proven" in str(RankingProof(content).objection()) or "lacks" in str(
        RankingProof(content).objection()
    )
    content = certificate(Top(1, 0.05))
    content["result"]["winners"] = ["c"]
    assert RankingProof(content).objection() is not None
    content = certificate(Order(0.1))
    content["result"]["intervals"]["a"]["lower"] += 0.05
    assert "interval of a" in str(RankingProof(content).objection())


@pytest.mark.parametrize(
    "content", [{"format": "cereval-ranking/1"}, {"format": "cereval-ranking/1", "log": 3}]
)
def test_what_is_no_ranking_is_refused(content: dict[str, Any]) -> None:
    assert verify(content).status == "invalid"
