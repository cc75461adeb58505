"""`RankSession`: ask which model to put to which item, tell the scores, read the certified order at any time.

Theorem. All models answer the items in one shared random order, each a prefix of it. For every pair the two games of
`stats.pairs` are played on the items that both have answered. Let F be the goal's family, the number of nulls whose
wrong rejection would make a wrong claim possible. Claims are made where the evidence reaches F / (share delta): by
Ville's inequality and the union bound no claim is ever wrong with probability >= 1 - share delta, and what follows by
transitivity is then right as well. The rest of delta covers the models' intervals and, for a top k, the order listed
beside the answer, for which both nulls of every pair count: of two equal models neither is above.

Calls are asked in rounds. A round takes each model that still matters from one checkpoint of the shared order to the
next; checkpoints are fixed in advance, and a round is planned when all results of the one before are in. So the
draws depend on the seed and the scores alone, never on timing. A model matters while one of its pairs is open for the
goal and it is not ahead of the other model of that pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from cereval.errors import InvalidInput, Misuse
from cereval.goals.estimate import in_open_unit_interval
from cereval.goals.ranking import Order, RankGoal
from cereval.rank.ranking import ModelInterval, Ranking
from cereval.rank.standing import Bools, Pairs, Standing, read
from cereval.records import Stopped
from cereval.stats.means import MeanGames
from cereval.stats.pairs import PairGames, PairTuning

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST_CHECKPOINT = 8
ROUND_SHARE = 32
"""A round adds at most this part of what a model has answered: on average half of it is asked too much."""

INTERVALS_SHARE = 0.05
ORDER_SHARE = 0.05
"""Of delta. Both are cheap: evidence is counted in logarithms, and ln(1/.9) is little beside ln(K/delta)."""

ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class RankDraw:
    """One question: the `index`-th draw puts item number `item` to model number `model`."""

    index: int
    model: int
    item: int


class RankSession:
    """Ask/tell ranking of models on shared items.

    >>> rng = np.random.default_rng(1)
    >>> scores = (rng.uniform(size=(400, 3)) < [0.9, 0.6, 0.3]).astype(float)
    >>> session = RankSession(400, ("good", "fair", "poor"), goal=Order(tie=0.05), seed=2)
    >>> while not session.done:
    ...     for draw in session.ask(64):
    ...         session.tell(draw, scores[draw.item, draw.model])
    >>> ranking = session.result()
    >>> ranking.order
    (('good', 'fair'), ('good', 'poor'), ('fair', 'poor'))
    >>> ranking.stopped, ranking.calls < 0.5 * ranking.calls_full
    ('goal', True)
    """

    def __init__(
        self,
        n_items: int,
        models: Sequence[str],
        *,
        goal: RankGoal | None = None,
        confidence: float = 0.95,
        budget: int | None = None,
        seed: int = 0,
    ) -> None:
        self.n_items, self.seed = whole("n_items", n_items, 1), whole("seed", seed, 0)
        self.models = _checked_models(models)
        self.goal: RankGoal = Order() if goal is None else goal
        self.confidence = in_open_unit_interval("confidence", confidence)
        self.budget = None if budget is None else whole("budget", budget, 1)
        self.items = np.random.default_rng(self.seed).permutation(self.n_items)
        self._pairs = Pairs(len(self.models), *self.goal.pairs(len(self.models)))
        self._open_games()
        shape = (self.n_items, len(self.models))
        self._low, self._high = np.zeros(shape), np.zeros(shape)
        self._prefix = np.zeros(len(self.models), dtype=np.int64)
        self._checkpoints = checkpoints(self.n_items)
        self._draws: list[RankDraw] = []
        self._places: list[int] = []
        self._told: list[float | None] = []
        self._has_told: list[bool] = []
        self._asked = self._consumed = self._failures = 0
        self._stopped: Stopped = "running"
        self._evaluate()

    def _open_games(self) -> None:
        count, delta = len(self.models), 1 - self.confidence
        whole_order = self.goal.orders_all
        share = 1 - INTERVALS_SHARE - (0 if whole_order else ORDER_SHARE)
        alpha = share * delta / self.goal.family(count)
        self._needed = log(1 / alpha) + ROUNDING
        own = alpha if whole_order else ORDER_SHARE * delta / (2 * len(self._pairs.first))
        self._order_needed = log(1 / own) + ROUNDING
        margin = self.goal.margin
        self._games = PairGames(
            self.n_items,
            pairs=len(self._pairs.first),
            nulls=(0.0,) if margin is None else (0.0, -margin),
            alpha=alpha,
            floor=self.goal.floor,
            tuning=PairTuning(cap=self.goal.cap),
        )
        self._means = MeanGames(self.n_items, models=count, alpha=INTERVALS_SHARE * delta / count / 2)

    # -- ask and tell -----------------------------------------------------------------------------------------------

    def ask(self, k: int = 1) -> list[RankDraw]:
        """Up to k further draws. Fewer, or none, when the results of this round must come first."""
        count = whole("k", k, 1)
        if self.done:
            raise Misuse(f"the session has ended ({self._stopped}); nothing is left to ask")
        fresh = self._draws[self._asked : self._asked + count]
        self._asked += len(fresh)
        return fresh

    def tell(self, draw: RankDraw, score: float) -> None:
        """The score of a draw, in [0, 1]."""
        number = isinstance(score, bool | int | float | np.bool_ | np.integer | np.floating)
        if not number or not 0.0 <= float(score) <= 1.0:
            raise InvalidInput("score", f"a number in [0, 1] (item {draw.item})", score)
        self._record(draw, float(score))

    def fail(self, draw: RankDraw) -> None:
        """The call failed for good: its score counts as unknown, which can only hold claims back."""
        self._record(draw, None)

    def _record(self, draw: RankDraw, score: float | None) -> None:
        index = draw.index
        if not 0 <= index < self._asked or self._draws[index] != draw:
            raise Misuse(f"draw {index} (item {draw.item}) was not asked by this session")
        if self._has_told[index]:
            raise Misuse(f"draw {index} (item {draw.item}) was told already")
        self._told[index], self._has_told[index] = score, True
        while self._consumed < len(self._draws) and self._has_told[self._consumed]:
            self._consume(self._consumed)

    def _consume(self, index: int) -> None:
        draw, place, score = self._draws[index], self._places[index], self._told[index]
        self._low[place, draw.model], self._high[place, draw.model] = (
            (0, 1) if score is None else (score, score)
        )
        self._prefix[draw.model] = place + 1
        self._failures += score is None
        self._consumed += 1
        if self._consumed == len(self._draws):
            self._evaluate()

    # -- rounds -------------------------------------------------------------------------------------------------------

    def _evaluate(self) -> None:
        """At the end of a round: play the games as far as the results go, then stop or plan the next round."""
        self._play()
        self._standing = standing = self._read()
        wanted = self.goal.open(standing)
        if standing.contradiction:
            self._stopped = "contradiction"
        elif not wanted.any():
            self._stopped = "goal"
        elif self.budget is not None and self._consumed >= self.budget:
            self._stopped = "budget"
        elif not self._plan(wanted):
            self._stopped = "exhausted"

    def _read(self) -> Standing:
        return read(
            self._games,
            self._pairs,
            margin=self.goal.margin,
            needed=self._needed,
            order_needed=self._order_needed,
        )

    def _play(self) -> None:
        """Lagging pairs catch up one item at a time, all of them together."""
        first, second, games = self._pairs.first, self._pairs.second, self._games
        shared = np.minimum(self._prefix[first], self._prefix[second])
        matters = self._pairs.each(self.goal.played(self._read()))
        while len(which := np.flatnonzero(matters & (games.time < shared))):
            place, one, other = games.time[which], first[which], second[which]
            low = self._low[place, one] - self._high[place, other]
            high = self._high[place, one] - self._low[place, other]
            games.play(which, low, high)

    def _plan(self, wanted: Bools) -> int:
        """Draws of the next round, item by item along the shared order; returns how many."""
        behind = self._prefix[:, None] <= self._prefix[None, :]
        asked = np.flatnonzero((wanted & behind).any(axis=1) & (self._prefix < self.n_items))
        planned = sorted(
            (place, int(model)) for model in asked for place in range(self._prefix[model], self._next(model))
        )
        if self.budget is not None:
            planned = planned[: self.budget - len(self._draws)]
        for place, model in planned:
            self._draws.append(RankDraw(len(self._draws), model, int(self.items[place])))
            self._places.append(place)
        self._told += [None] * len(planned)
        self._has_told += [False] * len(planned)
        return len(planned)

    def _next(self, model: np.int64) -> int:
        return int(self._checkpoints[np.searchsorted(self._checkpoints, self._prefix[model], side="right")])

    # -- what is certified --------------------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        return self._stopped != "running"

    @property
    def outstanding(self) -> tuple[RankDraw, ...]:
        """Draws asked and not told, in draw order."""
        return tuple(
            draw for draw, told in zip(self._draws[: self._asked], self._has_told, strict=False) if not told
        )

    def place_of(self, draw: RankDraw) -> int:
        """Where a draw's item stands in the shared order: it is the model's answer number so many, from 0."""
        return self._places[draw.index]

    @property
    def n_evaluated(self) -> int:
        """Results consumed so far, in draw order."""
        return self._consumed

    @property
    def log(self) -> tuple[tuple[RankDraw, float | None], ...]:
        """The consumed results in draw order (None: the call failed)."""
        return tuple(zip(self._draws[: self._consumed], self._told, strict=False))

    @property
    def standing(self) -> Standing:
        """The claims as of the last full round."""
        return self._standing

    def result(self) -> Ranking:
        """The state of the certificate as of the last full round, whether or not the session has ended."""
        standing, goal = self._standing, self.goal
        sound = not standing.contradiction
        order = standing.order if sound else np.zeros_like(standing.order)
        ties, unsettled = goal.ties(standing), goal.unsettled(standing)
        full = self.n_items * len(self.models)
        return Ranking(
            models=self.models,
            goal=goal.spec(),
            order=self._named(order),
            ties=self._named(np.triu(ties)),
            ties_proven=goal.margin is not None,
            undecided=self._named(np.triu(unsettled)),
            winners=self._chosen(goal.winners(standing) & (sound and not unsettled.any())),
            eliminated=self._chosen(goal.losers(standing) & sound),
            intervals=self._intervals(order),
            calls=self._consumed,
            calls_full=full,
            saved=1 - self._consumed / full,
            n_items=self.n_items,
            confidence=self.confidence,
            stopped=self._stopped,
            seed=self.seed,
            failures=self._failures,
            notes=() if sound else (self._warning(),),
        )

    def _named(self, pairs: Bools) -> tuple[tuple[str, str], ...]:
        return tuple((self.models[i], self.models[j]) for i, j in np.argwhere(pairs))

    def _chosen(self, models: Bools) -> tuple[str, ...]:
        return tuple(self.models[i] for i in np.flatnonzero(models))

    def _warning(self) -> str:
        return (
            "two models are each certified better than the other: this has probability at most "
            f"{1 - self.confidence:.3g}; no order is given"
        )

    def _intervals(self, order: Bools) -> dict[str, ModelInterval]:
        """Limits that hold together with the order: so the better of two has the higher limits."""
        games = self._means
        while len(which := np.flatnonzero(games.time < self._prefix)):
            place = games.time[which]
            games.play(which, self._low[place, which], self._high[place, which])
        lower, upper = games.limits()
        lower = np.maximum(lower, np.where(order, lower[None, :], 0.0).max(axis=1))
        upper = np.minimum(upper, np.where(order.T, upper[None, :], 1.0).min(axis=1))
        middle = np.clip(games.estimates, np.minimum(lower, upper), np.maximum(lower, upper))
        return {
            name: ModelInterval(float(middle[i]), float(lower[i]), float(upper[i]), int(self._prefix[i]))
            for i, name in enumerate(self.models)
        }


def checkpoints(n_items: int) -> Ints:
    """Lengths of the shared order at which rounds end: fixed in advance, closer together at the start.

    >>> checkpoints(30).tolist()
    [8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30]
    """
    found = [min(FIRST_CHECKPOINT, n_items)]
    while found[-1] < n_items:
        found.append(min(found[-1] + max(2, found[-1] // ROUND_SHARE), n_items))
    return np.array(found, dtype=np.int64)


def whole(field: str, value: object, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInput(field, f"a whole number >= {least}", value)
    return int(value)


def _checked_models(models: Sequence[str]) -> tuple[str, ...]:
    names = tuple(models) if not isinstance(models, str) else (models,)
    if len(names) < 2 or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise InvalidInput("models", "two or more different names", models)
    return names
