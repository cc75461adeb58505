"""`RankSession`: ask which model to put to which item, tell the scores, read the certified order at any time.

Theorem. All models answer the items in one shared random order, each a prefix of it. For every pair the two games of
`stats.pairs` are played on the items that both have answered. Let F be the goal's family, the number of nulls whose
wrong rejection would make a wrong claim possible. Claims are made where the evidence reaches F / (share delta): by
Ville's inequality and the union bound no claim is ever wrong with probability >= 1 - share delta, and what follows by
transitivity is then right as well. The rest of delta covers the models' intervals and, for a top k, the order listed
beside the answer, for which both nulls of every pair count: of two equal models neither is above.

The order is uniform, or, with past models' scores on the items (`history`), a race in which items on which they
disagreed come sooner (`forecasts.draw_weights`, `stats.race`). It depends on the seed and the history alone, so that
the games are those of `stats.pairs` along a race and all of the above holds. Whether the past is like the present
decides what it saves, never what is true. AlpacaEval, 50 models and 66 past ones: 48.8% of the calls for 55.2%.

Where models answer anew at every call (target `expected`), the order has no end and an item comes again in it; means
are those of fresh answers (`rank.rounds`). Assumption: how a model answers does not depend on how often it was asked.

Calls are asked in rounds, and a round is planned when all results of the one before are in. So the draws depend on the
seed and the scores alone, never on timing. A model matters while one of its pairs is open for the goal and it is not
ahead of the other model of that pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cereval.arrays import Bools, Floats, Ints
from cereval.errors import InvalidInput
from cereval.forecasts.draw_weights import NOISE, expected_squares, race_weights
from cereval.forecasts.pool import Pool
from cereval.forms import Count, Positive, Share
from cereval.methods.drawing import draw_order, draw_without_replacement
from cereval.questions.rank.goal import INTERVALS_SHARE, ORDER_SHARE, Beats, Order, RankGoal, Top
from cereval.questions.rank.order import Diagram, PairClaims, Pairs, exact_claims, read
from cereval.questions.rank.rounds import FreshRounds, Hints, Rounds
from cereval.questions.session import AskTell, first_of, locked, pool_size
from cereval.randomness import generator
from cereval.records import UNDECIDED, Certified, Draw, Part, Stopped, Table
from cereval.stats.means import FreshMeanGames, MeanGames, RacedMeanGames
from cereval.stats.pairs import FreshPairGames, PairGames, PairTuning, RacedPairGames
from cereval.stats.race import Race
from cereval.stats.rounding import mean_of
from cereval.text import interval

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ModelInterval:
    """Hold one model's mean score on all items: estimated, certified limits, and how many items it answered."""

    estimate: Share
    lower: Share
    upper: Share
    n: Count


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Ranking(Certified):
    """Hold a certified partial order of models.

    order: every [better, worse] that is certified, transitively closed; of the goal `order`
    "better" reads "at least as good". ties: pairs left unordered as ties; with
    `ties_proven` their difference is certified to be below the tie, else it is only unlikely not to be.
    winners, eliminated: of a top k the models named, and those of which k others are certified to be at least as good
    (of models that tie exactly some may be named and some eliminated); of a baseline the models that beat it, and those
    that are worse. intervals: each model's mean. All that is certified holds at once, with probability >= confidence,
    at every moment of the session: so tables and lines also show what follows from the intervals. calls_full: what
    asking every model every item takes.
    """

    order: tuple[Pair, ...]
    ties: tuple[Pair, ...]
    ties_proven: bool
    undecided: tuple[Pair, ...]
    winners: tuple[str, ...]
    eliminated: tuple[str, ...]
    intervals: Mapping[str, ModelInterval]
    calls: Count
    calls_full: Positive

    silent: ClassVar[frozenset[str]] = frozenset({"n_evaluated", "decision", "scorer"})

    def parts(self) -> list[Part]:
        best_first = sorted(self.intervals.items(), key=lambda pair: -pair[1].estimate)
        return [Part(name, one.estimate, one.lower, one.upper) for name, one in best_first]

    def answer(self) -> str:
        goal, ties = self.goal, len(self.ties)
        if goal["goal"] == "top":
            what = "the best model" if goal["k"] == 1 else f"the {goal['k']} best models"
            return f"{what} within {goal['within'] * 100:g} points: {', '.join(self.winners) or 'undecided'}"
        left = f"{ties:,} certified ties" if self.ties_proven else f"{ties:,} left as ties (not certified)"
        left = left if ties else "no ties"
        if goal["goal"] == "beats":
            baseline = self.models[goal["baseline"]]
            return (
                f"better than {baseline}: {len(self.winners)} models, worse: {len(self.eliminated)}, {left}"
            )
        pairs = len(self.models) * (len(self.models) - 1) // 2
        count = f"{len(self.order):,}" if self.order else "none"
        return f"{count} of {pairs:,} pairs in certified order, {left}"

    def asked(self) -> str:
        if self.target == FRESH:
            return f"{self.calls:,} calls on {self.n_items:,} questions"
        return f"{self.calls:,} of {self.calls_full:,} calls"

    @property
    def exit_code(self) -> int:
        """Return 3 where the goal was reached without a single certified claim: ties that only look like ties."""
        claims = (*self.order, *self.winners, *self.eliminated, *(self.ties if self.ties_proven else ()))
        return super(Ranking, self).exit_code if claims else UNDECIDED

    def table(self) -> Table:
        diagram = Diagram.of(self.as_dict())
        places = {name: diagram.ranks(name) for name in diagram.rows}
        title = "ranks"
        if self.goal["goal"] == "top":
            title, places = f"top {self.goal['k']}", self._places(diagram)
        rows = [[place, name, *self._cells(self.intervals[name])] for name, place in places.items()]
        count = "answers" if self.target == FRESH else "items"
        header = (title, "model", "estimate", "interval", count, "0% to 100%")
        return Table(header, rows, numbers=(0, 2, 3, 4), names=(1,), extra=5)

    def lines(self) -> list[str]:
        """Return the order in words: who is just above whom; and what a place in the table says."""
        diagram = Diagram.of(self.as_dict())
        if self.goal["goal"] != "top" or self._out not in self._places(diagram).values():
            return diagram.text()
        k = self.goal["k"]
        others = "another model is" if k == 1 else f"{k} other models are"
        return [f"{self._out}: {others} certified to be at least as good as this one", *diagram.text()]

    @property
    def _out(self) -> str:
        return "≤ 1 other" if self.goal["k"] == 1 else f"≤ {self.goal['k']} others"

    def _places(self, diagram: Diagram) -> dict[str, str]:
        """Return the models named first, then those not needed for the answer, then those of which k are at least
        as good."""
        places = {
            name: "yes" if name in self.winners else self._out if self._is_out(name, diagram) else "open"
            for name in diagram.rows
        }
        order = ("yes", "open", self._out)
        return {name: places[name] for name in sorted(places, key=lambda name: order.index(places[name]))}

    def _is_out(self, name: str, diagram: Diagram) -> bool:
        """Tell whether k others are certified to be at least as good, by the games or by order and intervals
        together."""
        return name in self.eliminated or len(diagram.as_good[name]) >= self.goal["k"]

    def _cells(self, one: ModelInterval) -> list[str]:
        return [f"{one.estimate:.1%}", interval(one.lower, one.upper), f"{one.n:,}", bar(one)]


