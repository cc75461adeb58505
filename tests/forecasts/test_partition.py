"""The incremental 1-NN partition against a slow and obvious one, and as a forecast inside the certified method."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest
from benchmarks.populations import clusters
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cereval.errors import InvalidInput, Misuse
from cereval.forecasts.partition import (
    NearestNeighbourPartition,
    PartitionPredictor,
    groups_for,
    loss_labels,
)
from cereval.forecasts.pool import Pool
from cereval.paper.experiments import hubness
from cereval.questions.mean.goal import Estimate
from cereval.questions.replay import replay as replay
from cereval.stats.paper_bounds import group_radius

Arrivals = list[tuple[int, float | None]]


class SlowPartition:
    """Algorithm 3 word by word: all distances, all labels and all sums from scratch."""

    def __init__(self, points: NDArray[np.float64], training_fraction: float, seed: int, clamp: bool) -> None:
        self.points, self.fraction, self.clamp = points, training_fraction, clamp
        self.rng = np.random.default_rng(seed)
        self.evaluated: Arrivals = []
        self.training: list[tuple[int, float]] = []

    def add(self, item: int, loss: float | None) -> None:
        self.evaluated.append((item, loss))
        if self.rng.uniform() < self.fraction and loss is not None:
            self.training.append((item, loss))

    def labels(self, k: int) -> list[int]:
        return [self.label(point, k) for point in self.points]

    def label(self, point: NDArray[np.float64], k: int) -> int:
        if not self.training:
            return 0
        distances = [((point - self.points[item]) ** 2).sum() for item, _ in self.training]
        loss = self.training[int(np.argmin(distances))][1]
        label = int(np.floor(k * loss + 1e-9))
        return min(label, k - 1) if self.clamp else label

    def losses(self, k: int, group: int) -> list[float | None]:
        labels = self.labels(k)
        return [loss for item, loss in self.evaluated if labels[item] == group]

    def radius(self, k: int, delta: float) -> float:
        labels = np.array(self.labels(k))
        radius = 0.0
        for group in np.unique(labels):
            losses = np.array(self.losses(k, int(group)), dtype=float)
            variance = losses.var() if len(losses) else 0.0
            radius += (labels == group).mean() * float(group_radius(len(losses), variance, k, delta))
        return radius


# Whole-number coordinates: float32 distances are exact, so both versions break ties alike.
points = st.integers(1, 12).flatmap(
    lambda n: st.lists(st.tuples(*[st.integers(-3, 3)] * 2), min_size=n, max_size=n)
)
losses = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 1 - 0.9]), st.floats(0, 1))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    points=points, fraction=st.floats(0.2, 1), seed=st.integers(0, 99), clamp=st.booleans(), data=st.data()
)
def test_incremental_is_slow_and_obvious(
    points: list[tuple[int, int]], fraction: float, seed: int, clamp: bool, data: st.DataObject
) -> None:
    array = np.array(points, dtype=float)
    fast = NearestNeighbourPartition(array, fraction, np.random.default_rng(seed), clamp=clamp)
    slow = SlowPartition(array, fraction, seed, clamp)
    order = data.draw(st.permutations(range(len(points))))
    for item in order[: data.draw(st.integers(1, len(points)))]:
        loss = data.draw(losses)
        fast.add(item, loss)
        slow.add(item, loss)
        assert_alike(fast, slow)


def assert_alike(fast: NearestNeighbourPartition, slow: SlowPartition) -> None:
    largest = groups_for(len(slow.evaluated))
    radii = [slow.radius(k, 0.05) for k in range(1, largest + 1)]
    np.testing.assert_allclose(fast.radii(0.05), radii, rtol=1e-9, atol=1e-12)
    for k in range(1, largest + 1):
        grouping = fast.grouping(k)
        assert grouping.labels.tolist() == slow.labels(k)
        for group in range(len(grouping.sizes)):
            values = [loss for loss in slow.losses(k, group) if loss is not None]
            assert grouping.seen[group] == len(values)
            assert grouping.total[group] == pytest.approx(sum(values), abs=1e-9)
            assert grouping.squares[group] == pytest.approx(sum(v * v for v in values), abs=1e-9)
            assert grouping.sizes[group] == slow.labels(k).count(group)


def neighbours(partition: NearestNeighbourPartition) -> np.ndarray:
    partition.labels(1)  # takes in what waits
    return partition._neighbour


def test_failed_calls_are_counted_and_never_trained_on() -> None:
    partition = NearestNeighbourPartition(np.zeros((3, 1)), 1.0, np.random.default_rng(0))
    partition.add(0, None)
    grouping = partition.grouping(1)
    assert (grouping.seen[0], grouping.unknown[0], grouping.total[0]) == (1, 1, 0)
    assert (neighbours(partition) == -1).all()


def test_held_out_sums_leave_out_training_items() -> None:
    rng = np.random.default_rng(3)
    partition = NearestNeighbourPartition(rng.normal(size=(200, 3)), 0.5, np.random.default_rng(4))
    losses = rng.uniform(size=200)
    for item in range(200):
        partition.add(item, float(losses[item]))
    held_out = ~np.isin(np.arange(200), neighbours(partition)[neighbours(partition) == np.arange(200)])
    grouping = partition.grouping(1)
    assert grouping.held_out[0] == held_out.sum()
    assert grouping.held_out_total[0] == pytest.approx(losses[held_out].sum())


def test_predictions_follow_the_groups() -> None:
    rng = np.random.default_rng(0)
    far = np.arange(400) >= 200
    partition = NearestNeighbourPartition(far[:, None] * 10 + rng.normal(size=(400, 2)), 0.5, rng)
    for item in rng.permutation(400)[:200]:
        partition.add(int(item), float(far[item]))
    grouping = partition.grouping(2)
    assert np.abs(grouping.item_means() - far).max() < 0.1
    assert grouping.item_variances().max() < 0.05
    assert set(partition.members(2, 1)) == set(np.flatnonzero(far & ~partition.seen))


def test_labels_clamp_a_loss_of_one() -> None:
    assert loss_labels(np.array([0.0, 1 - 0.9, 1.0]), 10).tolist() == [0, 1, 9]
    assert loss_labels(np.array([1.0]), 10, clamp=False).tolist() == [10]


def test_a_step_costs_no_square_matrix() -> None:
    """3,000 items: an N x N float32 matrix alone would be 36 MB."""
    rng = np.random.default_rng(0)
    embeddings = rng.normal(size=(3000, 64)).astype(np.float32)
    tracemalloc.start()
    started = time.process_time()
    partition = NearestNeighbourPartition(embeddings, 1.0, rng)
    for item in range(1000):
        partition.add(item, float(item % 2))
        partition.best(0.05)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6
    assert time.process_time() - started < 20


def test_misuse_is_refused() -> None:
    with pytest.raises(InvalidInput, match="training_fraction"):
        NearestNeighbourPartition(np.zeros((2, 1)), 0.0, np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="embeddings"):
        NearestNeighbourPartition(np.zeros(2), 0.5, np.random.default_rng(0))
    partition = NearestNeighbourPartition(np.zeros((2, 1)), 0.5, np.random.default_rng(0))
    partition.add(0, 0.5)
    with pytest.raises(Misuse, match="item 0"):
        partition.add(0, 0.5)
    with pytest.raises(InvalidInput, match="loss"):
        partition.add(1, 1.5)
    with pytest.raises(InvalidInput, match="k must"):
        partition.grouping(0)


def test_held_out_error_is_leave_one_out() -> None:
    rng = np.random.default_rng(0)
    partition = NearestNeighbourPartition(rng.normal(size=(50, 2)), 0.5, np.random.default_rng(1))
    losses = rng.uniform(size=50)
    for item in range(50):
        partition.add(item, float(losses[item]))
    trains = neighbours(partition) == np.arange(50)
    labels = partition.labels(3)
    error = 0.0
    for item in np.flatnonzero(~trains):
        others = losses[(labels == labels[item]) & ~trains & (np.arange(50) != item)]
        error += (losses[item] - (others.sum() + 2 * 0.4) / (len(others) + 2)) ** 2
    assert partition.grouping(3).held_out_error(0.4) == pytest.approx(error)


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
        result = replay(
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
