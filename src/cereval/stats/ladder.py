"""A ladder of horizons: a small share of the capital that makes the interval decent long before the goal.

Deadline bets put everything on the horizon of the goal, so that whoever stops earlier gets an interval two to three
times as wide as need be. A few accounts, the rungs, replicate fixed-horizon tests that are decided after 25, 50,
100, ... draws instead; one whose horizon has passed aims at four times it.

Theorem. Let K_0 (the other accounts) and K_1 ... K_r (the rungs) be nonnegative supermartingales under R <= m, and
start with capital s_0 + ... + s_r <= 1, fixed in advance. Their sum is a nonnegative supermartingale that starts at
1 at most, so it ever reaches 1/alpha with probability at most alpha: the corollaries of `stats.interval` hold for it.
Proof: conditional expectation is linear; Ville (1939). What each rung aims at is its own business: the share s_j is
played as a test of level alpha s_j, which reaches 1/alpha alone exactly when that test rejects.

The rungs keep wealth on a grid of their own that is coarser than the table's. A value m of the table counts, against
R <= m, the rungs' wealth at the next of their values above m (R <= m implies R <= that value, under which it is a
supermartingale), against R >= m at the next below. The grid is divided as the window narrows, as `interval` divides
its own, and for the same reason validly.

Rungs whose horizons have become the same are put together: capital moved from one account to another
by a rule of the past leaves the sum what it was. One account then plays for the level of all.

Tilts (see `interval`): the other accounts and the rungs each have one of their own. Let a <= R <= b be neighbours in
the table, and a' <= a, b' >= b the rungs' values that they count. With a tilt t the rungs' K+(b') and K-(a') start with
2 + 2 t (b' - a') together, times the share s, divided by 1 + t (table's step + 2 steps of the rungs), which is no less
than half of that: at most 2 s. With at most 2 (1 - s) of the others, a miss has probability 2 alpha at most.
Before many results are in, only the limit on the side where scores are rare can move: at mean .05 the lower
one is 0 for long, and the upper one has use for nearly all of alpha.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import numpy as np

from cereval.arrays import Floats, Ints
from cereval.stats.bets import Position, largest_stakes, null_variance, payoffs, replicating_stakes
from cereval.stats.increments import Increment, Prospect
from cereval.stats.information import LARGEST_SQUARE, Information

Places = Ints

SLACK = 1e-9
"""A horizon has passed when so small a share of it is missing: 25 draws of equal information end at the first one
exactly, but for rounding."""


@dataclass(frozen=True, slots=True)
class Rungs:
    """Where the rungs are, in draws like the first, and the share of the capital that they have together.

    share: .05 costs less than 1% of the calls at the goal; .1 costs 2%, .2 up to 17%. again: a rung whose horizon has
    passed aims at so many times it. cells: of the grid at first; it is divided into `finer` parts wherever the window
    has under 1/finer of that, down to `least`. tilt: see above. cap: the largest share of a rung that one bet may lose;
    None: that of the table. parts: what the rungs have of the share, relative to one another; the last number stands
    for all later ones.
    """

    horizons: tuple[float, ...] = (25.0, 50.0, 100.0, 200.0, 400.0)
    share: float = 0.05
    again: float = 4.0
    cells: int = 256
    finer: int = 4
    least: float = 2e-5
    overshoot: float = 0.05
    patience: float = 0.03
    tilt: float = 0.0
    cap: float | None = None
    parts: tuple[float, ...] = (1.0,)

    def towards(self, draws: float) -> Rungs:
        """The rungs on the way to a goal that takes so many draws at worst: each has twice the horizon of the last,
        up to half of those draws.
        """
        horizons = [self.horizons[0]]
        while 2 * horizons[-1] <= draws / 2:
            horizons.append(2 * horizons[-1])
        return replace(self, horizons=tuple(horizons))

    @property
    def inverse_parts(self) -> Floats:
        """The share over each rung's part of it."""
        further = len(self.horizons) - len(self.parts)
        parts = np.array([*self.parts[: len(self.horizons)], *further * self.parts[-1:]])
        return np.asarray(parts.sum() / parts)


