"""Time what repartitioning at every step costs: Algorithm 3 until all items of a large pool are evaluated."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass

import numpy as np

from cereval.errors import InvalidInput
from cereval.forecasts.partition import NearestNeighbourPartition

MOST_NUMBERS = 50_000_000
"""Of all vectors together: half a gigabyte when they are drawn."""


@dataclass(frozen=True, slots=True)
class ScaleReport:
    """Describe one pass over a pool with a new partition, its best k and a group's unseen items after every item."""

    items: int
    dimensions: int
    training_fraction: float
    seconds: float
    cpu_seconds: float
    peak_mb: float


def partition_scale(
    items: int = 14_042, dimensions: int = 768, training_fraction: float = 1.0
) -> ScaleReport:
    """Time the worst case, random vectors and graded losses: every k has groups and every arrival moves items.

    >>> report = partition_scale(items=200, dimensions=8)
    >>> report.items, report.cpu_seconds < 10
    (200, True)
    """
    if items * dimensions > MOST_NUMBERS:
        raise InvalidInput(
            "items", f"at most {MOST_NUMBERS:,} when multiplied by the {dimensions} dimensions", items
        )
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(items, dimensions)).astype(np.float32)
    losses = rng.uniform(size=items)
    wall, cpu = time.perf_counter(), time.process_time()
    partition = NearestNeighbourPartition(vectors, training_fraction, rng)
    for item in rng.permutation(items):
        partition.add(int(item), float(losses[item]))
        partition.members(partition.best(0.05), 0)
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return ScaleReport(
        items, dimensions, training_fraction, round(seconds, 1), round(cpu_seconds, 1), round(peak)
    )
