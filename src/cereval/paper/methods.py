"""The paper's four methods as printed, with their misprints corrected: `static`, `seq`, `oracle`, `cer-eval`."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cereval.errors import InvalidInput, LogMismatch
from cereval.forecasts.partition import Grouping, NearestNeighbourPartition
from cereval.methods.base import Method, Setting, Target
from cereval.methods.drawing import draw_order, logged_chances
from cereval.randomness import generator
from cereval.records import Draw, Interval
from cereval.stats.paper_bounds import (
    adaptive_hoeffding,
    group_radius,
    group_slope,
    hoeffding,
    worst_variance,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class PrintedMethod(Method):
    """estimate ± radius, clipped to [0, 1].

    A failed call counts as score 0 in the low mean and 1 in the high mean: the estimate is their middle and
    the radius grows by half their distance. Once every item of a `benchmark` pool is in, there is nothing
    left to estimate and the interval is [sum low/N, sum high/N].

    Subclasses say which item is next (`_choose`), and the radius.
    """

    targets: ClassVar[tuple[Target, ...]] = ("benchmark", "population")

    def __init__(self, setting: Setting) -> None:
        if setting.pool.weights is not None:
            raise InvalidInput(
                "weights", f"left out for the method {self.name}: its theorem is for equal weights", "weights"
            )
        if setting.target not in self.targets:
            raise InvalidInput(
                "target", f"one of {', '.join(self.targets)} for the method {self.name}", setting.target
            )
        self.setting, self.size = setting, setting.pool.size
        self._fresh = generator("draws with replacement", setting.seed)
        self._drawn = self._consumed = 0
        self._lows: list[float] = []
        self._highs: list[float] = []
        self._low = self._high = 0.0
        self._take_order()

    def _take_order(self) -> None:
        """Put the items into random order, those of a log that need not be checked first."""
        if self.setting.target != "expected":
            rng = generator("order of the paper's methods", self.setting.seed)
            self._order = draw_order(rng, self.size, () if self.check else self.log)

    def follow(self, log: Sequence[Draw], *, check: bool = False) -> None:
        super().follow(log, check=check)
        self._take_order()

    def next_draw(self) -> Draw | None:
        choice = self._choose()
        if choice is None:
            return None
        (item, candidates), index = choice, self._drawn
        self._drawn += 1
        if index >= len(self.log):
            return Draw(index, item, 1.0 / candidates)
        logged = self.log[index]
        if self.check and logged.item != item:
            raise LogMismatch(f"draw {index} would have been item {item}; the log has item {logged.item}")
        logged_chances(np.array([1.0 / candidates]), [logged])
        return Draw(index, logged.item, logged.probability)

    def _choose(self) -> tuple[int, int] | None:
        """The next item, and of how many it was drawn uniformly: each once, or with replacement for `expected`."""
        if self.setting.target == "expected":
            return int(self._fresh.integers(self.size)), self.size
        if self._drawn == self.size:
            return None
        return int(self._order[self._drawn]), self.size - self._drawn

    def observe(self, draw: Draw, low: float, high: float) -> None:  # noqa: ARG002
        self._consumed += 1
        self._low += low
        self._high += high
        self._lows.append(low)
        self._highs.append(high)

    @property
    def complete(self) -> bool:
        """Whether every item of a `benchmark` pool is in, so that the mean is known."""
        return self.setting.target == "benchmark" and self._consumed == self.size

    @property
    def estimate(self) -> float:
        return self._span().middle

    @property
    def radius(self) -> float:
        gap = self._span().half_width
        return gap if self.complete else gap + self._printed_radius()

    @property
    def interval(self) -> Interval:
        span = self._span()
        if self.complete:
            return span
        radius = self._printed_radius()
        return Interval(max(span.lower - radius, 0.0), min(span.upper + radius, 1.0))

    def _span(self) -> Interval:
        """The point estimate with every failed call as 0, and with every failed call as 1."""
        if self.complete:
            # Correctly rounded sums: the mean of the whole pool must not depend on the order of the draws.
            return Interval(math.fsum(self._lows) / self.size, math.fsum(self._highs) / self.size)
        return self._means()

    def _means(self) -> Interval:
        n = self._consumed
        return Interval(self._low / n, self._high / n) if n else Interval(0.5, 0.5)

    @abstractmethod
    def _printed_radius(self) -> float:
        """The paper's radius after the results consumed so far; 1 when it has none yet."""


class Seq(PrintedMethod):
    """Uniform draws, mean ± sqrt((2 ln(log2 n + 1) + ln(4/delta))/n), valid at every n at once (Algorithm 4).

    Theorem 4.2 and lemma B.3 (see `stats.paper_bounds.adaptive_hoeffding`). Assumes scores in [0, 1]. The
    radius ignores the data: a given eps always takes the same number of items, 3,799 at eps = delta = .05.
    """

    name = "seq"
    guarantee = "anytime"
    targets = ("benchmark", "population", "expected")

    def _printed_radius(self) -> float:
        return float(adaptive_hoeffding(self._consumed, self.setting.delta)) if self._consumed else 1.0


