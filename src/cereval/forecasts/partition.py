"""The paper's adaptive partition, 1-nearest-neighbour labels, kept up to date one evaluated item at a time.

Algorithm 3 labels an evaluated item floor(k Z) (Z its loss), gives every item of the pool the label of its
nearest *training* item, and does so for each k = 1 .. ceil(ln|S|) + 1. Two facts keep every step cheap:
a new training item is compared with all items by one matrix-vector product (O(N d), no N x N matrix), and an
item changes its neighbour only O(log |S|) times on average, so group sums change by a few entries.
The random training subset of S is drawn once for each item, when it arrives.

As a forecast inside a certified method (`PartitionPredictor`) the partition only guesses scores and says where
surprises are likely; increments correct every guess, so the flaws that void the paper's interval (training items that
label themselves, groups that move) can cost items but not validity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cereval.arrays import Floats, Ints
from cereval.errors import InvalidInput, Misuse
from cereval.forecasts.pool import Pool
from cereval.forecasts.predictors import Forecast
from cereval.randomness import generator
from cereval.stats.paper_bounds import group_radius, worst_variance

DECIMALS = 9  # Of squared distances, in units of the items' mean square
BLOCK = 256  # Training items taken in by one matrix product when several came between two looks
SHRINKAGE = 2.0  # Pseudo-results with which a group's mean and variance are drawn towards those of all
MIN_VARIANCE = 0.004  # A group of equal scores is still expected to surprise now and then


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """One partition of the pool into `k` groups, with what has been evaluated in each.

    labels: the group of every item. sizes, seen, unknown: items, evaluated items and evaluated items without
    a loss (failed calls) of each group. total, squares: sums of the known losses and their squares. The
    `held_out` sums run over evaluated items that trained no label: only those are unbiased for the group.
    """

    k: int
    labels: Ints
    sizes: Floats
    seen: Floats
    unknown: Floats
    total: Floats
    squares: Floats
    held_out: Floats
    held_out_total: Floats
    held_out_squares: Floats

    @classmethod
    def empty(cls, labels: Ints) -> Grouping:
        sizes = np.bincount(labels).astype(np.float64)
        return cls(len(sizes), labels, sizes, *np.zeros((7, len(sizes))))

    def item_means(self, prior: float = 0.5) -> Floats:
        """A predicted loss for every item: its group's held-out mean, drawn towards `prior`."""
        means = (self.held_out_total + SHRINKAGE * prior) / (self.held_out + SHRINKAGE)
        return np.asarray(means[self.labels])

    def item_variances(self, prior: float = 0.25) -> Floats:
        """A predicted squared error for every item: its group's held-out variance, drawn towards `prior`."""
        spread = worst_variance(self.held_out, self.held_out_total, self.held_out_squares, 0.0)
        variances = (self.held_out * spread + SHRINKAGE * prior) / (self.held_out + SHRINKAGE)
        return np.asarray(variances[self.labels])

    def held_out_error(self, prior: float) -> float:
        """The summed squared error when each held-out item is forecast from the others of its group.

        Without item i the forecast is (T - x_i + s p)/(n - 1 + s), so with m = n + s and t = T + s p the error is
        (m x_i - t)/(m - 1), and the squares sum to (m^2 Q - 2 m t T + n t^2)/(m - 1)^2 (T, Q: sums of x and x^2).
        """
        n, total, squares = self.held_out, self.held_out_total, self.held_out_squares
        m, t = n + SHRINKAGE, total + SHRINKAGE * prior
        return float(((m**2 * squares - 2 * m * t * total + n * t**2) / (m - 1.0) ** 2).sum())


