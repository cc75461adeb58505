"""The paper's four methods as printed, with their misprints corrected: `static`, `seq`, `oracle`, `cer-eval`."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np

from cereval.arrays import Floats, Ints
from cereval.errors import InvalidInput
from cereval.forecasts.partition import Grouping, NearestNeighbourPartition
from cereval.methods.base import NO_DRAWS, Draws, Method, Setting, Target
from cereval.methods.drawing import check_items, draw_order, logged_chances
from cereval.randomness import generator
from cereval.records import Draw, Interval
from cereval.stats.paper_bounds import (
    adaptive_hoeffding,
    group_radius,
    group_slope,
    hoeffding,
    worst_variance,
)


class PrintedMethod(Method):
    """estimate ± radius, clipped to [0, 1].

    A failed call counts as score 0 in the low mean and 1 in the high mean: the estimate is their middle and
    the radius grows by half their distance. Once every item of a `benchmark` pool is in, there is nothing
    left to estimate and the interval is [sum low/N, sum high/N].

    Subclasses say which item is next (`_choose`), and the radius.
    """

    targets: ClassVar[tuple[Target, ...]] = ("benchmark", "population")

    def __init__(self, setting: Setting) -> None:
        super().__init__()
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
        self._lows: list[float] = []
        self._highs: list[float] = []
        self._low = self._high = 0.0

    @cached_property
    def _order(self) -> Ints:
        """The items in random order, those of a log that need not be checked first."""
        rng = generator("order of the paper's methods", self.setting.seed)
        return draw_order(rng, self.size, () if self.check else self.log)

    def decide_draws(self) -> Draws:
        choice = self._choose()
        if choice is None:
            return NO_DRAWS
        (item, candidates), log = choice, self.log[len(self._items) : len(self._items) + 1]
        if self.check:
            check_items(log, np.array([item] * len(log)))
        return np.array([log[0].item if log else item]), logged_chances(np.array([1.0 / candidates]), log)

    def _choose(self) -> tuple[int, int] | None:
        """The next item, and of how many it was drawn uniformly: each once, or with replacement for `expected`."""
        if self.setting.target == "expected":
            return int(self._fresh.integers(self.size)), self.size
        if self._drawn == self.size:
            return None
        return int(self._order[self._drawn]), self.size - self._drawn

    def observe(self, draw: Draw, low: float, high: float) -> None:  # noqa: ARG002
        self.consumed += 1
        self._low += low
        self._high += high
        self._lows.append(low)
        self._highs.append(high)

    @property
    def complete(self) -> bool:
        """Whether every item of a `benchmark` pool is in, so that the mean is known."""
        return self.setting.target == "benchmark" and self.consumed == self.size

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
        n = self.consumed
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
        return float(adaptive_hoeffding(self.consumed, self.setting.delta)) if self.consumed else 1.0


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
        if self.consumed == self.planned:
            self._planned_mean = super()._means()

    @property
    def notes(self) -> tuple[str, ...]:
        if self.two_sided:
            return ()
        return ("one-sided eps* used on both sides: proven only at confidence 1 - 2 delta",)

    def _means(self) -> Interval:
        return self._planned_mean

    def _printed_radius(self) -> float:
        if self.consumed < self.planned:
            return 1.0
        return float(hoeffding(self.planned, self.setting.delta, two_sided=self.two_sided))


class GroupedMethod(PrintedMethod):
    """Algorithm 2's lines 5 to 12 for any groups: a stratified mean, its radius, and the group that needs an item most.

    The K of the union bound ln(16 K/delta) is `groups.k`.
    """

    groups: Grouping

    def _observe_group(self, item: int, loss: float | None) -> None:
        groups = self.groups
        group = int(groups.labels[item])
        groups.seen[group] += 1
        if loss is None:
            groups.unknown[group] += 1
        else:
            groups.total[group] += loss
            groups.squares[group] += loss**2

    @property
    def _variances(self) -> Floats:
        groups = self.groups
        return worst_variance(groups.seen, groups.total, groups.squares, groups.unknown)

    def _group_radius(self) -> float:
        """sum_j N_j eps_j/N."""
        groups = self.groups
        radii = group_radius(groups.seen, self._variances, groups.k, self.setting.delta)
        return float(groups.sizes @ radii / groups.sizes.sum())

    def _group_means(self) -> Interval:
        """The mean *score* with failed calls as 0 and as 1; an empty group has the overall mean."""
        groups = self.groups
        low = 1.0 - self._mean_loss(groups.total + groups.unknown)
        return Interval(low, max(1.0 - self._mean_loss(groups.total), low))

    def _mean_loss(self, losses: Floats) -> float:
        sizes, seen = self.groups.sizes, self.groups.seen
        overall = losses.sum() / max(seen.sum(), 1.0)
        means = np.where(seen > 0, losses / np.maximum(seen, 1.0), overall)
        return float(sizes @ means / sizes.sum())

    def _neediest_group(self) -> int:
        """The group with items left whose weighted radius falls fastest per further item."""
        groups = self.groups
        slope = group_slope(groups.seen, self._variances, groups.k, self.setting.delta)
        unfinished = np.flatnonzero(groups.seen < groups.sizes)
        need = groups.sizes[unfinished] * slope[unfinished]
        largest = need[np.isfinite(need)].max(initial=1e-300)
        # Rounded, so that of two groups with equal needs the first is taken on every machine.
        return int(unfinished[np.argmax(np.round(need / largest, 9))])


class Oracle(GroupedMethod):
    """Algorithm 2 with the given `groups`: the next item comes from the group that needs it most.

    Theorem 5.2's radius (`stats.paper_bounds.group_radius`): with groups fixed in advance and uniform
    draws inside each, all group means stay within their radii at all times with probability >= 1 - 3 delta/4,
    whatever rule picks the group. Assumes scores in [0, 1] and groups that do not depend on this model's
    scores. For the `population` target the group shares are taken as known.
    """

    name = "oracle"
    guarantee = "anytime"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        if setting.pool.groups is None:
            raise InvalidInput("groups", "given for the method oracle", None)
        self.groups = Grouping.empty(setting.pool.groups)

    @cached_property
    def _members(self) -> list[Ints]:
        labels = self.groups.labels[self._order]
        return [self._order[labels == group] for group in range(len(self.groups.sizes))]

    def _choose(self) -> tuple[int, int] | None:
        if self.consumed < self._drawn or self._drawn == self.size:
            return None
        group = self._neediest_group()
        members, taken = self._members[group], int(self.groups.seen[group])
        return int(members[taken]), len(members) - taken

    def observe(self, draw: Draw, low: float, high: float) -> None:
        super().observe(draw, low, high)
        self._observe_group(draw.item, known_loss(low, high))

    def _means(self) -> Interval:
        return self._group_means() if self.consumed else super()._means()

    def _printed_radius(self) -> float:
        return self._group_radius()


class CerEval(GroupedMethod):
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
        self.groups = Grouping.empty(np.zeros(self.size, dtype=np.int64))
        self._radius = 1.0

    def _choose(self) -> tuple[int, int] | None:
        if self._drawn < self.warm_up:
            return super()._choose()
        if self.consumed < self._drawn or self._drawn == self.size:
            return None
        left = np.flatnonzero((self.groups.labels == self._neediest_group()) & ~self._partition.seen)
        return int(self._rng.choice(left)), len(left)

    def observe(self, draw: Draw, low: float, high: float) -> None:
        super().observe(draw, low, high)
        loss = known_loss(low, high)
        self._partition.add(draw.item, loss)
        if self.consumed < self.warm_up:
            return
        if (self.consumed - self.warm_up) % self.repartition_every == 0:
            self.groups = self._partition.grouping(self._partition.best(self.setting.delta))
        else:
            self._observe_group(draw.item, loss)
        self._radius = self._group_radius()

    def _means(self) -> Interval:
        return super()._means() if self.consumed < self.warm_up else self._group_means()

    def _printed_radius(self) -> float:
        return self._radius


def known_loss(low: float, high: float) -> float | None:
    """1 - score; None for a score known only as a range, as if it were not known at all, which can only widen."""
    return 1.0 - low if low == high else None
