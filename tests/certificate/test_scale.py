"""`verify` takes time in proportion to the answers; `python -m benchmarks.verify_scale` times 100,000 of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.golden.golden_cases import CASES
from tests.golden.lines import certificate_of

import cereval.certificate.audit as book
from cereval.certificate.audit import AimSince, Book, Case, ForecastSince, Seen, Unseen
from cereval.certificate.format import chained, digest, issue
from cereval.certificate.verify import verify
from cereval.methods.certified import Tuning
from cereval.plan import Known, Plan, candidate_spec, digest_of
from cereval.questions import formats, kind_of
from cereval.questions.session import tell


def nothing_earlier(run_id: str) -> Any:
    raise AssertionError(run_id)


def certificate(answers: int) -> dict[str, Any]:
    """Of a run that spends this budget on half of its items."""
    goal = {"goal": "estimate", "eps": 0.012}
    plan = Plan(
        "estimate",
        goal,
        "sha256:0",
        2 * answers,
        (candidate_spec("m"),),
        method="uniform",
        seed=1,
        max_calls=answers,
    )
    kind = kind_of(plan)
    session = kind.session(plan, Known(), nothing_earlier)
    scores = np.random.default_rng(1).random(plan.n_items) < 0.7
    while not session.done:
        for draw in session.ask(64):
            tell(session, draw, (float(scores[draw.item]),))
    assert session.n_evaluated == answers
    return issue(kind, session, session.result(), Known(), plan=plan)


def cpu_seconds(one: dict[str, Any]) -> float:
    begun = time.process_time()
    assert verify(one).valid
    return time.process_time() - begun


def uniform_case(size: int, results: int, forecasts: int = 1) -> Case:
    """Draws of the first items in turn, under forecasts that turn at equal distances."""
    rng = np.random.default_rng(size)
    shares = np.full(size, 1 / size)
    turns = [
        ForecastSince(
            number * results // forecasts, rng.random(size), rng.random(size), rng.uniform(0.5, 1, size)
        )
        for number in range(forecasts)
    ]
    seen = [Seen(item, float(item % 2), float(item % 2)) for item in range(results)]
    return Case(shares, True, False, 0.05, [AimSince(0, 0.05, None, None)], seen, turns, False, Tuning())


def counted(case: Case, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many terms are added up anew while a case is gone through."""
    terms = 0

    def count(found: list[float]) -> float:
        nonlocal terms
        terms += len(found)
        return sum(found)

    monkeypatch.setattr(book, "fsum", count)
    read = Book(case)
    for number, result in enumerate(case.seen):
        read.position(number)
        read.enter(result)
    return terms


def test_sums_over_the_unseen_are_counted_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (counted(uniform_case(size, size, forecasts=3), monkeypatch) for size in (2_000, 8_000))
    assert large <= 8 * small
    assert large <= 40 * 4 * 8_000


@pytest.mark.parametrize("forecasts", [1, 7])
def test_running_sums_are_those_counted_anew(forecasts: int) -> None:
    case = uniform_case(3_000, 3_000, forecasts)
    read = Book(case)
    for number, result in enumerate(case.seen):
        position = read.position(number)
        if number % 97 == 0 or number > 2_980:
            left = case.shares[number:]
            forecast, share = read.forecast, left[0]
            means, weights = forecast.mean[number:], forecast.weights[number:]
            assert position.unseen == pytest.approx(left.sum(), rel=1e-14)
            assert position.expected == pytest.approx((left * means).sum(), rel=1e-13)
            assert position.race == pytest.approx(weights.sum(), rel=1e-13)
            energy = (share * share / weights * forecast.spread[number:] ** 2).sum()
            assert position.variance == pytest.approx(weights.sum() * energy, rel=1e-12)
        read.enter(result)


def test_a_running_sum_that_differs_is_objected_to() -> None:
    unseen = Unseen("shares", 1.0)
    unseen.lessen(0.25)
    assert unseen.confirmed(0.75).value == 0.75
    with pytest.raises(ValueError, match="the sum of the shares"):
        unseen.confirmed(0.75 + 1e-7)


@pytest.mark.slow
def test_verify_takes_time_in_proportion_to_the_answers() -> None:
    small, large = certificate(500), certificate(2_000)
    cpu_seconds(small)
    assert min(cpu_seconds(large) for _ in range(2)) <= 8 * max(cpu_seconds(small) for _ in range(3))


@pytest.mark.parametrize(
    "name",
    [
        "compare-difference-recorded",
        "estimate-estimate-uniform",
        "growing-benchmark-recorded",
        "rank-order-recorded",
        "tasks-macro-recorded",
    ],
)
def test_a_certificate_about_more_items_than_there_can_be_takes_no_memory(name: str, tmp_path: Path) -> None:
    content = certificate_of(name, CASES[name], tmp_path)
    claims = content.get("settings", content.get("plan"))
    if "sizes" in claims:
        claims["sizes"][-1] = 10**12
    else:
        claims["n_items"] = 10**12
    assert verify(content).reasons == ("the digest does not fit the content: something was changed",)
    if "run_id" in content:
        content["run_id"] = Plan.from_dict(content["plan"]).run_id
    start = formats()[content["format"]].begins_with
    content["chain"] = chained(digest_of(content[start]), content["log"])
    content["digest"] = digest(content)
    forged = verify(content)
    assert forged.status == "unchecked"
    assert forged.reasons == ("it is about 1000000000000 items; at most 100,000,000 are checked",)


def test_too_little_memory_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise MemoryError

    one = certificate(50)
    monkeypatch.setattr("cereval.questions.mean.EstimateMean.retold", full)
    found = verify(one)
    assert (found.status, found.valid) == ("unchecked", False)
    assert "about 100 items" in found.reasons[0]
