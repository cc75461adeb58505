"""State the contract of a session: ask, call, tell, consume in draw order, stop.

A session decides and never acts: it does no IO and reads no clock. Results may be told in any order; they are
consumed in draw order, because answers that come early are different from answers that come late. So the same
settings, seed and scores give the same draws and the same result, whatever was in flight.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from secrets import randbits
from typing import Any

import numpy as np

from cereval.arrays import Draws, Scores
from cereval.errors import InvalidInput, Misuse
from cereval.methods.base import Method
from cereval.records import Certified, Draw, Interval, Scored, Step, Stopped
from cereval.version import ENGINE

SEED_BITS = 53


class AskTell(ABC):
    """Ask and tell. Obligations of subclasses: `_next_draw`, `_observe`, `_state`, `result`, `settings`;
    `_check_stop()` once built.

    A draw asks one or several models (`draw.models`); `tell` takes a score for each of them.
    """

    goal: Any
    confidence: float
    seed: int
    seed_drawn: bool = False
    """Whether the seed was drawn here; else it was chosen by whoever opened the session."""
    n_items: int
    models: tuple[str, ...] = ()
    """The names of the models, where they are known."""

    def __init__(self, draws: Draws, budget: int | None, asked: int = 1) -> None:
        """Begin with no draws; `asked` is how many models every draw asks."""
        self.budget = budget
        self.horizon: int | None = None
        self._draws = draws
        self._told, self._has_told = tuple(Scores() for _ in range(asked)), bytearray()
        self._consumed = 0
        self._failures = 0
        self._stopped: Stopped = "running"

    def _take_seed(self, seed: int | None) -> None:
        """Take the seed that was chosen, or draw one."""
        self.seed_drawn = seed is None
        self.seed = fresh_seed() if seed is None else whole("seed", seed, 0)

    # -- obligations ------------------------------------------------------------------------------------------

    @abstractmethod
    def _next_draw(self) -> Draw | None:
        """Decide the next draw; None when earlier results must come first or nothing is left to ask."""

    @abstractmethod
    def _observe(self, index: int) -> None:
        """Take the result of a draw, in draw order."""

    @abstractmethod
    def _state(self) -> Stopped:
        """Tell whether the results consumed so far end the session, and why."""

    @abstractmethod
    def result(self) -> Certified:
        """Read the certificate as it stands, whether or not the session has ended."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return everything but the side information that decides draws and answers, JSON-able."""

    def _repr_html_(self) -> str:
        """Return the certificate as it stands, as notebooks show it."""
        return self.result()._repr_html_()

    def follow(self, log: Mapping[int, Draw], *, check: bool = False) -> None:  # noqa: B027
        """Take the draws that a log has, by number, in place of deciding them; before the first draw.

        check: they have to be those that the seed leads to.
        """

    # -- ask and tell -----------------------------------------------------------------------------------------

    def ask(self, k: int = 1) -> list[Draw]:
        """Decide up to k further draws: fewer, or none, when earlier results must come first or no item is left."""
        most = whole("k", k, 1)
        if self.done:
            raise Misuse(f"the session has ended ({self._stopped}); nothing is left to ask")
        if self.budget is not None:
            most = max(min(most, self.budget - len(self._draws)), 0)
        fresh: list[Draw] = []
        while len(fresh) < most and (draw := self._next_draw()) is not None:
            fresh.append(draw)
        self._note(fresh)
        if not fresh and self._consumed == len(self._draws):
            # Nothing is awaited and there is nothing left to ask: no further call could change that.
            spent = self.budget is not None and self._consumed >= self.budget
            self._stopped = "budget" if spent else "exhausted"
        return fresh

    def _note(self, fresh: Sequence[Draw]) -> None:
        self._draws.extend(fresh)
        for told in self._told:
            told.extend([None] * len(fresh))
        self._has_told.extend([False] * len(fresh))

    def tell(self, draw: Draw, *scores: Any) -> None:
        """Take the scores of a draw, in [0, 1], one for each model that it asks."""
        if len(scores) != len(self._told):
            raise Misuse(f"draw {draw.index} takes {len(self._told)} scores, got {len(scores)}")
        self._record(draw, tuple(self._checked(draw, number, score) for number, score in enumerate(scores)))

    def _checked(self, draw: Draw, number: int, score: Any) -> float | None:  # noqa: ARG002
        return unit_score(score, allowed=f"a number in [0, 1] (item {draw.item})")

    def fail(self, draw: Draw) -> None:
        """Note that a draw failed for good: its scores count as unknown, which can only hold claims back."""
        self._record(draw, (None,) * len(self._told))

    def _record(self, draw: Draw, scores: Scored) -> None:
        index = draw.index
        if not 0 <= index < len(self._draws) or self._draws[index] != draw:
            raise Misuse(f"draw {index} (item {draw.item}) was not asked by this session")
        if self._has_told[index]:
            raise Misuse(f"draw {index} (item {draw.item}) was told already")
        for told, score in zip(self._told, scores, strict=True):
            told[index] = score
        self._has_told[index] = True
        self._consume()

    def _consume(self) -> None:
        """Observe in draw order up to the first gap, or up to the end of the session."""
        while not self.done and self._consumed < len(self._draws) and self._has_told[self._consumed]:
            self._observe(self._consumed)
            self._failures += None in self._scores(self._consumed)
            self._consumed += 1
            self._check_stop()

    def _scores(self, index: int) -> Scored:
        return tuple(told[index] for told in self._told)

    def _check_stop(self) -> None:
        self._stopped = self._state()

    # -- what a runner needs ----------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        return self._stopped != "running"

    @property
    def stopped(self) -> Stopped:
        return self._stopped

    @property
    def outstanding(self) -> tuple[Draw, ...]:
        """Return the draws asked and not told, in draw order."""
        return tuple(draw for draw, told in zip(self._draws, self._has_told, strict=True) if not told)

    @property
    def n_evaluated(self) -> int:
        """Count the results consumed so far, in draw order."""
        return self._consumed

    @property
    def n_drawn(self) -> int:
        """Count the draws decided so far."""
        return len(self._draws)

    @property
    def asked(self) -> int:
        """Return how many models every draw asks."""
        return len(self._told)

    @property
    def calls(self) -> int:
        """Return the calls behind the results consumed so far: one for each model that a draw asks."""
        return self._consumed * self.asked

    @property
    def surplus(self) -> int:
        """Count the results told but not consumed: in flight when the session ended, or waiting for an earlier one."""
        return sum(self._has_told) - self._consumed

    @property
    def log(self) -> tuple[tuple[Draw, Scored], ...]:
        """Return the results consumed so far, in draw order (None: the call failed)."""
        return tuple((self._draws[index], self._scores(index)) for index in range(self._consumed))

    def step(self) -> Step | None:
        """Return the interval now, on the scale that people are shown; None where there is no single one."""
        return None

    def standing(self) -> str:
        """Return how far the session has come, in a few words, where there is no single interval."""
        return ""

    def place(self, draw: Draw) -> int:
        """Return the number under which the answers to a draw are kept with each model."""
        return draw.index

    def within_budget(self, draw: Draw) -> bool:  # noqa: ARG002
        """Tell whether a draw may still count: those decided before a smaller budget was set may lie beyond it."""
        return True

    def ahead(self, count: int) -> list[Draw]:  # noqa: ARG002
        """Return draws that will come unless the session ends or turns elsewhere, for calls that would otherwise
        idle.
        """
        return []

    def change(self, goal: Mapping[str, Any], budget: int | None) -> None:
        """Set a new budget; sessions that can also take a new goal say so by overriding this."""
        if dict(goal) != self.goal.spec():
            raise Misuse("this question keeps its goal: start a new run for another")
        self.budget = None if budget is None else whole("budget", budget, 1)
        self.horizon = None
        self._rebudget()
        self._check_stop()
        self._consume()

    def foresee(self, calls: int | None) -> None:
        """Have bets on the draws to come work towards so many results in all; None: towards the goal alone again.

        Unlike a budget it ends nothing: it says what money and time are expected to buy. Bets are predictable
        whatever it is, as long as it does not depend on draws that are still to be decided.
        """
        self.horizon = None if calls is None else whole("horizon", calls, 1)
        self._rebudget()

    @property
    def soonest(self) -> int | None:
        """Return the results after which the session is expected to end, by its budget or by what is foreseen."""
        ends = [end for end in (self.budget, self.horizon) if end is not None]
        return min(ends, default=None)

    def _rebudget(self) -> None:  # noqa: B027
        """Have bets work towards `soonest` from the next draw on."""


