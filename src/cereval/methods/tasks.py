"""Certify an interval for every task and one for their macro mean, from one stream of draws.

The macro mean is a weighted target with pi_i = 1 / (tasks x size of i's task): `active` plays it on all draws. Every
task follows with the draws that fall into it (`Follower`). With a share of delta for the macro mean, one for
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

from cereval.arrays import Floats, Ints
from cereval.forecasts.draw_weights import clip_forecasts, draw_weights, scaled_spread
from cereval.forecasts.pool import Pool
from cereval.methods.active import Active
from cereval.methods.base import Aim, Setting, Target
from cereval.methods.certified import CertifiedMethod, Tuning, clipped
from cereval.methods.memory import Memory
from cereval.records import Draw, Interval
from cereval.stats.increments import Outlook
from cereval.stats.interval import ROUNDING
from cereval.stats.rounding import within
from cereval.stats.threshold import ThresholdTest, holm

FIRST_EPS = 0.3
"""The first width aimed at where none is asked for: bets for a far goal would waste the few draws of a task."""
LEAST_GAP = 0.01
SUSPECT = 0.7  # Share of the draws for the task that is likeliest to fail, while some task seems to
LARGEST_LOG = 600.0  # Log-wealth above this is taken for it: its exponential is a float
ROUNDED_UP = 1e-6
"""Draws that are wanted fall short of a whole number by rounding alone if they do so by less."""


class Follower(CertifiedMethod):
    """The games of one task, the items `members` with equal weights, played with the draws of a larger session; decides
    none itself.

    Theorem. Let the session draw item i of all unseen with chance w_i / W, from the past alone. Given that the draw
    falls into a task, its chance among the task's unseen items is w_i / (sum of w over them): a draw without
    replacement from the task, with weights from the past. So the increment X of `stats.increments`, restricted to the
    task, has E[X | past, the draw is in the task] = R_task; at the other draws the task bets nothing. Its wealth is a
    supermartingale in the whole session's past, and the theorem of `stats.interval` holds for it at all times.

    Where every answer is fresh (target `expected`) the same holds of draws from all items, each of which may come
    again: given that the draw falls into a task, its chance among the task's items is w_i / (sum of w over them), and X
    has the mean rate of the task's items (`methods.memory`).
    """

    name: ClassVar[str] = "follower"
    default_tuning: ClassVar[Tuning] = Tuning(rescue=0.1, cap=0.85, own_level=False)

    def __init__(
        self,
        members: Ints,
        delta: float,
        eps: float | None = None,
        threshold: float | None = None,
        *,
        bets: bool = True,
        target: Target = "benchmark",
    ) -> None:
        first = FIRST_EPS if eps is None else eps
        super().__init__(Setting(Pool.build(len(members)), target, delta, 0, Aim(eps=first)))
        self.members, self.bets = members, bets
        self.test = None if threshold is None else ThresholdTest(threshold, delta)
        self.aims: list[tuple[int, float]] = [(0, first)]
        self.failures = 0
        self._asked_eps = eps
        self._places = {int(item): place for place, item in enumerate(members)}
        self._coming: Outlook | None = None

    def take(self, draw: Draw, low: float, high: float) -> None:
        self.observe(Draw(self.consumed, self._places[draw.item], draw.probability), low, high)
        self.failures += low < high
        if self._asked_eps is None:
            eps, width = self.aims[-1][1], self.interval.half_width
            if width > 0 and within(width, eps):
                self.aims.append((self.consumed, eps / 2))
                self.aim_at(Aim(eps=eps / 2), self.consumed)

    def turn_to(self, outlook: Outlook) -> None:
        """Turn to a new forecast and new weights of the whole pool; taken up by the next draw in this task.

        A task that is not drawn from keeps its old outlook: without a draw nothing is played.
        """
        self._coming = outlook

    def prepare(self, draw: Draw) -> None:  # noqa: ARG002
        outlook, self._coming = self._coming, None
        if outlook is None:
            return
        mean, spread, shares = (
            outlook.mean[self.members],
            outlook.spread[self.members],
            self.tally.left_shares,
        )
        clipped = clip_forecasts(mean, spread, self._bets_aim.eps, shares)
        spread = scaled_spread(clipped.spread, shares)
        self.tally.turn_to(Outlook(clipped.mean, spread, outlook.weights[self.members]))

    def _play(self, draw: Draw, low: float, high: float) -> None:
        (super()._play if self.bets else self._book)(draw, low, high)

    def _tests(self) -> list[ThresholdTest]:
        return [] if self.test is None else [self.test]

    def _chance(self, draw: Draw) -> None:
        """None: the log has the draw's probability among the items of all tasks.

        That among the items of this task comes from this machine's weights. A log may differ from them by a millionth
        at most, and did by 4e-14 (`benchmarks.machines`): after n draws the chance of a miss is larger by a factor of
        at most (1 + 1e-6)^n, 1.01 for 10,000 draws.
        """

    # -- how many draws it still needs -------------------------------------------------------------------------------

    @property
    def seems_to_fail(self) -> bool:
        return self.test is not None and self.clock.mean < self.test.threshold

    def calls_to_decide(self, missing: float, side: int) -> float:
        """The draws until a test has `missing` more log-wealth, if the mean is where it seems to be.

        side: +1 to show that the mean is above the threshold, -1 that it is below. An account that knows the
        gap grows by gap^2 / (2 variance) a draw (Wald); where the mean seems to lie on the other side, it
        would have to move by its standard error first.
        """
        assert self.test is not None
        lead = side * (self.clock.mean - self.test.threshold)
        gap = max(lead, self.clock.standard_error / 2, LEAST_GAP)
        information = 2 * self.clock.variance * max(missing, 0.1) / gap**2
        return self.calls_for(information, self.tally.prospect())


@dataclass(frozen=True, slots=True)
class TaskAims:
    """What is wanted of the tasks, and the share of delta for each kind of statement.

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

    def __init__(self, setting: Setting, groups: Ints, aims: TaskAims, delta: float) -> None:
        count = int(groups.max()) + 1
        self.groups, self.aims, self.delta = groups, aims, delta
        self.followers = [
            Follower(
                np.flatnonzero(groups == task),
                aims.parts[1] * delta / count,
                aims.each,
                aims.threshold,
                bets=not self.asks_all,
                target=setting.target,
            )
            for task in range(count)
        ]
        self.paused = self.asks_all
        self._ends = np.tile([[0.0], [1.0]], count)
        self._logs = np.full((2, count), -np.inf)
        self._crossed = False
        self._wanted_at: list[Floats | None] = []
        """The draws that each task was to get when each forecast was made."""
        super().__init__(setting)

    # -- results ------------------------------------------------------------------------------------------------------

    def _turn_to(self, outlook: Outlook) -> None:
        for follower in self.followers:
            follower.turn_to(outlook)
        open_items = self.tally.left & (self.tally.shares > 0)
        if np.all(outlook.weights[open_items] > 0):
            self.tally.turn_to(outlook)
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
        self._wanted_at.append(self._wanted_draws())

    def _block_weights(self, block: int) -> Floats:
        wanted = self._still_wanted(block)
        if wanted is None:
            return super()._block_weights(block)
        fit = self._basis(block).fit
        assert fit is not None
        forecast = fit.forecast
        weights = np.zeros(len(self._is_drawn))
        for follower, draws in zip(self.followers, wanted, strict=True):
            items = follower.members[~self._is_drawn[follower.members]]
            if draws > 0 and len(items):
                inside = draw_weights(forecast.mean[items], forecast.spread[items], self.aims.each)
                weights[items] = inside * (draws / len(items))
        # All that was wanted may be drawn already and not be in yet: then any further draw is as good.
        return weights if weights.any() else super()._block_weights(block)

    def _block_size(self, block: int) -> int:
        size, wanted = super()._block_size(block), self._still_wanted(block)
        return size if wanted is None else max(min(size, int(wanted.sum() + ROUNDED_UP)), self._pace.first)

    def _still_wanted(self, block: int) -> Floats | None:
        """What the forecast's results left wanted, less the draws of the block that is still in flight."""
        basis = self._basis(block)
        wanted = None if basis.fit is None else self._wanted_at[basis.number]
        if wanted is None:
            return None
        pending = self.groups[np.array(self._items[basis.since :], dtype=np.int64)]
        rest = wanted - np.bincount(pending, minlength=len(wanted))
        return np.maximum(rest, 0.0) if (rest > 0).any() else wanted

    def _wanted_draws(self) -> Floats | None:
        """How many draws each task is to get, relative to one another; None: those of the macro mean."""
        if self.aims.threshold is not None:
            return self._wanted_to_decide()
        if self.aims.each is None:
            return None
        eps, patience = self.aims.each, Follower.default_tuning.patience
        each = np.array([follower.calls_to_width(eps, patience) for follower in self.followers])
        macro = 0.0 if self.aims.macro is None else self.calls_to_width(self.aims.macro, 0.0)
        return np.asarray(np.maximum(each, macro / len(each)))

    def _wanted_to_decide(self) -> Floats:
        """All open tasks in proportion to what a pass takes; most of it for the first suspect, if there is one."""
        wanted = np.zeros(len(self.followers))
        suspects: dict[int, float] = {}
        missing = np.log(1 / np.array([self._levels()])).T - np.maximum(self._logs, 0.0)
        for task, verdict in enumerate(self.verdicts):
            follower = self.followers[task]
            if verdict is None and follower.left:
                wanted[task] = follower.calls_to_decide(float(missing[0, task]), 1)
                if follower.seems_to_fail:
                    suspects[task] = follower.calls_to_decide(float(missing[1, task]), -1)
        if self.aims.every:
            wanted[list(suspects)] = list(suspects.values())
        elif suspects:
            first = min(suspects, key=suspects.__getitem__)
            wanted[first] = max(wanted[first], SUSPECT / (1 - SUSPECT) * float(wanted.sum()))
        return wanted

    # -- verdicts -----------------------------------------------------------------------------------------------------

    @property
    def verdicts(self) -> tuple[str | None, ...]:
        """For each task "pass" (at least c), "fail" or None. Unless `every`, a "pass" alone is provisional: only all of
        them together are certified.
        """
        threshold = self.aims.threshold
        if threshold is None:
            return (None,) * len(self.followers)
        passing, failing = (log(1 / level) + ROUNDING for level in self._levels())
        passed = (self._logs[0] >= passing) | (self._ends[0] >= threshold)
        if self.aims.every:
            failed = self._logs[1] >= failing
        else:
            e_values = np.exp(np.minimum(self._logs[1] - ROUNDING, LARGEST_LOG))
            failed = np.array(holm(e_values.tolist(), self.aims.parts[3] * self.delta))
        failed = failed | (self._ends[1] < threshold)
        return tuple(
            "fail" if low else "pass" if high else None for high, low in zip(passed, failed, strict=True)
        )

    def _levels(self) -> tuple[float, float]:
        """The error of one task's pass and of one task's fail, before Holm."""
        count, (_, _, everything, naming) = len(self.followers), self.aims.parts
        passing = (naming / count if self.aims.every else everything) * self.delta
        return passing, naming * self.delta / count

    # -- what is certified --------------------------------------------------------------------------------------------

    @property
    def contradiction(self) -> bool:
        return self._crossed or super().contradiction

    @property
    def statistical(self) -> Interval:
        """What the macro mean's own game and the mean of the tasks' intervals prove together."""
        own = super().statistical
        low, high = (float(end) for end in self._ends.mean(axis=1))
        return Interval(max(own.lower, low), min(own.upper, high))

    @property
    def widest(self) -> float:
        return float(np.max(self._ends[1] - self._ends[0])) / 2

    @property
    def estimate(self) -> float:
        if not self.paused:
            return super().estimate
        middle = float(np.mean([follower.estimate for follower in self.followers]))
        return clipped(middle, self.interval)

    @property
    def notes(self) -> tuple[str, ...]:
        """What helped; what it saved is told only where the draws were the macro mean's own."""
        own = self.aims.each is None and self.aims.threshold is None
        return super().notes if own else self._fits[self._n_fits - 1].forecast.notes


class FreshTasks(ManyTasks, Memory):
    """Draw for all tasks at once where every answer is fresh, with forecasts that know what an item answered before."""

    name: ClassVar[str] = "memory"


class AllTasks(ManyTasks):
    """Ask every item of every task: nothing is bet, and what is said after the last answer is certain."""

    name: ClassVar[str] = "all"
    asks_all: ClassVar[bool] = True

    def _still_wanted(self, block: int) -> None:
        """No task is drawn from more than another."""