class NearestNeighbourPartition:
    """Group items by the loss of their nearest training item, for every k at once.

    Ties go to the training item that came first. Before the first training item all items are in group 0.
    Memory: the embeddings, and a few numbers for each item.
    """

    def __init__(
        self,
        embeddings: NDArray[np.floating],
        training_fraction: float,
        rng: np.random.Generator,
        *,
        clamp: bool = True,
    ) -> None:
        if embeddings.ndim != 2 or not len(embeddings):
            raise InvalidInput("embeddings", "an array of items x dimensions", embeddings.shape)
        if not 0 < training_fraction <= 1:
            raise InvalidInput("training_fraction", "in (0, 1]", training_fraction)
        points = np.ascontiguousarray(embeddings, dtype=np.float64)
        # In units of their size, so that distances can be rounded: equally near items are so on every machine.
        self._points = points / np.sqrt(max(float(np.mean(points**2)) * points.shape[1], 1e-300))
        self._half_norms = (self._points**2).sum(axis=1) / 2
        self._fraction, self._rng, self._clamp = training_fraction, rng, clamp
        self.size = size = len(self._points)
        # |x - y|^2 = |x|^2 + 2 (|y|^2/2 - x.y): for each x only the bracket decides which y is nearest.
        self._closeness = np.full(size, np.inf)
        self._neighbour = np.full(size, -1, dtype=np.int64)
        self._neighbour_loss = np.zeros(size)
        self.seen = np.zeros(size, dtype=bool)
        """Whether each item has been added."""
        self._waiting: list[tuple[int, float]] = []
        # A table of sums whose columns are the groups of k = 1, then those of k = 2, and so on; its rows are those of
        # a `Grouping` from `sizes` on. `_items` has what each item adds to the column that it is in.
        self._ks = np.arange(1, groups_for(size) + 1)
        self._widths = self._ks + (0 if clamp else 1)
        self._offsets = np.cumsum(self._widths) - self._widths
        self._column_k = np.repeat(self._ks, self._widths)
        self._items, self._sums = np.zeros((8, size)), np.zeros((8, len(self._column_k)))
        self._items[0], self._sums[0, self._offsets] = 1.0, size

    def add(self, item: int, loss: float | None) -> None:
        """Take in an evaluated item; a loss of None is a failed call: counted, never trained on."""
        if self.seen[item]:
            raise Misuse(f"item {item} was added before")
        if loss is not None and not 0 <= loss <= 1:
            raise InvalidInput("loss", "in [0, 1]", loss)
        trains = bool(self._rng.uniform() < self._fraction) and loss is not None
        known, value, held_out = loss is not None, loss or 0.0, float(loss is not None and not trains)
        change = np.array(
            [0, 1, not known, value, value**2, held_out, held_out * value, held_out * value**2],
            dtype=np.float64,
        )
        self.seen[item] = True
        self._items[:, item] += change
        self._sums[:, self._columns(self._neighbour_loss[item])] += change[:, None]
        if trains:
            self._waiting.append((item, value))

    def labels(self, k: int) -> Ints:
        """The group, 0..k-1, of every item when losses are cut into k equal intervals."""
        self._train()
        return loss_labels(self._neighbour_loss, k, clamp=self._clamp)

    def members(self, k: int, group: int) -> Ints:
        return np.flatnonzero((self.labels(k) == group) & ~self.seen)

    def grouping(self, k: int) -> Grouping:
        """The partition into k groups with its sums, as a record that later additions do not change."""
        if not 1 <= k <= len(self._ks):
            raise InvalidInput("k", f"in 1..{len(self._ks)}", k)
        self._train()
        start, width = self._offsets[k - 1], self._widths[k - 1]
        return Grouping(k, self.labels(k), *self._sums[:, start : start + width].copy())

    def radii(self, delta: float) -> Floats:
        """The weighted radius sum_j N_j eps_j/N for k = 1 .. ceil(ln|S|) + 1 (Algorithm 3)."""
        self._train()
        last = groups_for(max(int(self.seen.sum()), 1))
        columns = int(self._offsets[last - 1] + self._widths[last - 1])
        size, seen, unknown, total, squares = self._sums[:5, :columns]
        variance = worst_variance(seen, total, squares, unknown)
        radius = group_radius(seen, variance, self._column_k[:columns], delta)
        return np.asarray(np.add.reduceat(size * radius, self._offsets[:last]) / self.size)

    def best(self, delta: float) -> int:
        """The k with the smallest weighted radius, the smallest such k on ties."""
        return int(np.argmin(self.radii(delta))) + 1

    def _train(self) -> None:
        for start in range(0, len(self._waiting), BLOCK):
            items, losses = zip(*self._waiting[start : start + BLOCK], strict=True)
            self._train_block(np.array(items), np.array(losses))
        self._waiting.clear()

    def _train_block(self, items: Ints, losses: Floats) -> None:
        closeness = np.round(self._half_norms[items] - self._points @ self._points[items].T, DECIMALS)
        nearest = closeness.argmin(axis=1) if len(items) > 1 else np.zeros(self.size, dtype=np.int64)
        closest = closeness[np.arange(self.size), nearest] if len(items) > 1 else closeness[:, 0]
        closer = np.flatnonzero(closest < self._closeness)
        self._closeness[closer] = closest[closer]
        self._neighbour[closer] = items[nearest[closer]]
        gained = losses[nearest[closer]]
        other = gained != self._neighbour_loss[closer]
        self._move(closer[other], gained[other])

    def _move(self, moved: Ints, losses: Floats) -> None:
        """Move items between columns, because the losses of their neighbours have changed."""
        origin, goal = self._columns(self._neighbour_loss[moved]).ravel(), self._columns(losses).ravel()
        for row, amounts in enumerate(self._items[:, moved]):
            if amounts.any():
                spread = np.tile(amounts, len(self._ks))
                self._sums[row] -= np.bincount(origin, spread, self._sums.shape[1])
                self._sums[row] += np.bincount(goal, spread, self._sums.shape[1])
        self._neighbour_loss[moved] = losses

    def _columns(self, losses: float | Floats) -> Ints:
        """For each k (rows) the column of the table that an item with this neighbour loss belongs to."""
        if isinstance(losses, np.ndarray):
            return self._offsets[:, None] + loss_labels(losses[None, :], self._ks[:, None], clamp=self._clamp)
        return self._offsets + loss_labels(losses, self._ks, clamp=self._clamp)