class MethodSession(AskTell):
    """Ask on behalf of one method. Obligation of subclasses: `_goal_reached`."""

    def __init__(self, method: Method, limit: int | None, budget: int | None, models: int = 1) -> None:
        """Take how many items there are to ask as `limit`, None where an item may come again."""
        super().__init__(Draws(tuple(range(models))), budget, models)
        self._method = method
        self._limit = limit
        self._asks = tuple(range(models))
        self._check_stop()

    @abstractmethod
    def _goal_reached(self) -> bool:
        """Tell whether the results consumed so far certify the goal."""

    def follow(self, log: Mapping[int, Draw], *, check: bool = False) -> None:
        self._method.follow(first_of(log), check=check)

    def _next_draw(self) -> Draw | None:
        draw = self._method.next_draw()
        if draw is None or len(self._asks) == 1:
            return draw
        return Draw(draw.index, draw.item, draw.probability, self._asks)

    def within_budget(self, draw: Draw) -> bool:
        return self.budget is None or draw.index < self.budget

    def _observe(self, index: int) -> None:
        self._method.observe(self._draws[index], *self._bounds(index))

    def _bounds(self, index: int) -> tuple[float, float]:
        """Return where the score of a draw lies: anywhere in [0, 1] when its call failed."""
        (score,) = self._scores(index)
        return (0.0, 1.0) if score is None else (score, score)

    def _state(self) -> Stopped:
        if self._method.contradiction:
            return "contradiction"
        if self._goal_reached():
            return "goal"
        if self._limit is not None and self._consumed >= self._limit:
            return "exhausted"
        if self.budget is not None and self._consumed >= self.budget:
            return "budget"
        return "running"

    @property
    def interval(self) -> Interval:
        """Return what is certified now; every interval ever shown is covered by the same confidence (for `anytime`
        methods).
        """
        return self._method.interval

    @property
    def estimate(self) -> float:
        return self._method.estimate

    @property
    def method(self) -> Method:
        return self._method

    def step(self) -> Step | None:
        interval = self.interval
        return Step(self.n_evaluated, self.estimate, interval.lower, interval.upper)


