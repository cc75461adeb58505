"""Time and memory of the 1-NN partition: a new one after every item, its best k, and a group's unseen items.

    python -m benchmarks.partition [--dimensions 256]

The worst case, random vectors and graded losses: every k has groups and every arrival moves items.
"""

from __future__ import annotations

import resource
import time

import click
import numpy as np

from cereval.forecasts.partition import NearestNeighbourPartition


@click.command()
@click.option("--items", type=click.IntRange(2), default=14_042, show_default=True)
@click.option("--dimensions", type=click.IntRange(1), default=768, show_default=True)
def main(items: int, dimensions: int) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(items, dimensions)).astype(np.float32)
    losses = rng.uniform(size=items)
    wall, cpu = time.perf_counter(), time.process_time()
    partition = NearestNeighbourPartition(vectors, 1.0, rng)
    for item in rng.permutation(items):
        partition.add(int(item), float(losses[item]))
        partition.members(partition.best(0.05), 0)
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    click.echo(
        f"{items:,} items x {dimensions} dimensions, a new partition after every item: "
        f"{seconds:.0f} s ({cpu_seconds:.0f} s of CPU), {peak_mb:.0f} MB at most"
    )


if __name__ == "__main__":
    main()