class Ladder:
    """The rungs' games on their own grid, restricted to the window that the table still plays."""

    def __init__(self, rungs: Rungs, alpha: float, cap: float, step: float = 0.0) -> None:
        """`step`: the table's."""
        self.rungs, self.cap = rungs, rungs.cap or cap
        self._level = alpha / (1 + rungs.overshoot)
        self._horizons = np.array(rungs.horizons) * LARGEST_SQUARE
        self.candidates: Floats = np.linspace(0.0, 1.0, rungs.cells + 1)
        leaning = rungs.tilt * (1 - 2 * self.candidates)
        start = np.vstack((1 - leaning, 1 + leaning)) / (1 + rungs.tilt * (step + 2 * self._step))
        self._total = log(rungs.share) + np.log(start)
        self._wealth = self._total[None] - np.log(rungs.inverse_parts)[:, None, None]
        self._window, self._stakes = slice(0, 0), np.zeros((len(rungs.horizons), 2, 0))
        self._neighbours: tuple[Floats, Floats, Places, Places] | None = None

    def stake(self, prospect: Prospect, clock: Information, lower: float, upper: float) -> None:
        ahead = self.ahead(clock.total)[:, None, None]
        self._window = window = self._divided_window(lower, upper)
        values = self.candidates[window]
        variance, most = null_variance(values, prospect, clock), largest_stakes(values, prospect, self.cap)
        position = Position(values, self._wealth[:, :, window], variance, prospect, clock, 0.0, 0.0)
        self._stakes = np.minimum(replicating_stakes(position, self._level, ahead), most)

    def ahead(self, total: float) -> Floats:
        """The information until each rung's horizon, which moves on once it has passed."""
        while (passed := self._horizons <= total * (1 + SLACK)).any():
            self._horizons[passed] *= self.rungs.again
            self._merge_equal_horizons()
        return np.asarray(np.maximum(self._horizons - total, self.rungs.patience * self._horizons))

    def _merge_equal_horizons(self) -> None:
        horizons, places = np.unique(self._horizons, return_inverse=True)
        merged = np.full((len(horizons), *self._total.shape), -np.inf)
        for place, wealth in zip(places, self._wealth, strict=True):
            merged[place] = np.logaddexp(merged[place], wealth)
        self._horizons, self._wealth = horizons, merged

    def settle(self, increment: Increment) -> None:
        wealth = self._wealth[:, :, self._window]
        wealth += np.log1p(self._stakes * payoffs(self.candidates[self._window], increment))
        most = wealth.max(axis=0)
        self._total[:, self._window] = most + np.log(np.exp(wealth - most).sum(axis=0))

    def log_wealth(self, values: Floats) -> Floats:
        """What the rungs have together against R <= m and against R >= m, for values m in [0, 1]."""
        found = self._neighbours
        if found is None or found[0] is not values or found[1] is not self.candidates:
            above = np.searchsorted(self.candidates, values)
            below = np.searchsorted(self.candidates, values, side="right") - 1
            self._neighbours = found = values, self.candidates, above, below
        return np.array((self._total[0, found[2]], self._total[1, found[3]]))

    # -- the grid -------------------------------------------------------------------------------------------------

    def _divided_window(self, lower: float, upper: float) -> slice:
        rungs, window = self.rungs, self._window_between(lower, upper)
        while (window.stop - window.start) * rungs.finer < rungs.cells and self._step > rungs.least:
            self._divide(rungs.finer)
            window = self._window_between(lower, upper)
        return window

    @property
    def _step(self) -> float:
        return 1.0 / (len(self.candidates) - 1)

    def _window_between(self, lower: float, upper: float) -> slice:
        first = int(np.searchsorted(self.candidates, lower, side="right")) - 1
        return slice(max(first, 0), int(np.searchsorted(self.candidates, upper)) + 1)

    def _divide(self, parts: int) -> None:
        """Divide the grid; a new value goes on with the wealth of the next old one that its null implies."""
        spots = np.arange((len(self.candidates) - 1) * parts + 1)
        below, above = spots // parts, -(-spots // parts)
        self.candidates = np.linspace(0.0, 1.0, len(spots))
        self._wealth = np.stack((self._wealth[:, 0, above], self._wealth[:, 1, below]), axis=1)
        self._total = np.stack((self._total[0, above], self._total[1, below]))
