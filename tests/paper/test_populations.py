"""The synthetic populations have the moments the paper states."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.populations import bernoulli, clusters, two_point

from cereval.errors import InvalidInput
from cereval.paper.experiments import SCENARIOS, hubness, truncated_gaussian


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_scenarios_are_the_papers(name: str) -> None:
    population = SCENARIOS[name](np.random.default_rng(0))
    groups = 1 if name == "S1" else 3
    assert population.size == 5000
    assert population.embeddings.shape == (5000, 10)
    assert set(population.groups) == set(range(groups))
    step = {"S1": 0.0, "S2": 5.0, "S3": 1.0}[name]
    centres = [population.embeddings[population.groups == k, 0].mean() for k in range(groups)]
    assert np.allclose(np.diff(centres), step, atol=0.15)
    assert population.embeddings[:, 1:].var() == pytest.approx(1.0, abs=0.05)


def test_truncation_is_conditioning() -> None:
    """Against rejection: the parent N(1/6, 1/9) kept where it falls into [0, 1]."""
    rng = np.random.default_rng(1)
    parent = rng.normal(1 / 6, 1 / 3, size=400_000)
    kept = parent[(parent >= 0) & (parent <= 1)]
    ours = truncated_gaussian(rng, np.full(200_000, 1 / 6), np.full(200_000, 1 / 3))
    assert ours.mean() == pytest.approx(kept.mean(), abs=0.004)
    assert ours.var() == pytest.approx(kept.var(), abs=0.002)


def test_hubness_core_is_tight_and_always_wrong() -> None:
    population = hubness(np.random.default_rng(0), size=2000)
    core = population.groups == 1
    assert core.sum() == 200
    assert (population.scores[core] == 0).all()
    assert (population.scores[~core] == 1).all()
    assert population.embeddings[core].var() == pytest.approx(0.1, abs=0.01)


def test_a_seed_gives_the_same_population() -> None:
    first, again = (clusters(np.random.default_rng(9)) for _ in range(2))
    assert (first.scores == again.scores).all()
    assert (first.embeddings == again.embeddings).all()


def test_parameters_outside_their_range_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidInput, match="mean"):
        bernoulli(rng, 1.5)
    with pytest.raises(InvalidInput, match="low"):
        two_point(rng, -1.0, 0.5)
