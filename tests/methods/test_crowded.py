"""Large pools: items that are alike share a forecast, and nothing that is certified suffers from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cereval.arrays import packed
from cereval.certificate.base import issue
from cereval.certificate.verify import verify
from cereval.goals import Estimate
from cereval.items import cells as cells_module
from cereval.items.cells import Cells, cells_of
from cereval.items.features import designs
from cereval.items.pool import Pool
from cereval.kinds import kind_of
from cereval.methods.crowded import Crowded, Urn
from cereval.plan import Known, Plan
from cereval.sessions.base import tell
from cereval.sessions.mean import Session
from cereval.stats.crowds import CrowdTally
from cereval.stats.increments import Outlook, Tally

SIZE = 2000


def population(seed: int, size: int = SIZE) -> tuple[Any, Any, Any]:
    """Scores, history of three past models with gaps, and categories that matter."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 5, size)
    ease = rng.normal(size=size) + 0.5 * groups - 1.0
    chance = 1 / (1 + np.exp(-1.5 * ease))
    history = (rng.random((size, 3)) < chance[:, None]).astype(float)
    history[rng.random((size, 3)) < 0.1] = np.nan
    return (rng.random(size) < chance).astype(float), history, groups


def finished(session: Session, scores: Any) -> Session:
    while not session.done:
        for draw in session.ask(8):
            session.tell(draw, scores[draw.item])
    return session


# -- cells ------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), graded=st.booleans(), weighted=st.booleans())
def test_items_share_a_cell_where_they_are_alike(seed: int, graded: bool, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    history = rng.integers(0, 9, (60, 2)) / 8 if graded else rng.integers(0, 2, (60, 2)) * 1.0
    history[rng.random((60, 2)) < 0.2] = np.nan
    weights = rng.choice([0.0, 1.0, 1.5, 4.0], 60) if weighted else None
    pool = Pool.build(60, history=history, groups=rng.integers(0, 3, 60), weights=weights)
    cells = cells_of(pool)
    order = np.zeros(60) if pool.weights is None else np.frexp(pool.weights)[1]
    assert pool.groups is not None
    kinds = [
        (tuple(row), int(group), float(one))
        for row, group, one in zip(np.nan_to_num(history, nan=-1.0), pool.groups, order, strict=True)
    ]
    assert len(set(zip(kinds, cells.of_item.tolist(), strict=True))) == len(set(kinds)) == len(cells.counts)
    assert np.isclose(cells.masses.sum(), 1.0)
    assert cells.pool.history is not None
    np.testing.assert_array_equal(cells.pool.history[cells.of_item], history)


def test_too_many_cells_are_made_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells_module, "MOST_CELLS", 100)
    rng = np.random.default_rng(0)
    few = cells_of(Pool.build(SIZE, history=rng.random((SIZE, 2))))
    many = cells_of(Pool.build(SIZE, history=rng.random((SIZE, 70)), groups=rng.integers(0, 4, SIZE)))
    assert 20 < len(few.counts) <= 100
    assert 20 < len(many.counts) <= 100


def test_a_cell_counts_as_often_as_it_has_items() -> None:
    """The designs of cells are those of the items, but for the order of the sums."""
    _, history, groups = population(1)
    pool = Pool.build(SIZE, history=history, groups=groups)
    cells = cells_of(pool)
    for (name, items), (same, few) in zip(designs(pool).items(), designs(cells.pool).items(), strict=True):
        assert name == same
        found = few.columns[cells.of_item]
        turned = np.where((found * items.columns).sum(axis=0) < 0, -1.0, 1.0)
        np.testing.assert_allclose(found * turned, items.columns, atol=1e-6)