def groups_for(n_seen: int) -> int:
    """The largest k that Algorithm 3 tries after n_seen evaluations: ceil(ln n) + 1.

    >>> groups_for(1), groups_for(100), groups_for(14042)
    (1, 6, 11)
    """
    return math.ceil(math.log(n_seen)) + 1


def loss_labels(losses: float | Floats, k: int | Ints, *, clamp: bool = True) -> Ints:
    """floor(k Z), with Z = 1 in the last group; without `clamp`, as printed, Z = 1 opens a (k+1)-th."""
    # 1e-9: a loss is 1 - score, and 1 - .9 must be cut like .1 although it is .0999...
    label = np.floor(k * np.asarray(losses) + 1e-9).astype(np.int64)
    return np.asarray(np.minimum(label, np.asarray(k) - 1)) if clamp else label


class PartitionPredictor:
    """Forecast an item by its group: mean and spread of the evaluated items there that trained no label.

    k is the one that would have forecast those held-out items best, each without itself. Fitted in draw
    order on growing prefixes, as `Predictor` asks; who trains is drawn from `seed`.
    """

    def __init__(self, pool: Pool, *, seed: int, training_fraction: float = 0.5) -> None:
        if pool.embeddings is None:
            raise InvalidInput("embeddings", "given for forecasts by the 1-NN partition", None)
        rng = generator("training items", seed)
        self._partition = NearestNeighbourPartition(pool.embeddings, training_fraction, rng)
        self._taken = 0

    def fit(self, items: Ints, scores: Floats, probabilities: Floats) -> Forecast:  # noqa: ARG002
        partition = self._partition
        for item, score in zip(items[self._taken :], scores[self._taken :], strict=True):
            # Drawn with replacement an item comes again; its place in the partition is taken already.
            if not partition.seen[item]:
                partition.add(int(item), 1.0 - float(score))
        self._taken = len(items)
        prior = 1.0 - float(scores.sum() + 0.5) / (len(scores) + 1.0)
        groupings = map(partition.grouping, range(1, groups_for(max(int(partition.seen.sum()), 1)) + 1))
        grouping = min(groupings, key=lambda one: one.held_out_error(prior))
        spread = np.sqrt(np.maximum(grouping.item_variances(prior * (1 - prior)), MIN_VARIANCE))
        notes = (f"1-NN partition into {grouping.k} groups",) if grouping.k > 1 else ()
        return Forecast(1.0 - grouping.item_means(prior), spread, notes=notes)
