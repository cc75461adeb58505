"""`Follower`: one task's games, played with those draws of a larger session that fall into the task.

Theorem. Let the session draw item i of all unseen with chance w_i / W, from the past alone. Given that the draw falls
into a task, its chance among the task's unseen items is w_i / (sum of w over them): a draw without replacement
from the task, with weights from the past. So the increment X of `stats.increments`, restricted to the task, has
E[X | past, the draw is in the task] = R_task; at the other draws the task bets nothing. Its wealth is a
supermartingale in the whole session's past, and the theorem of `stats.betting` holds for it at all times.
"""

from __future__ import annotations

from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cereval.forecasts.pool import Pool
from cereval.forecasts.temper import temper
from cereval.methods.base import Aim, Setting
from cereval.methods.certified import CertifiedMethod, Tuning
from cereval.records import Draw
from cereval.stats.evidence import ThresholdTest
from cereval.stats.increments import Increment, Outlook, Prospect
from cereval.stats.rounding import within

FIRST_EPS = 0.3
"""The first width aimed at where none is asked for: bets for a far goal would waste the few draws of a task."""

LEAST_GAP = 0.01


class Follower(CertifiedMethod):
    """Follow the items `members` of a pool as one task with equal weights; draws nothing itself.

    eps None: no width is asked for, and the aim is halved whenever it is reached. threshold: a test of it is
    played beside the interval, with its own share of the error.
    """

    name: ClassVar[str] = "follower"
    default_tuning: ClassVar[Tuning] = Tuning(rescue=0.1, cap=0.85, own_level=False)

    def __init__(
        self,
        members: NDArray[np.int64],
        delta: float,
        eps: float | None = None,
        threshold: float | None = None,
    ) -> None:
        aim = Aim(eps=FIRST_EPS if eps is None else eps)
        super().__init__(Setting(Pool.build(len(members)), "benchmark", delta, 0, aim))
        self.members = members
        self.test = None if threshold is None else ThresholdTest(threshold, delta)
        self.aims: list[tuple[int, float]] = [(0, FIRST_EPS if eps is None else eps)]
        self._asked_eps = eps
        self.failures = 0
        self._places = {int(item): place for place, item in enumerate(members)}
        self._coming: Outlook | None = None

    def next_draw(self) -> Draw | None:
        """Return None: the draws are the session's."""
        return None

    def take(self, draw: Draw, low: float, high: float) -> None:
        """Take a draw of the session that fell into this task."""
        self.observe(Draw(self.consumed, self._places[draw.item], draw.probability), low, high)
        self.failures += low < high
        self._aim_on()

    # -- forecasts --------------------------------------------------------------------------------------------------

    def turn_to(self, outlook: Outlook) -> None:
        """Turn to a new forecast and new weights of the whole pool; taken up by the next draw in this task.

        A task that is not drawn from keeps its old outlook: without a draw nothing is played.
        """
        self._coming = outlook

    def _chance(self, draw: Draw) -> None:
        """Return None: the log has the draw's probability among the items of all tasks.

        That among the items of this task comes from this machine's weights. A log may differ from them by a millionth
        at most, and did by 4e-14 (`benchmarks.machines`): after n draws the chance of a miss is larger by a factor of
        at most (1 + 1e-6)^n, 1.01 for 10,000 draws.
        """

    def prepare(self, draw: Draw) -> None:  # noqa: ARG002
        outlook, self._coming = self._coming, None
        if outlook is None:
            return
        mean, spread = outlook.mean[self.members], outlook.spread[self.members]
        left = np.where(self.tally.left, self.tally.shares, 0.0)
        held = temper(mean, spread, self._bets_aim.eps, left)
        shape = held.spread * (0.5 / sqrt(left @ held.spread**2 / left.sum()))
        self.tally.look(Outlook(held.mean, shape, outlook.weights[self.members]))

    # -- bets -------------------------------------------------------------------------------------------------------

    def _stake(self, prospect: Prospect) -> None:
        super()._stake(prospect)
        if self.test is not None:
            self.test.stake(prospect, self.clock)

    def _settle(self, prospect: Prospect, increment: Increment) -> None:
        if self.test is not None:
            self.test.settle(increment)
        super()._settle(prospect, increment)

    def _aim_on(self) -> None:
        eps = self.aims[-1][1]
        if self._asked_eps is None and self.interval.half_width > 0 and within(self.interval.half_width, eps):
            self.aims.append((self.consumed, eps / 2))
            self.aim_at(Aim(eps=eps / 2), self.consumed)

    # -- how many draws it still needs -------------------------------------------------------------------------------

    @property
    def left(self) -> int:
        """Count the items that have not been asked."""
        return self._drawable - self.consumed

    @property
    def seems_to_fail(self) -> bool:
        """Tell whether the mean, as far as it is known, lies below the threshold."""
        return self.test is not None and self.clock.mean < self.test.threshold

    def calls_to_width(self, eps: float) -> float:
        """Return the draws until the interval is expected to reach no further than eps; 0 when it does."""
        if within(self.interval.half_width, eps):
            return 0.0
        prospect = self.tally.prospect()
        needed = self._information_needed(prospect, eps)
        return self._calls(max(needed - self.clock.total, self.tuning.patience * needed), prospect)

    def calls_to_decide(self, missing: float, side: int) -> float:
        """Return the draws until a test has `missing` more log-wealth, if the mean is where it seems to be.

        side: +1 to show that the mean is above the threshold, -1 that it is below. An account that knows the
        gap grows by gap^2 / (2 variance) a draw (Wald); where the mean seems to lie on the other side, it
        would have to move by its standard error first.
        """
        assert self.test is not None
        lead = side * (self.clock.mean - self.test.threshold)
        gap = max(lead, self.clock.standard_error / 2, LEAST_GAP)
        information = 2 * self.clock.variance * max(missing, 0.1) / gap**2
        return self._calls(information, self.tally.prospect())

    def _calls(self, information: float, prospect: Prospect) -> float:
        """Return the draws that bring this much information: the inverse of `stats.information.information_ahead`."""
        calls = information * prospect.variance
        return calls / (1 + calls / self.left) if self.left else 0.0
