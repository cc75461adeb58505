"""The partition as a forecast inside the certified method."""

from __future__ import annotations

import numpy as np
import pytest

from cereval.errors import InvalidInput
from cereval.forecasts.partition import NearestNeighbourPartition, PartitionPredictor, held_out_error
from cereval.forecasts.pool import Pool
from cereval.paper.populations import clusters, hubness
from cereval.questions.mean.goal import Estimate
from cereval.questions.replay import replay_mean


def test_held_out_error_is_leave_one_out() -> None:
    rng = np.random.default_rng(0)
    partition = NearestNeighbourPartition(rng.normal(size=(50, 2)), 0.5, np.random.default_rng(1))
    losses = rng.uniform(size=50)
    for item in range(50):
        partition.add(item, float(losses[item]))
    trains = partition.neighbours == np.arange(50)
    labels = partition.labels(3)
    error = 0.0
    for item in np.flatnonzero(~trains):
        others = losses[(labels == labels[item]) & ~trains & (np.arange(50) != item)]
        error += (losses[item] - (others.sum() + 2 * 0.4) / (len(others) + 2)) ** 2
    assert held_out_error(partition.grouping(3), 0.4) == pytest.approx(error)


def test_fitting_in_steps_is_fitting_at_once() -> None:
    population = clusters(np.random.default_rng(0), size=400)
    pool = Pool.build(400, embeddings=population.embeddings)
    items = np.random.default_rng(1).permutation(400)[:200]
    scores, chances = population.scores[items], np.ones(200)
    at_once = PartitionPredictor(pool, seed=5).fit(items, scores, chances)
    stepwise = PartitionPredictor(pool, seed=5)
    for n in (0, 1, 50, 200):
        forecast = stepwise.fit(items[:n], scores[:n], chances[:n])
        assert ((forecast.mean >= 0) & (forecast.mean <= 1) & (forecast.spread > 0)).all()
    np.testing.assert_allclose(forecast.mean, at_once.mean, atol=1e-9)


def test_clusters_are_found_and_noise_is_not_believed() -> None:
    population = clusters(np.random.default_rng(0), size=1000)
    items = np.random.default_rng(1).permutation(1000)[:400]
    found = PartitionPredictor(Pool.build(1000, embeddings=population.embeddings), seed=0)
    error = population.scores - found.fit(items, population.scores[items], np.ones(400)).mean
    noise = np.random.default_rng(2).normal(size=(1000, 5))
    lost = PartitionPredictor(Pool.build(1000, embeddings=noise), seed=0)
    blind = population.scores - lost.fit(items, population.scores[items], np.ones(400)).mean
    assert (error**2).mean() < 0.85 * population.scores.var()
    assert (blind**2).mean() < 1.1 * population.scores.var()


def test_the_method_partition_covers_on_hubness() -> None:
    """20 runs at delta = .05: more than 4 misses has probability .003 when the theorem holds."""
    misses = 0
    for seed in range(20):
        population = hubness(np.random.default_rng([seed, 0]), size=1500)
        result = replay_mean(
            population.scores,
            goal=Estimate(0.1),
            method="partition",
            embeddings=population.embeddings,
            seed=seed,
            options={"training_fraction": 0.8},
        )
        assert (result.method, result.guarantee) == ("partition", "anytime")
        misses += not result.lower <= population.mean <= result.upper
    assert misses <= 4


def test_embeddings_are_needed() -> None:
    with pytest.raises(InvalidInput, match="embeddings"):
        PartitionPredictor(Pool.build(3), seed=0)
