"""Certify an interval for every task and one for their macro mean, from one stream of draws: `ManyTasks`.

The macro mean is a weighted target with pi_i = 1 / (tasks x size of i's task): `active` plays it on all draws. Every
task follows with the draws that fall into it (see `follower`). With a share of delta for the macro mean, one for
the tasks, split evenly, and one for decisions, everything shown holds at once with probability >= 1 - delta (union
bound), at all times.

"All tasks at least c" needs no correction for their number: it is wrong only if some task is below c, and then
that task's own account, a supermartingale, has reached 1/alpha: probability <= alpha. Naming tasks that fail c is
wrong if one that does not fail is named: Holm's procedure on p = 1 / (largest wealth so far), which are p-values at
all times at once, keeps that below its alpha (Holm 1979). To decide every task both ways, alpha / tasks each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cereval.forecasts.spread import draw_weights
from cereval.methods.active import UNIFORM_BLOCKS, Active
from cereval.methods.base import Setting
from cereval.methods.certified import moved_inside
from cereval.methods.follower import Follower
from cereval.records import Draw, Interval
from cereval.stats.betting import ROUNDING
from cereval.stats.evidence import holm
from cereval.stats.increments import Outlook
from cereval.stats.rounding import within

Floats = NDArray[np.float64]

SUSPECT = 0.7
"""Share of the draws for the task that is likeliest to fail, while some task seems to."""
LARGEST_LOG = 600.0
ROUNDED_UP = 1e-6
"""Draws that are wanted fall short of a whole number by rounding alone if they do so by less."""


@dataclass(frozen=True, slots=True)
class TaskAims:
    """Say what is wanted of the tasks, and the share of delta for each kind of statement.

    macro, each: half-widths. threshold: tested for every task. every: each task is to be decided, not only
    whether all pass. parts: shares of delta for the macro mean, the tasks' intervals, "all pass" and naming.
    """

    macro: float | None = None
    each: float | None = None
    threshold: float | None = None
    every: bool = False
    parts: tuple[float, float, float, float] = (0.8, 0.2, 0.0, 0.0)


class ManyTasks(Active):
    """Draw for all tasks at once. `groups`: the task of each item, 0 to T - 1; the setting's pool has the macro
    mean's weights.
    """

    name: ClassVar[str] = "active"

    def __init__(self, setting: Setting, groups: NDArray[np.int64], aims: TaskAims, delta: float) -> None:
        count = int(groups.max()) + 1
        self.groups, self.aims, self.delta = groups, aims, delta
        self.followers = [
            Follower(np.flatnonzero(groups == task), aims.parts[1] * delta / count, aims.each, aims.threshold)
            for task in range(count)
        ]
        self.paused = False
        self._ends = np.tile([[0.0], [1.0]], count)
        self._logs = np.full((2, count), -np.inf)
        self._crossed = False
        self._rates: list[Floats | None] = []
        super().__init__(setting)

    # -- results ------------------------------------------------------------------------------------------------------

    def look(self, outlook: Outlook) -> None:
        for follower in self.followers:
            follower.turn_to(outlook)
        open_items = self.tally.left & (self.tally.shares > 0)
        if np.all(outlook.weights[open_items] > 0):
            self.tally.look(outlook)
        else:
            # Tasks that are settled get no more draws, and what is not drawn from cannot be estimated from draws:
            # the macro game rests, its interval stays, and the tasks' own intervals take over.
            self.paused = True

    def _play(self, draw: Draw, low: float, high: float) -> None:
        if self.paused:
            self.tally.settle(draw.item, low, high)
        else:
            super()._play(draw, low, high)

    def learn(self, draw: Draw, low: float, high: float) -> None:
        task = int(self.groups[draw.item])
        follower = self.followers[task]
        follower.take(draw, low, high)
        interval = follower.interval
        self._ends[:, task] = interval.lower, interval.upper
        if follower.test is not None:
            self._logs[:, task] = follower.test.evidence
        self._crossed |= follower.contradiction
        super().learn(draw, low, high)

    # -- draws --------------------------------------------------------------------------------------------------------

    def _fit(self) -> None:
        super()._fit()
        self._rates.append(self._wanted())

    def _block_weights(self, block: int) -> Floats:
        rates = self._rates_of(block)
        if rates is None:
            return super()._block_weights(block)
        forecast = self._forecasts[block - 1]
        weights = np.zeros(len(self._drawn))
        for follower, rate in zip(self.followers, rates, strict=True):
            items = follower.members[~self._drawn[follower.members]]
            if rate > 0 and len(items):
                inside = draw_weights(forecast.mean[items], forecast.spread[items], self.aims.each)
                weights[items] = inside * (rate / len(items))
        # All that was wanted may be drawn already and not be in yet: then any further draw is as good.
        return weights if weights.any() else super()._block_weights(block)

    def _block_size(self, block: int) -> int:
        size, rates = super()._block_size(block), self._rates_of(block)
        return size if rates is None else max(min(size, int(rates.sum() + ROUNDED_UP)), self._pace.first)

    def _rates_of(self, block: int) -> Floats | None:
        """Return what the forecast's results left wanted, less the draws of the block that is still in flight."""
        wanted = self._rates[block - 1] if block >= UNIFORM_BLOCKS else None
        if wanted is None:
            return None
        pending = self.groups[self._order[self._starts[block - 1] : self._starts[block]]]
        rest = wanted - np.bincount(pending, minlength=len(wanted))
        return np.maximum(rest, 0.0) if (rest > 0).any() else wanted

    def _wanted(self) -> Floats | None:
        """Return how many draws each task is to get, relative to one another; None: those of the macro mean."""
        if self.aims.threshold is not None:
            return self._wanted_to_decide()
        if self.aims.each is None:
            return None
        each = np.array([follower.calls_to_width(self.aims.each) for follower in self.followers])
        return np.asarray(np.maximum(each, self._wanted_by_macro() / len(each)))

    def _wanted_by_macro(self) -> float:
        eps = self.aims.macro
        if eps is None or within(self.interval.half_width, eps):
            return 0.0
        prospect = self.tally.prospect()
        calls = max(self._information_needed(prospect, eps) - self.clock.total, 0.0) * prospect.variance
        left = self._drawable - self.consumed
        return calls / (1 + calls / left) if left else 0.0

    def _wanted_to_decide(self) -> Floats:
        """Return all open tasks in proportion to what a pass takes; most of it for the first suspect, if there is
        one."""
        rates = np.zeros(len(self.followers))
        suspects: dict[int, float] = {}
        missing = np.log(1 / np.array([self._levels()])).T - np.maximum(self._logs, 0.0)
        for task, verdict in enumerate(self.verdicts):
            follower = self.followers[task]
            if verdict is None and follower.left:
                rates[task] = follower.calls_to_decide(float(missing[0, task]), 1)
                if follower.seems_to_fail:
                    suspects[task] = follower.calls_to_decide(float(missing[1, task]), -1)
        if self.aims.every:
            rates[list(suspects)] = list(suspects.values())
        elif suspects:
            first = min(suspects, key=suspects.__getitem__)
            rates[first] = max(rates[first], SUSPECT / (1 - SUSPECT) * float(rates.sum()))
        return rates

    # -- verdicts -----------------------------------------------------------------------------------------------------

    @property
    def verdicts(self) -> tuple[str | None, ...]:
        """Return for each task "pass" (at least c), "fail" or None. Unless `every`, a "pass" alone is provisional:
        only all of them together are certified.
        """
        if self.aims.threshold is None:
            return (None,) * len(self.followers)
        passing, failing = self._passing(), self._failing()
        return tuple(
            "fail" if low else "pass" if high else None for high, low in zip(passing, failing, strict=True)
        )

    def _levels(self) -> tuple[float, float]:
        """Return the error of one task's pass and of one task's fail, before Holm."""
        count, (_, _, everything, naming) = len(self.followers), self.aims.parts
        passing = (naming / count if self.aims.every else everything) * self.delta
        return passing, naming * self.delta / count

    def _passing(self) -> NDArray[np.bool_]:
        proven = self._logs[0] >= log(1 / self._levels()[0]) + ROUNDING
        return np.asarray(proven | (self._ends[0] >= self.aims.threshold))

    def _failing(self) -> NDArray[np.bool_]:
        if self.aims.every:
            proven = self._logs[1] >= log(1 / self._levels()[1]) + ROUNDING
        else:
            e_values = np.exp(np.minimum(self._logs[1] - ROUNDING, LARGEST_LOG))
            proven = np.array(holm(e_values.tolist(), self.aims.parts[3] * self.delta))
        return np.asarray(proven | (self._ends[1] < self.aims.threshold))

    # -- what is certified --------------------------------------------------------------------------------------------

    @property
    def contradiction(self) -> bool:
        return self._crossed or super().contradiction

    @property
    def statistical(self) -> Interval:
        """Return the macro mean's interval: what its own game and the mean of the tasks' intervals prove together."""
        own = super().statistical
        low, high = (float(end) for end in self._ends.mean(axis=1))
        return Interval(max(own.lower, low), min(own.upper, high))

    @property
    def widest(self) -> float:
        """Return the largest half-width of a task's interval."""
        return float(np.max(self._ends[1] - self._ends[0])) / 2

    @property
    def estimate(self) -> float:
        if not self.paused:
            return super().estimate
        middle = float(np.mean([follower.estimate for follower in self.followers]))
        return moved_inside(middle, self.interval, self.aim.eps)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what helped; what it saved is told only where the draws were the macro mean's own."""
        own = self.aims.each is None and self.aims.threshold is None
        return super().notes if own else self._forecasts[self._fitted - 1].notes
