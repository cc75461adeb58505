"""Run Algorithm 2 with a partition that is known in advance: `oracle`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cereval.errors import InvalidInput
from cereval.methods.base import Setting
from cereval.paper.group_sums import GroupSums
from cereval.paper.printed import PrintedMethod
from cereval.records import Draw, Interval


class Oracle(PrintedMethod):
    """Stratified mean over the given `groups`; the next item comes from the group that needs it most.

    Theorem 5.2's radius (`stats.concentration.group_radius`): with groups fixed in advance and uniform
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
        self._labels = setting.pool.groups
        self._sums = GroupSums.empty(self._labels, setting.delta)
        self._members = self._random_members()

    def follow(self, log: Sequence[Draw], *, check: bool = False) -> None:
        super().follow(log, check=check)
        self._members = self._random_members()

    def _random_members(self) -> list[NDArray[np.int64]]:
        """Return the items of each group in random order."""
        order = self._random_order()
        return [order[self._labels[order] == group] for group in range(len(self._sums.sizes))]

    def next_draw(self) -> Draw | None:
        if self._consumed < self._drawn or self._drawn == self.setting.pool.size:
            return None
        group = self._sums.neediest()
        members, taken = self._members[group], int(self._sums.seen[group])
        return self._next(int(members[taken]), len(members) - taken)

    def observe(self, draw: Draw, low: float, high: float) -> None:
        super().observe(draw, low, high)
        # A score known only as a range is treated as not known at all, which can only widen.
        self._sums.add(int(self._labels[draw.item]), 1.0 - low if low == high else None)

    def _means(self) -> Interval:
        return self._sums.means() if self._consumed else self._plain_mean()

    def _printed_radius(self) -> float:
        return self._sums.radius()