class Static(PrintedMethod):
    """The paper's Base: evaluate `planned` items (None: all of them) and then state mean ± fixed-n Hoeffding.

    Theorem (Hoeffding 1963): at the planned n, the interval holds the target with probability >= 1 - delta.
    Assumes scores in [0, 1] and uniform draws. Before the planned n the radius is 1: looking earlier, and
    stopping because of it, is not covered. `two_sided=False` is the paper's eps*, sqrt(ln(1/delta)/(2n)):
    as a two-sided interval that is proven only at confidence 1 - 2 delta. Results after the planned n change
    nothing until the pool is complete.
    """

    name = "static"
    guarantee = "fixed-n"

    def __init__(self, setting: Setting, *, two_sided: bool = True, planned: int | None = None) -> None:
        super().__init__(setting)
        if planned is not None and not 1 <= planned <= self.size:
            raise InvalidInput("planned", f"in 1..{self.size}", planned)
        self.planned = self.size if planned is None else planned
        self.two_sided = two_sided
        self._planned_mean = Interval(0.5, 0.5)

    def observe(self, draw: Draw, low: float, high: float) -> None:
        super().observe(draw, low, high)
        if self._consumed == self.planned:
            self._planned_mean = super()._means()

    @property
    def notes(self) -> tuple[str, ...]:
        if self.two_sided:
            return ()
        return ("one-sided eps* used on both sides: proven only at confidence 1 - 2 delta",)

    def _means(self) -> Interval:
        return self._planned_mean

    def _printed_radius(self) -> float:
        if self._consumed < self.planned:
            return 1.0
        return float(hoeffding(self.planned, self.setting.delta, two_sided=self.two_sided))


@dataclass(slots=True, eq=False)
class GroupSums:
    """What lines 5 to 12 of Algorithm 2 need of each group: sizes, evaluated, failed, sums of losses.

    `k` is the K of the union bound ln(16 K/delta).
    """

    sizes: Floats
    seen: Floats
    unknown: Floats
    total: Floats
    squares: Floats
    delta: float
    k: int

    @classmethod
    def empty(cls, labels: Integers, delta: float) -> GroupSums:
        """The sums of a partition of which nothing has been evaluated."""
        sizes = np.bincount(labels).astype(np.float64)
        seen, unknown, total, squares = np.zeros((4, len(sizes)))
        return cls(sizes, seen, unknown, total, squares, delta, len(sizes))

    @classmethod
    def of(cls, grouping: Grouping, delta: float) -> GroupSums:
        one = grouping
        return cls(one.sizes, one.seen, one.unknown, one.total, one.squares, delta, one.k)

    def add(self, group: int, loss: float | None) -> None:
        """Add one more evaluated item of this group; None when its call failed."""
        self.seen[group] += 1
        if loss is None:
            self.unknown[group] += 1
        else:
            self.total[group] += loss
            self.squares[group] += loss**2

    @property
    def variances(self) -> Floats:
        return worst_variance(self.seen, self.total, self.squares, self.unknown)

    def radius(self) -> float:
        """sum_j N_j eps_j/N."""
        radii = group_radius(self.seen, self.variances, self.k, self.delta)
        return float(self.sizes @ radii / self.sizes.sum())

    def means(self) -> Interval:
        """The mean *score* with failed calls as 0 and as 1; an empty group has the overall mean."""
        low = 1.0 - self._mean_loss(self.total + self.unknown)
        return Interval(low, max(1.0 - self._mean_loss(self.total), low))

    def _mean_loss(self, losses: Floats) -> float:
        overall = losses.sum() / max(self.seen.sum(), 1.0)
        means = np.where(self.seen > 0, losses / np.maximum(self.seen, 1.0), overall)
        return float(self.sizes @ means / self.sizes.sum())

    def neediest(self) -> int:
        """The group with items left whose weighted radius falls fastest per further item."""
        slope = group_slope(self.seen, self.variances, self.k, self.delta)
        unfinished = np.flatnonzero(self.seen < self.sizes)
        need = self.sizes[unfinished] * slope[unfinished]
        largest = need[np.isfinite(need)].max(initial=1e-300)
        # Rounded, so that of two groups with equal needs the first is taken on every machine.
        return int(unfinished[np.argmax(np.round(need / largest, 9))])


