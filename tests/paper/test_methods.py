"""Base, Seq, Cer-Eval and Oracle: the contract, the reference figures, what they get wrong, and docs/paper.md."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.populations import bernoulli, clusters
from hypothesis import given, settings
from hypothesis import strategies as st

from cereval.errors import InvalidInput
from cereval.forecasts.pool import Pool
from cereval.methods.base import Aim, Method, Setting, Target
from cereval.paper.experiments import Population, hubness, s1, s2
from cereval.paper.methods import CerEval, Oracle, Seq, Static
from cereval.records import Draw

METHODS: list[Callable[..., Method]] = [Static, Seq, CerEval, Oracle]


def setting(population: Population, target: Target = "benchmark", seed: int = 0) -> Setting:
    pool = Pool.build(population.size, embeddings=population.embeddings, groups=population.groups)
    return Setting(pool, target, 0.05, seed, Aim())


def play(method: Method, scores: Any, *, eps: float = 0.0, failing: frozenset[int] = frozenset()) -> int:
    """Runs to radius <= eps or exhaustion and returns the number of results consumed."""
    n = 0
    while (draw := method.next_draw()) is not None:
        score = float(scores[draw.item])
        method.observe(draw, *((0.0, 1.0) if draw.item in failing else (score, score)))
        n += 1
        interval = method.interval
        assert 0 <= interval.lower <= method.estimate <= interval.upper <= 1
        if method.radius <= eps:
            break
    return n


@pytest.fixture(scope="module")
def small() -> Population:
    return clusters(np.random.default_rng(1), size=300)


@pytest.mark.parametrize("method", METHODS)
def test_a_full_pass_over_a_benchmark_is_exact(method: Callable[..., Method], small: Population) -> None:
    made = method(setting(small))
    assert play(made, small.scores) == 300
    assert made.interval.lower == made.interval.upper == made.estimate == pytest.approx(small.mean, abs=1e-15)
    assert made.radius == 0.0


@pytest.mark.parametrize("method", METHODS)
def test_failed_calls_only_widen(method: Callable[..., Method], small: Population) -> None:
    failing = frozenset(range(0, 300, 10))
    made = method(setting(small))
    play(made, small.scores, failing=failing)
    kept = np.array([0.0 if i in failing else small.scores[i] for i in range(300)])
    assert made.interval.lower == pytest.approx(kept.sum() / 300)
    assert made.interval.upper == pytest.approx((kept.sum() + 30) / 300)
    assert made.radius == pytest.approx(30 / 300 / 2)


@pytest.mark.parametrize("method", METHODS)
def test_a_full_pass_over_a_population_still_leaves_a_radius(
    method: Callable[..., Method], small: Population
) -> None:
    made = method(setting(small, "population"))
    play(made, small.scores)
    assert made.radius > 0.05
    assert small.mean in made.interval


@pytest.mark.parametrize("method", METHODS)
def test_every_item_is_drawn_once_and_the_seed_decides(
    method: Callable[..., Method], small: Population
) -> None:
    first, again, other = (drawn(method(setting(small, seed=seed)), small) for seed in (3, 3, 4))
    assert sorted(first) == list(range(300))
    assert first == again != other


def drawn(method: Method, population: Population) -> list[int]:
    items = []
    while (draw := method.next_draw()) is not None:
        items.append(draw.item)
        score = float(population.scores[draw.item])
        method.observe(draw, score, score)
    return items


def test_seq_stops_at_3799_whatever_the_data() -> None:
    for population in (s1(np.random.default_rng(0)), bernoulli(np.random.default_rng(0), 0.5)):
        assert play(Seq(setting(population)), population.scores, eps=0.05) == 3799


def test_base_takes_all_items_or_the_planned_ones() -> None:
    population = bernoulli(np.random.default_rng(0), 0.5)
    assert play(Static(setting(population)), population.scores, eps=0.1) == 5000
    planned = Static(setting(population), planned=738)
    assert play(planned, population.scores, eps=0.05) == 738
    frozen = planned.interval
    assert play(planned, population.scores, eps=-1) == 5000 - 738
    assert frozen != planned.interval
    assert planned.radius == 0.0
    one_sided = Static(setting(population, "population"), two_sided=False)
    play(one_sided, population.scores)
    assert one_sided.radius == pytest.approx(np.sqrt(np.log(20) / 10_000))
    assert "1 - 2 delta" in one_sided.notes[0]


def test_fixed_n_says_nothing_before_the_planned_n() -> None:
    population = bernoulli(np.random.default_rng(0), 0.5, size=100)
    method = Static(setting(population), planned=50)
    ends = []
    for _ in range(99):
        draw = method.next_draw()
        assert draw is not None
        method.observe(draw, 1.0, 1.0)
        ends.append((method.interval.lower, method.interval.upper))
    assert set(ends[:49]) == {(0.0, 1.0)}
    assert len(set(ends[49:])) == 1


def test_cer_eval_matches_the_reference_on_s1_and_s2() -> None:
    """statistics.md: 2,840 and 2,722 items on average at eps = .05; one population each, within 3%."""
    for scenario, reference in ((s1, 2840), (s2, 2722)):
        population = scenario(np.random.default_rng(7))
        assert play(CerEval(setting(population)), population.scores, eps=0.05) == pytest.approx(
            reference, rel=0.03
        )


def test_cer_eval_without_repartition_between_keeps_its_groups() -> None:
    population = clusters(np.random.default_rng(2), size=600)
    every = CerEval(setting(population), warm_up=50, repartition_every=1)
    rarely = CerEval(setting(population), warm_up=50, repartition_every=1000)
    play(every, population.scores, eps=0.3)
    play(rarely, population.scores, eps=0.3)
    assert every.radius <= 0.3
    assert rarely.radius <= 0.3


def test_cer_eval_waits_for_results_after_the_warm_up(small: Population) -> None:
    method = CerEval(setting(small), warm_up=20)
    draws = [method.next_draw() for _ in range(21)]
    assert draws[20] is None
    for draw in draws[:20]:
        assert draw is not None
        method.observe(draw, 1.0, 1.0)
    assert method.next_draw() is not None
    assert method.next_draw() is None


def test_cer_eval_as_printed_misses_on_hubness_and_the_clamp_hides_it() -> None:
    """6 of 6 runs would be the printed method's typical number x .7; here 2 fixed seeds that miss."""
    populations = [hubness(np.random.default_rng([seed, 0])) for seed in range(2)]
    printed = [CerEval(setting(p, seed=i), training_fraction=0.8) for i, p in enumerate(populations)]
    for method, population in zip(printed, populations, strict=True):
        play(method, population.scores, eps=0.1)
        assert population.mean not in method.interval
    clamped = CerEval(setting(populations[0]), training_fraction=0.8, clamp=True)
    play(clamped, populations[0].scores, eps=0.1)
    assert clamped.groups.k == 1
    assert populations[0].mean in clamped.interval