# -- sums and draws ---------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), weighted=st.booleans())
def test_sums_over_cells_are_those_over_items(seed: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.random(40) if weighted else None
    pool = Pool.build(40, groups=rng.integers(0, 4, 40), weights=weights)
    cells, shares = cells_of(pool), pool.shares()
    slow = Tally(shares, replacement=False)
    quick = CrowdTally(cells.of_item, shares, cells.counts, cells.masses)
    for number, item in enumerate(rng.permutation(40).tolist()):
        if number % 7 == 3:
            mean, spread, rates = rng.random((3, len(cells.counts))) + 0.01
            mean = np.minimum(mean, 1.0)
            quick.look(Outlook(mean, spread, rates))
            each = [one[cells.of_item] for one in (mean, spread, rates)]
            slow.look(Outlook(each[0], each[1], shares * each[2]))
        before, same = slow.prospect(), quick.prospect()
        for name in ("floor", "ceiling", "variance", "unseen", "seen_low"):
            assert getattr(same, name) == pytest.approx(getattr(before, name), rel=1e-9, abs=1e-12)
        score = float(rng.random())
        assert quick.settle(item, score, score).low == pytest.approx(slow.settle(item, score, score).low)
    assert not quick.left_shares.any()


def test_an_urn_draws_by_share_and_rate_and_says_so() -> None:
    """10,000 urns: the item drawn second, after the first, against its chance; within five standard errors."""
    weights = np.array([1.0, 1.5, 4.0, 4.0, 0.0, 5.0])
    pool = Pool.build(6, groups=[0, 0, 0, 1, 1, 1], weights=weights)
    cells, rates, counts = cells_of(pool), np.array([1.0, 3.0, 2.0]), np.zeros((6, 6))
    assert len(cells.counts) == 4
    rates = np.array([1.0, 3.0, 2.0, 0.5])
    rng = np.random.default_rng(0)
    for _ in range(10_000):
        items, chances = Urn(cells.of_item, cells.counts, cells.masses, pool.weights, 6).draw(rng, rates, 2)
        counts[items[0], items[1]] += 1
    weight = pool.shares() * rates[cells.of_item]
    for first in range(6):
        for second in range(6):
            rest = weight.sum() - weight[first]
            expected = 0.0 if first == second else weight[first] / weight.sum() * weight[second] / rest
            error = np.sqrt(expected * (1 - expected) / 10_000)
            assert abs(counts[first, second] / 10_000 - expected) <= 5 * error
    assert chances[1] == pytest.approx(weight[items[1]] / (weight.sum() - weight[items[0]]))


def test_an_urn_is_emptied_to_the_last_item() -> None:
    rng = np.random.default_rng(5)
    pool = Pool.build(300, groups=rng.integers(0, 9, 300), weights=rng.random(300) ** 6)
    cells = cells_of(pool)
    urn = Urn(cells.of_item, cells.counts, cells.masses, pool.weights, 300)
    items, chances = urn.draw(rng, rng.random(len(cells.counts)) + 1e-3, 400)
    assert sorted(items.tolist()) == list(range(300))
    assert chances[-1] == pytest.approx(1.0)


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_cells_take_as_many_calls_as_items_alone() -> None:
    """Ten runs: within a tenth. How often they miss: `tests/test_coverage.py`."""
    calls = np.zeros(2)
    for run in range(10):
        scores, history, groups = population(run)
        side: Any = {"history": history, "groups": groups, "goal": Estimate(0.06), "confidence": 0.9}
        crowded = finished(Session(SIZE, seed=run, cells=True, **side), scores)
        alone = finished(Session(SIZE, seed=run, **side), scores)
        assert isinstance(crowded.method, Crowded)
        assert not isinstance(alone.method, Crowded)
        calls += crowded.n_evaluated, alone.n_evaluated
    assert 0.9 < calls[0] / calls[1] < 1.1


@pytest.mark.parametrize("weighted", [False, True])
def test_a_session_goes_on_from_its_state(weighted: bool) -> None:
    scores, history, groups = population(3)
    weights = np.random.default_rng(3).random(SIZE) if weighted else None
    side: Any = {"history": history, "groups": groups, "weights": weights}
    session = Session(SIZE, goal=Estimate(0.05), seed=3, cells=True, **side)
    for _ in range(10):
        for draw in session.ask(8):
            session.tell(draw, scores[draw.item])
    again = Session.restore(session.state(), **side)
    assert isinstance(again.method, Crowded)
    assert finished(again, scores).result() == finished(session, scores).result()


def test_pools_use_cells_by_size_and_old_states_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    _, history, _ = population(4)
    monkeypatch.setattr("cereval.sessions.mean.ALONE", SIZE - 1)
    session = Session(SIZE, history=history, seed=1)
    assert isinstance(session.method, Crowded)
    assert not isinstance(
        Session(SIZE, history=history, embeddings=np.ones((SIZE, 1)), seed=1).method, Crowded
    )
    old = {key: value for key, value in session.state().items() if key != "cells"}
    assert not isinstance(Session.restore(old, history=history).method, Crowded)


def certificate(weighted: bool) -> dict[str, Any]:
    scores, history, groups = population(6)
    weights = np.random.default_rng(6).random(SIZE) if weighted else None
    plan = Plan(
        {"goal": "estimate", "eps": 0.05},
        "sha256:0",
        SIZE,
        {"name": "m"},
        seed=1,
        side_information=("groups", "history"),
        weights={"source": "w", **packed(weights)} if weights is not None else {},
        cells=True,
    )
    known = Known(groups, history)
    kind = kind_of(plan)
    session = kind.session(plan, known, lambda run_id: pytest.fail(run_id))
    while not session.done:
        for draw in session.ask(8):
            tell(session, draw, (float(scores[draw.item]),))
    return issue(kind, session, session.result(), known, plan=plan)


@pytest.mark.parametrize("weighted", [False, True])
def test_certificates_with_cells_are_verified_and_audited(weighted: bool) -> None:
    verdict = verify(certificate(weighted))
    assert verdict.valid, verdict
    assert "interval recomputed by the audit" in verdict.checked


def test_cells_are_small() -> None:
    cells: Cells = cells_of(Pool.build(1000, groups=np.arange(1000) % 3))
    assert cells.of_item.dtype == np.uint16