class Oracle(PrintedMethod):
    """Algorithm 2 with the given `groups`: a stratified mean; the next item comes from the group that needs it most.

    Theorem 5.2's radius (`stats.paper_bounds.group_radius`): with groups fixed in advance and uniform
    draws inside each, all group means stay within their radii at all times with probability >= 1 - 3 delta/4,
    whatever rule picks the group. Assumes scores in [0, 1] and groups that do not depend on this model's
    scores. For the `population` target the group shares are taken as known.
    """

    name = "oracle"
    guarantee = "anytime"

    def __init__(self, setting: Setting) -> None:
        if setting.pool.groups is None:
            raise InvalidInput("groups", "given for the method oracle", None)
        self._labels = setting.pool.groups
        self._sums = GroupSums.empty(self._labels, setting.delta)
        super().__init__(setting)

    def _take_order(self) -> None:
        super()._take_order()
        groups = range(len(self._sums.sizes))
        self._members = [self._order[self._labels[self._order] == group] for group in groups]

    def _choose(self) -> tuple[int, int] | None:
        if self._consumed < self._drawn or self._drawn == self.size:
            return None
        group = self._sums.neediest()
        members, taken = self._members[group], int(self._sums.seen[group])
        return int(members[taken]), len(members) - taken

    def observe(self, draw: Draw, low: float, high: float) -> None:
        super().observe(draw, low, high)
        self._sums.add(int(self._labels[draw.item]), known_loss(low, high))

    def _means(self) -> Interval:
        return self._sums.means() if self._consumed else super()._means()

    def _printed_radius(self) -> float:
        return self._sums.radius()


class CerEval(PrintedMethod):
    """Algorithms 2 and 3: after a warm-up, partition by 1-NN, take one item from the neediest group, repeat.

    No theorem covers it: training items carry their own label, items drawn under earlier partitions are not
    uniform in the new groups, and neither the choice of k nor the look at every step is paid for. The
    `hubness` population makes its interval miss in most runs. Hence `heuristic`; `active` uses the same
    partition in a way that is certified.

    warm_up: the paper's m, drawn in random order. training_fraction: the chance that an evaluated item trains
    the 1-NN, drawn once when it arrives. repartition_every: evaluations between partitions (the paper: 1);
    in between the groups stay and only their sums move.

    clamp: the printed label floor(k Z) is k at Z = 1, so 0/1 losses fall into two groups already at k = 1 and
    a single group is never tried. The reference figures on 0/1 data (and the misses on `hubness`) come out
    only this way, so it is the default; True puts Z = 1 into the last of k groups.
    """

    name = "cer-eval"
    guarantee = "heuristic"

    def __init__(
        self,
        setting: Setting,
        *,
        warm_up: int = 100,
        training_fraction: float = 0.5,
        repartition_every: int = 1,
        clamp: bool = False,
    ) -> None:
        super().__init__(setting)
        for field, value in (("warm_up", warm_up), ("repartition_every", repartition_every)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidInput(field, "a whole number >= 1", value)
        if setting.pool.embeddings is None:
            raise InvalidInput("embeddings", "given for the method cer-eval", None)
        self.warm_up, self.repartition_every = min(warm_up, self.size), repartition_every
        self._rng = generator("draws inside groups", setting.seed)
        training = generator("training items", setting.seed)
        self._partition = NearestNeighbourPartition(
            setting.pool.embeddings, training_fraction, training, clamp=clamp
        )
        self._labels = np.zeros(self.size, dtype=np.int64)
        self._sums = GroupSums.empty(self._labels, setting.delta)
        self._radius = 1.0

    def _choose(self) -> tuple[int, int] | None:
        if self._drawn < self.warm_up:
            return super()._choose()
        if self._consumed < self._drawn or self._drawn == self.size:
            return None
        left = np.flatnonzero((self._labels == self._sums.neediest()) & ~self._partition.seen)
        return int(self._rng.choice(left)), len(left)

    @property
    def n_groups(self) -> int:
        """K of the partition in use."""
        return len(self._sums.sizes)

    def observe(self, draw: Draw, low: float, high: float) -> None:
        super().observe(draw, low, high)
        loss = known_loss(low, high)
        self._partition.add(draw.item, loss)
        if self._consumed < self.warm_up:
            return
        if (self._consumed - self.warm_up) % self.repartition_every == 0:
            grouping = self._partition.grouping(self._partition.best(self.setting.delta))
            self._labels, self._sums = grouping.labels, GroupSums.of(grouping, self.setting.delta)
        else:
            self._sums.add(int(self._labels[draw.item]), loss)
        self._radius = self._sums.radius()

    def _means(self) -> Interval:
        return super()._means() if self._consumed < self.warm_up else self._sums.means()

    def _printed_radius(self) -> float:
        return self._radius


def known_loss(low: float, high: float) -> float | None:
    """1 - score; None for a score known only as a range, as if it were not known at all, which can only widen."""
    return 1.0 - low if low == high else None