def bar(limits: ModelInterval, width: int = 16) -> str:
    """Return an interval as text, on a line from 0 to 1.

    >>> bar(ModelInterval(0.5, 0.3, 0.8, 10), width=10)
    '···──●──··'
    """
    low, high = int(limits.lower * width), min(int(limits.upper * width - 1e-9), width - 1)
    middle = min(int(limits.estimate * width), width - 1)
    marks = ["─" if low <= place <= high else "·" for place in range(width)]
    marks[middle] = "●"
    return "".join(marks)


TARGETS = BENCHMARK, FRESH = "benchmark", "expected"

ALL = "all"
"""The method that asks every model every item."""

ROUNDING = 1e-9


class RankSession(AskTell):
    """Rank models on shared items by ask and tell.

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

    goals = (Order, Top, Beats)

    def __init__(
        self,
        n_items: int,
        models: Sequence[str],
        *,
        goal: RankGoal | None = None,
        confidence: float = 0.95,
        history: ArrayLike | None = None,
        method: str = "pairs",
        target: str = "benchmark",
        budget: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Open a session; history: items x past models, none of those ranked, NaN where one was not asked. method:
        pairs, or `all` to ask every model every item: nothing is bet then, and what is said is certain. target:
        benchmark, or expected: the mean of fresh answers, for models that never answer the same twice."""
        pool_size(n_items, len(models))
        asked: dict[str, Any] = {
            "confidence": confidence,
            "budget": budget,
            "seed": seed,
            "models": _checked_models(models),
        }
        super().__init__(n_items, goal, **asked)
        if method not in ("pairs", "auto", ALL):
            raise InvalidInput("method", f"pairs, or {ALL} to ask every model every item", method)
        self.whole = method == ALL
        if target not in TARGETS or (self.whole and target == FRESH):
            raise InvalidInput("target", f"benchmark, or without the method {ALL} expected", target)
        self.target = target
        self.pool = Pool.build(self.n_items, history=history)
        self._pairs = Pairs(len(self.models), *self._goal.pairs(len(self.models)))
        self._begin(())

    def follow(self, log: Mapping[int, Draw], *, check: bool = False) -> None:
        self._begin(first_of(log), check=check)

    def _begin(self, log: Sequence[Draw], *, check: bool = False) -> None:
        """Draw the shared order, which begins with the items of a log, and plan the first round."""
        models = len(self.models)
        self._hints: Hints | None = None
        self._rounds: Rounds
        if self.target == FRESH:
            self._race, self._hints = None, Hints(self.pool, models)
            self._rounds = FreshRounds(self.pool, models, self.seed, log, check=check)
        else:
            order, self._race = _draw_order(self.pool, self.seed, log, check=check)
            chances = None if self._race is None else self._race.chances
            self._rounds = Rounds(order, models, chances, whole=self.whole)
        self._round: Iterator[Draw] = iter(())
        self._planned = 0
        self._ends = self._rounds.prefix.copy()
        self._open_games()
        self._check_stop()

    def _open_games(self) -> None:
        count, delta = len(self.models), 1 - self.confidence
        whole_order = self._goal.orders_all
        share = 1 - INTERVALS_SHARE - (0 if whole_order else ORDER_SHARE)
        # Of models that answer at random "above" is to mean better: of two equal ones neither is, so both nulls count.
        strict = whole_order and self.target == FRESH
        alpha = share * delta / (2 * len(self._pairs.first) if strict else self._goal.family(count))
        self._needed = log(1 / alpha) + ROUNDING
        own = alpha if whole_order else ORDER_SHARE * delta / (2 * len(self._pairs.first))
        self._order_needed = log(1 / own) + ROUNDING
        margin = self._goal.margin
        playing: dict[str, Any] = {
            "pairs": len(self._pairs.first),
            "nulls": (0.0,) if margin is None else (0.0, -margin),
            "alpha": alpha,
            "floor": self._goal.floor,
            "tuning": PairTuning(cap=self._goal.cap),
        }
        means: dict[str, Any] = {"models": count, "alpha": INTERVALS_SHARE * delta / count / 2}
        self._games: PairGames
        self._means: MeanGames
        if self._hints is not None:
            self._games, self._means = FreshPairGames(**playing), FreshMeanGames(**means)
        elif self._race is None:
            self._games, self._means = PairGames(self.n_items, **playing), MeanGames(self.n_items, **means)
        else:
            self._games = RacedPairGames(self._race, **playing)
            self._means = RacedMeanGames(self._race, **means)

    # -- rounds -------------------------------------------------------------------------------------------------------

    def _next_draw(self) -> Draw | None:
        return next(self._round, None)

    def _observe(self, index: int) -> None:
        (score,) = self._scores(index)
        self._rounds.put(self._draws[index], *((0.0, 1.0) if score is None else (score, score)))

    def _state(self) -> Stopped:
        """Play the games as far as the results go at the end of a round, then stop or plan the next round."""
        if self.n_evaluated < self._planned:
            return "running"
        self._play()
        self._standing = self._read()
        if self._standing.contradiction:
            return "contradiction"
        wanted = self._goal.open(self._standing)
        if self.whole and not self._complete:
            wanted = np.ones_like(wanted)
        if not wanted.any():
            return "goal"
        room = None if self.budget is None else self.budget - self.n_evaluated
        if room == 0:
            return "budget"
        draws = self._rounds.planned(wanted, self.n_evaluated, room)
        self._ends = self._rounds.prefix.copy()
        for draw in draws:
            self._ends[draw.model] += 1
        self._round, self._planned = iter(draws), self.n_evaluated + len(draws)
        return "running" if draws else "exhausted"

    @property
    def _complete(self) -> bool:
        return bool((self._rounds.prefix == self.n_items).all())

    def _read(self) -> PairClaims:
        if self.whole:
            nothing = np.zeros(len(self.models)), np.ones(len(self.models))
            lower, upper = self._limits_of_all() if self._complete else nothing
            return exact_claims(lower, upper, self._goal.margin)
        return read(
            self._games,
            self._pairs,
            margin=self._goal.margin,
            needed=self._needed,
            order_needed=self._order_needed,
        )

    def _play(self) -> None:
        """Let lagging pairs catch up one item at a time, all of them together."""
        if self.whole:
            return
        first, second, games, rounds = self._pairs.first, self._pairs.second, self._games, self._rounds
        if self._hints is not None:
            self._hints.catch_up(rounds)
        shared = np.minimum(rounds.prefix[first], rounds.prefix[second])
        matters = self._pairs.each(self._goal.played(self._read()))
        while len(which := np.flatnonzero(matters & (games.time < shared))):
            place, one, other = games.time[which], first[which], second[which]
            low = rounds.low[place, one] - rounds.high[place, other]
            high = rounds.high[place, one] - rounds.low[place, other]
            if isinstance(games, FreshPairGames) and self._hints is not None:
                games.play_hinted(which, low, high, *self._hints.of_pairs(place, one, other))
            else:
                games.play(which, low, high)

    # -- what is certified --------------------------------------------------------------------------------------------

    def place(self, draw: Draw) -> int:
        """Return where a draw's item stands in the shared order: it is the model's answer number so many, from 0."""
        return self._rounds.place_of(draw)

    def ahead(self, count: int) -> list[Draw]:
        """Return the next items of the shared order for the models that the goal still follows, those behind first.

        A round holds few calls; these are the rounds to come, unless a model is settled before. They have no number
        yet (`index` below 0): the session asks them again in their turn, and their answers are there.
        """
        wanted = np.flatnonzero(self._goal.open(self._standing).any(axis=1))
        reached = {} if self.done else {int(model): int(self._ends[model]) for model in wanted}
        return self._rounds.coming(reached, count)

    @property
    def hints(self) -> Floats | None:
        """What forecasts said of fresh answers: h, the largest h and minus the least, places x models."""
        if self._hints is None:
            return None
        self._hints.catch_up(self._rounds)
        return self._hints.at

    @property
    def claims(self) -> PairClaims:
        return self._standing

    def standing(self) -> str:
        return f"{int(self._standing.order.sum()):,} pairs in order"

    def settings(self) -> dict[str, Any]:
        return {
            **super().settings(),
            "models": list(self.models),
            **({"method": ALL} if self.whole else {}),
            **({} if self.target == BENCHMARK else {"target": self.target}),
            **({} if self.pool.history is None else {"side_information": self.pool.fingerprint()}),
        }

    @locked
    def result(self) -> Ranking:
        """Return the certificate as of the last full round."""
        standing, goal = self._standing, self._goal
        sound = not standing.contradiction
        order = standing.order if sound else np.zeros_like(standing.order)
        ties, unsettled = goal.ties(standing), goal.unsettled(standing)
        full = self.n_items * len(self.models)
        return Ranking(
            **self._frame() | {"saved": 1 - self.n_evaluated / full},
            method=ALL if self.whole else "pairs",
            guarantee="anytime",
            order=self._named(order),
            ties=self._named(np.triu(ties)),
            ties_proven=goal.margin is not None,
            undecided=self._named(np.triu(unsettled)),
            winners=self._chosen(goal.winners(standing) & (sound and not unsettled.any())),
            eliminated=self._chosen(goal.losers(standing) & sound),
            intervals=self._intervals(order),
            calls=self.n_evaluated,
            calls_full=full,
            notes=(*self.remarks, *(() if sound else (self._warning(),))),
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
        """Return limits that hold together with the order: so the better of two has the higher limits."""
        if self.whole and self._complete:
            lower, upper = self._limits_of_all()
            return {
                name: ModelInterval((low + high) / 2, low, high, self.n_items)
                for name, low, high in zip(self.models, lower.tolist(), upper.tolist(), strict=True)
            }
        games, rounds = self._means, self._rounds
        if self._hints is not None:
            self._hints.catch_up(rounds)
        while len(which := np.flatnonzero(games.time < rounds.prefix)):
            place = games.time[which]
            low, high = rounds.low[place, which], rounds.high[place, which]
            if isinstance(games, FreshMeanGames) and self._hints is not None:
                games.play_hinted(which, low, high, *self._hints.of_models(place, which))
            else:
                games.play(which, low, high)
        lower, upper = games.limits()
        lower = np.maximum(lower, np.where(order, lower[None, :], 0.0).max(axis=1))
        upper = np.minimum(upper, np.where(order.T, upper[None, :], 1.0).min(axis=1))
        middle = np.clip(games.estimates, np.minimum(lower, upper), np.maximum(lower, upper))
        return {
            name: ModelInterval(float(middle[i]), float(lower[i]), float(upper[i]), int(rounds.prefix[i]))
            for i, name in enumerate(self.models)
        }

    def _limits_of_all(self) -> tuple[Floats, Floats]:
        """Return where each model's mean lies once all have answered: apart only where calls failed."""
        lower, upper = (
            np.array([mean_of(column) for column in table.T.tolist()])
            for table in (self._rounds.low, self._rounds.high)
        )
        return lower, upper


def _draw_order(pool: Pool, seed: int, log: Sequence[Draw], *, check: bool) -> tuple[Ints, Race | None]:
    """Return the shared order, and the race that it comes from where past models say which items to ask sooner.

    Other histories, other random numbers: an earlier ranking with the same seed would have asked in the same order, and
    which of its answers are in the history would say which items come next (see `methods.active`). The chances along
    the order are those of this machine's weights, which a log may differ from by a millionth at most.
    """
    squares = expected_squares(pool.history)
    rng = generator("ranking", seed, "" if squares is None else pool.history_digest())
    if squares is None:
        return draw_order(rng, pool.size, log, check=check), None
    weights = race_weights(squares)
    order, _ = draw_without_replacement(rng, weights, pool.size, log, check=check)
    return order, Race.along(order, weights, NOISE + (1 - NOISE) * squares)


def _checked_models(models: Sequence[str]) -> tuple[str, ...]:
    names = tuple(models) if not isinstance(models, str) else (models,)
    if len(names) < 2 or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise InvalidInput("models", "two or more different names", models)
    return names
