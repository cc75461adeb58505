"""Certificates of growing data: honest ones are valid, any change is found, also by a forger who repairs hashes."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import numpy as np
import pytest
from tests.certificate.test_audit import forge

from cereval.certificate.base import chained, digest, issue
from cereval.certificate.verify import verify
from cereval.goals import Estimate
from cereval.kinds import kind_named
from cereval.plan import Known, digest_of
from cereval.sessions.growing import Growing


def certificate(
    target: str = "benchmark", eps: float = 0.12, failing: float = 0.0, parts: tuple[int, ...] = (150, 60, 30)
) -> Any:
    rng = np.random.default_rng(1)
    session = Growing(parts[0], goal=Estimate(eps), target=target, seed=5)
    for number, part in enumerate(parts):
        if number:
            session.extend(part)
        while not session.done:
            for draw in session.ask(1):
                lost = rng.uniform() < failing
                session.fail(draw) if lost else session.tell(draw, float(draw.item % 3 > 0))
    about = {"model": "<m>", "data": "d", "items": "h"}
    made = issue(kind_named("growing"), session.last, session.result(), Known(), about=about)
    return json.loads(json.dumps(made))


@pytest.mark.parametrize("target", ["benchmark", "population"])
@pytest.mark.parametrize(
    ("eps", "failing", "parts"), [(0.12, 0.03, (150, 60, 30)), (0.01, 0.0, (20, 10)), (0.3, 0.6, (20, 5, 5))]
)
def test_an_honest_certificate_is_valid(
    target: str, eps: float, failing: float, parts: tuple[int, ...]
) -> None:
    content = certificate(target, eps, failing, parts)
    verdict = verify(content)
    assert verdict.valid, verdict.reasons
    assert "recomputed by the audit" in verdict.checked[-1]


def test_every_single_change_is_found() -> None:
    rng, original = random.Random(0), certificate(failing=0.03)
    for _ in range(200):
        forged = copy.deepcopy(original)
        where = forge(forged, rng)
        assert verify(forged).status == "invalid", where


@pytest.mark.parametrize("number", range(12))
def test_a_forger_who_repairs_the_hashes_is_found_by_recomputing(number: int) -> None:
    names = (
        "result",
        "settings.seed",
        "settings.confidence",
        "settings.goal",
        "settings.sizes",
        "settings.target",
    )
    forged = certificate(failing=0.03)
    where = forge(forged, random.Random(number), only=names[number % len(names)])
    forged["chain"] = chained(digest_of(forged["settings"]), forged["log"])
    forged["digest"] = digest(forged)
    assert verify(forged).status == "invalid", where


@pytest.mark.parametrize("content", [None, 3, {}, {"format": "cereval-growing/1"}])
def test_anything_else_is_no_certificate(content: Any) -> None:
    assert verify(content).status == "invalid"
