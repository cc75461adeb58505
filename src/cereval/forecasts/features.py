"""Turn side information into designs: columns for each expert, with the priors of their coefficients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cereval.arrays import Floats, Ints
from cereval.forecasts.history import history_designs
from cereval.forecasts.logistic import GOLDEN, Design, tie_breakers
from cereval.forecasts.pool import Pool

MAX_DIMENSIONS = 48  # Principal components of embeddings that are used
NEIGHBOURHOODS = 24
SAMPLE = 4096  # Items from which the centres of neighbourhoods are found
DECIMALS = 9  # Of squared distances between items, whose leading principal component has variance 1


def designs(pool: Pool, *, precedents: bool = False) -> dict[str, Design]:
    """One design for each expert that the pool's side information supports, by name.

    precedents: whether past models, where they are many, say what a new one is like.

    >>> list(designs(Pool.build(4, groups=[0, 0, 1, 1], history=[0.0, 1.0, 0.0, 1.0])))
    ['easiness', 'bent', 'factors', 'bent factors', 'relatives', 'groups', 'history and groups']
    """
    found = {} if pool.history is None else history_designs(pool.history, precedents=precedents)
    local: dict[str, Design] = {}
    if pool.groups is not None and int(pool.groups.max()) > 0:
        local["groups"] = group_design(pool.groups)
    if pool.embeddings is not None:
        local["embeddings"] = embedding_design(pool.embeddings)
        local["neighbourhoods"] = neighbourhood_design(local["embeddings"].columns)
    finest = "groups" if "groups" in local else "neighbourhoods"
    joint: dict[str, Design] = {}
    if found and finest in local:
        joint[f"history and {finest}"] = found["bent factors"].beside(local[finest])
    start = Design.intercept(pool.size)
    return found | {name: start.beside(design) for name, design in local.items()} | joint


def group_design(groups: Ints) -> Design:
    """One indicator per group; shrunken group means on the logit scale."""
    columns = np.zeros((len(groups), int(groups.max()) + 1))
    columns[np.arange(len(groups)), groups] = 1.0
    return Design.of(columns, 4.0)


def embedding_design(embeddings: NDArray[np.float32]) -> Design:
    """The leading principal components, the first of variance 1 and the others in proportion; and the length.

    The length tells apart what no linear function can: a core from its surroundings.
    """
    centred = (embeddings - embeddings.mean(axis=0)).astype(np.float64)
    values, vectors = np.linalg.eigh((centred.T * tie_breakers(len(centred))) @ centred / len(centred))
    scale = np.sqrt(max(float(values[-1]), 1e-30))
    leading = centred @ vectors[:, ::-1][:, :MAX_DIMENSIONS] / scale
    length = np.linalg.norm(centred, axis=1) / scale
    deviation = max(float(length.std()), 1e-6)
    return Design.of(np.column_stack([leading, (length - length.mean()) / deviation]), 1.0)


def neighbourhood_design(positions: Floats) -> Design:
    """Each item's soft membership in one of a few neighbourhoods: local means, shrunk to the overall one."""
    squares = _squared_distances(positions, _centres(positions, min(NEIGHBOURHOODS, len(positions))))
    nearest = squares.min(axis=1, keepdims=True)
    # Half the usual squared distance to a centre: items between two centres belong to both.
    width = max(0.5 * float(np.median(nearest)), 1e-12)
    closeness = np.exp((nearest - squares) / width)
    return Design.of(closeness / closeness.sum(axis=1, keepdims=True), 0.3)


def _centres(positions: Floats, count: int) -> Floats:
    """Lloyd's algorithm on at most SAMPLE items, from a start without randomness.

    The start is that of k-means++ (the next centre falls on an item with probability in proportion to its
    squared distance to the centres so far) with the golden-ratio sequence in place of random numbers.
    """
    sample = positions[:: -(-len(positions) // SAMPLE)]
    centres = sample[:1]
    gaps = _squared_distances(sample, centres)[:, 0]
    for k in range(1, min(count, len(sample))):
        ladder = np.cumsum(gaps)
        chosen = min(int(np.searchsorted(ladder, ladder[-1] * (k * GOLDEN % 1.0))), len(sample) - 1)
        centres = np.vstack([centres, sample[chosen]])
        gaps = np.minimum(gaps, _squared_distances(sample, sample[chosen : chosen + 1])[:, 0])
    for _ in range(8):
        member = np.eye(len(centres))[_squared_distances(sample, centres).argmin(axis=1)]
        sizes = member.sum(axis=0)[:, None]
        centres = np.where(sizes > 0, member.T @ sample / np.maximum(sizes, 1.0), centres)
    return centres


def _squared_distances(rows: Floats, centres: Floats) -> Floats:
    """Rounded, so that rounding errors decide neither which centre is nearest nor what lies on one."""
    products = (rows**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2.0 * rows @ centres.T
    return np.asarray(np.maximum(np.round(products, DECIMALS), 0.0))
