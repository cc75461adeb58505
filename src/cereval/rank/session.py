"""`RankSession`: ask which model to put to which item, tell the scores, read the certified order at any time.

Theorem. All models answer the items in one shared random order, each a prefix of it. For every pair the two games of
`stats.pairs` are played on the items that both have answered. Let F be the goal's family, the number of nulls whose
wrong rejection would make a wrong claim possible. Claims are made where the evidence reaches F / (share delta): by
Ville's inequality and the union bound no claim is ever wrong with probability >= 1 - share delta, and what follows by
transitivity is then right as well. The rest of delta covers the models' intervals and, for a top k, the order listed
beside the answer, for which both nulls of every pair count: of two equal models neither is above.

Calls are asked in rounds (`rank.rounds`), and a round is planned when all results of the one before are in. So the
draws depend on the seed and the scores alone, never on timing. A model matters while one of its pairs is open for the
goal and it is not ahead of the other model of that pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from cereval.errors import InvalidInput
from cereval.goals.estimate import in_open_unit_interval
from cereval.goals.ranking import Order, RankGoal
from cereval.ledger import Ledger, whole
from cereval.rank.claims import Bools, PairClaims, Pairs, read
from cereval.rank.ranking import ModelInterval, Ranking
from cereval.rank.rounds import RankDraw as RankDraw
from cereval.rank.rounds import Rounds
from cereval.records import Stopped
from cereval.stats.means import MeanGames
from cereval.stats.pairs import PairGames, PairTuning

INTERVALS_SHARE = 0.05
ORDER_SHARE = 0.05
"""Of delta. Both are cheap: evidence is counted in logarithms, and ln(1/.9) is little beside ln(K/delta)."""

ROUNDING = 1e-9

Ints = NDArray[np.int64]


class RankSession(Ledger[RankDraw]):
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
        super().__init__([], None if budget is None else whole("budget", budget, 1))
        self._rounds = Rounds(self.n_items, len(self.models), self.seed)
        self._round: Iterator[RankDraw] = iter(())
        self._planned = 0
        self._pairs = Pairs(len(self.models), *self.goal.pairs(len(self.models)))
        self._open_games()
        self._check_stop()

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

    # -- rounds -------------------------------------------------------------------------------------------------------

    def _next_draw(self) -> RankDraw | None:
        return next(self._round, None)

    def _observe(self, index: int) -> None:
        self._rounds.put(self._draws[index], *self._bounds(index))

    def _state(self) -> Stopped:
        """At the end of a round: play the games as far as the results go, then stop or plan the next round."""
        if self._consumed < self._planned:
            return "running"
        self._play()
        self._standing = self._read()
        if self._standing.contradiction:
            return "contradiction"
        wanted = self.goal.open(self._standing)
        if not wanted.any():
            return "goal"
        room = None if self.budget is None else self.budget - self._consumed
        if room == 0:
            return "budget"
        draws = self._rounds.planned(wanted, self._consumed, room)
        self._round, self._planned = iter(draws), self._consumed + len(draws)
        return "running" if draws else "exhausted"

    def _read(self) -> PairClaims:
        return read(
            self._games,
            self._pairs,
            margin=self.goal.margin,
            needed=self._needed,
            order_needed=self._order_needed,
        )

    def _play(self) -> None:
        """Lagging pairs catch up one item at a time, all of them together."""
        first, second, games, rounds = self._pairs.first, self._pairs.second, self._games, self._rounds
        shared = np.minimum(rounds.prefix[first], rounds.prefix[second])
        matters = self._pairs.each(self.goal.played(self._read()))
        while len(which := np.flatnonzero(matters & (games.time < shared))):
            place, one, other = games.time[which], first[which], second[which]
            low = rounds.low[place, one] - rounds.high[place, other]
            high = rounds.high[place, one] - rounds.low[place, other]
            games.play(which, low, high)

    # -- what is certified --------------------------------------------------------------------------------------------

    @property
    def items(self) -> Ints:
        """The items in the order in which all models answer them."""
        return self._rounds.order

    def place_of(self, draw: RankDraw) -> int:
        """Where a draw's item stands in the shared order: it is the model's answer number so many, from 0."""
        return self._rounds.place_of(draw)

    @property
    def log(self) -> tuple[tuple[RankDraw, float | None], ...]:
        """The consumed results in draw order (None: the call failed)."""
        return tuple((self._draws[index], self._told[index]) for index in range(self._consumed))

    @property
    def standing(self) -> PairClaims:
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
        games, rounds = self._means, self._rounds
        while len(which := np.flatnonzero(games.time < rounds.prefix)):
            place = games.time[which]
            games.play(which, rounds.low[place, which], rounds.high[place, which])
        lower, upper = games.limits()
        lower = np.maximum(lower, np.where(order, lower[None, :], 0.0).max(axis=1))
        upper = np.minimum(upper, np.where(order.T, upper[None, :], 1.0).min(axis=1))
        middle = np.clip(games.estimates, np.minimum(lower, upper), np.maximum(lower, upper))
        return {
            name: ModelInterval(float(middle[i]), float(lower[i]), float(upper[i]), int(rounds.prefix[i]))
            for i, name in enumerate(self.models)
        }


def _checked_models(models: Sequence[str]) -> tuple[str, ...]:
    names = tuple(models) if not isinstance(models, str) else (models,)
    if len(names) < 2 or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise InvalidInput("models", "two or more different names", models)
    return names