def test_oracle_draws_uniformly_inside_its_groups_and_starts_with_each(small: Population) -> None:
    method = Oracle(setting(small))
    first = []
    for _ in range(3):
        draw = method.next_draw()
        assert draw is not None
        assert method.next_draw() is None
        first.append(int(small.groups[draw.item]))
        method.observe(draw, 0.5, 0.5)
    assert sorted(first) == [0, 1, 2]


def test_oracle_and_seq_cover_at_all_times() -> None:
    """100 runs each over the whole path: misses are binomial with p <= .05, so more than 14 has p < 2e-4."""
    misses = dict.fromkeys(("oracle", "seq"), 0)
    for seed in range(100):
        population = clusters(np.random.default_rng(seed), size=150)
        for made in (Oracle(setting(population, seed=seed)), Seq(setting(population, seed=seed))):
            misses[made.name] += ever_misses(made, population)
    assert max(misses.values()) <= 14


def ever_misses(method: Method, population: Population) -> bool:
    missed = False
    while (draw := method.next_draw()) is not None:
        score = float(population.scores[draw.item])
        method.observe(draw, score, score)
        interval = method.interval
        missed |= not interval.lower - 1e-9 <= population.mean <= interval.upper + 1e-9
    return missed


@settings(max_examples=40, deadline=None)
@given(
    scores=st.lists(st.floats(0, 1), min_size=1, max_size=25),
    failing=st.frozensets(st.integers(0, 24)),
    clamp=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_failures_never_shrink_an_interval(
    scores: list[float], failing: frozenset[int], clamp: bool, seed: int
) -> None:
    rng = np.random.default_rng(0)
    population = Population(
        np.array(scores),
        rng.normal(size=(len(scores), 2)).astype(np.float32),
        np.arange(len(scores)) % 3,
        "drawn by Hypothesis",
    )
    for made in (
        Seq(setting(population, seed=seed)),
        Oracle(setting(population, seed=seed)),
        CerEval(setting(population, seed=seed), warm_up=5, clamp=clamp),
    ):
        play(made, scores, failing=failing)
        assert made.interval.lower - 1e-9 <= population.mean <= made.interval.upper + 1e-9


def test_expected_draws_with_replacement(small: Population) -> None:
    method = Seq(setting(small, "expected"))
    items = [draw.item for _ in range(600) if (draw := method.next_draw())]
    assert len(items) == 600
    assert len(set(items)) < 300


def test_what_a_method_cannot_certify_is_refused(small: Population) -> None:
    bare = Setting(Pool.build(10), "benchmark", 0.05, 0, Aim())
    weighted = Setting(Pool.build(2, weights=[1, 2]), "benchmark", 0.05, 0, Aim())
    for refused, match in (
        (lambda: CerEval(bare), "embeddings"),
        (lambda: Oracle(bare), "groups"),
        (lambda: Seq(weighted), "weights"),
        (lambda: Oracle(setting(small, "expected")), "target"),
        (lambda: CerEval(setting(small), warm_up=0), "warm_up"),
        (lambda: CerEval(setting(small), repartition_every=0), "repartition_every"),
        (lambda: CerEval(setting(small), training_fraction=2.0), "training_fraction"),
        (lambda: Static(setting(small), planned=301), "planned"),
    ):
        with pytest.raises(InvalidInput, match=match):
            refused()


def test_draws_carry_their_probability(small: Population) -> None:
    assert Seq(setting(small)).next_draw() == Draw(0, int(drawn(Seq(setting(small)), small)[0]), 1 / 300)


AUDIT = Path(__file__).parents[2] / "docs" / "paper.md"


def test_the_audit_prints_what_it_says() -> None:
    found = doctest.testfile(str(AUDIT), module_relative=False)
    assert found.attempted > 15
    assert found.failed == 0
