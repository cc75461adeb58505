"""A comparison's certificate: what verifies, and that no field can be changed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cereval.certificate.base import chained, digest, issue
from cereval.certificate.verify import verify
from cereval.goals.compare import CompareGoal, Difference, NotWorse, Sign
from cereval.kinds import kind_named
from cereval.plan import Known, digest_of
from cereval.sessions.pair import CompareSession

ABOUT = {"first": "new", "second": "old", "data": "scores.csv", "items": "sha256:00"}


def certificate(goal: CompareGoal, *, fails: int = 0, **more: Any) -> dict[str, Any]:
    rng = np.random.default_rng(6)
    skill = rng.beta(0.8, 0.5, size=150)
    first, second = ((rng.random(150) < skill + shift).astype(float) for shift in (0.1, 0.0))
    past = (rng.random((150, 5)) < skill[:, None]).astype(float)
    sides: dict[str, Any] = {"history": past, "groups": np.arange(150) % 3}
    session = CompareSession(150, goal=goal, seed=4, **{**sides, **more})
    while not session.done:
        for draw in session.ask(1):
            failed = draw.index < fails
            session.tell(draw, None if failed else float(first[draw.item]), float(second[draw.item]))
    # As it comes back from a file.
    made = issue(kind_named("compare"), session, session.result(), Known(), about=ABOUT)
    content: dict[str, Any] = json.loads(json.dumps(made))
    return content


CASES = {
    "sign": certificate(Sign(0.05)),
    "no side information": certificate(Sign(0.05), history=None, groups=None),
    "difference, with failures": certificate(Difference(0.12), fails=4),
    "not worse": certificate(NotWorse(0.05)),
    "budget": certificate(Sign(0.05), budget=40),
    "weights": certificate(Sign(0.1), weights=np.linspace(1, 3, 150), embeddings=np.eye(150)[:, :6]),
}


@pytest.mark.parametrize("name", CASES)
def test_valid_certificates_verify(name: str) -> None:
    verdict = verify(CASES[name])
    assert verdict.valid, verdict.reasons
    assert "interval and decision recomputed by the audit" in verdict.checked


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list) and value:
        yield from paths(value[0], (*path, 0))
        yield from paths(value[-1], (*path, len(value) - 1))
    else:
        yield path


def changed(content: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    forged = copy.deepcopy(content)
    place: Any = forged
    for key in path[:-1]:
        place = place[key]
    old = place[path[-1]]
    place[path[-1]] = (
        (old + 1 if isinstance(old, int) else old + 1e-3) if isinstance(old, int | float) else "x"
    )
    return forged


def resealed(content: dict[str, Any]) -> dict[str, Any]:
    """As a forger would: the hashes fit again."""
    content["chain"] = chained(digest_of(content["settings"]), content["log"])
    content["digest"] = digest(content)
    return content


@pytest.mark.parametrize("path", list(paths(CASES["difference, with failures"])), ids=str)
def test_any_change_is_found(path: tuple[Any, ...]) -> None:
    assert not verify(changed(CASES["difference, with failures"], path)).valid


FREE = ("about", "versions", "engine", "eps")
"""What only the hashes protect: names and versions, the engine's included; and the eps of a regression check, which
moves no draw: the certificate of another eps is another certificate, and as true."""


@pytest.mark.parametrize("name", ["sign", "not worse"])
def test_a_forger_who_repairs_the_hashes_is_found(name: str) -> None:
    content = CASES[name]
    for path in paths(content):
        if path[0] in ("chain", "digest", "side_information") or any(free in path for free in FREE):
            continue
        assert not verify(resealed(changed(content, path))).valid, path


def test_a_forged_decision_is_found() -> None:
    forged = copy.deepcopy(CASES["budget"])
    assert forged["result"]["decision"] == "undecided"
    forged["result"]["decision"] = "first"
    verdict = verify(resealed(forged), explain=True)
    assert "decision" in verdict.reasons[0]