def check_engine(field: str, engine: object) -> None:
    """Refuse what another engine made: its draws and bets would be others here."""
    if engine != ENGINE or isinstance(engine, bool):
        raise InvalidInput(f"engine of the {field}", f"{ENGINE}, as in this version", engine)


def first_of(log: Mapping[int, Draw]) -> list[Draw]:
    """Return the draws of a log from number 0 on, up to the first that is missing.

    >>> first_of({0: Draw(0, 7, 0.1), 2: Draw(2, 5, 0.1)})
    [Draw(index=0, item=7, probability=0.1, models=(0,))]
    """
    return [log[number] for number in takewhile(log.__contains__, count())]


def rejection(confidence: float) -> str:
    """Return what is said where the evidence has rejected every value."""
    return (
        "the evidence rejects every value: this has probability at most "
        f"{1 - confidence:.3g}; shown is only what the seen scores prove by themselves"
    )


def fresh_seed() -> int:
    """Draw a seed that nobody knows: the theorems need draws that do not depend on the scores.

    Whoever repairs what failed under a known seed meets the same questions again. 53 bits: too many seeds to be tried
    one by one against the draws seen so far, and whole in every reader of JSON.
    """
    return randbits(SEED_BITS)


def whole(field: str, value: object, least: int) -> int:
    """Return the value as an int, if it is a whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInput(field, f"a whole number >= {least}", value)
    return int(value)


def unit_score(value: object, field: str = "score", allowed: str = "a number in [0, 1]") -> float:
    """Return a score as a float: any real number, bool or single-element array scalar in [0, 1].

    >>> unit_score(True), unit_score(0.25)
    (1.0, 0.25)
    """
    plain: Any = value
    if type(value) is not float and getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        plain = plain.item()
    real = isinstance(plain, numbers.Real)
    if not real or not 0 <= plain <= 1:
        raise InvalidInput(field, allowed, value)
    return float(plain)


def tell(session: AskTell, draw: Draw, scores: Scored) -> None:
    """Tell a session what came of a draw: its scores, or a failed call."""
    if all(score is None for score in scores):
        session.fail(draw)
    else:
        session.tell(draw, *scores)
