"""State the contract of a session: ask, call, tell, consume in draw order, stop.

A session decides and never acts: it does no IO and reads no clock. Results may be told in any order, and from several
threads at once; they are consumed in draw order, because answers that come early are different from answers that come
late. So the same settings, seed and scores give the same draws and the same result, whatever was in flight.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import wraps
from itertools import count, takewhile
from secrets import randbits
from threading import RLock
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from cereval.errors import InvalidInput, Misuse
from cereval.forms import Count
from cereval.methods.base import Aim, Method
from cereval.plan import MOST_ITEMS
from cereval.questions.goals import checked_confidence, checked_goal
from cereval.records import Certified, Draw, Interval, Scored, Step, Stopped
from cereval.stats.rounding import within
from cereval.version import ENGINE

SEED_BITS = 53

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="AskTell")


@dataclass(frozen=True, slots=True)
class Change:
    """Record a new goal or budget, set when so many results had been consumed and so many draws decided.

    horizon: with the goal and the budget as they were, the results that money or time are expected to buy in all,
    which the bets on later draws work towards; 0: none is expected any more. round: so many draws go out together
    from here on (`Method.open_round`); goal, budget and horizon stay.
    """

    consumed: Count
    drawn: Count
    goal: Mapping[str, Any]
    max_calls: Count | None = None
    horizon: Count | None = None
    round: Count | None = None

    def as_dict(self) -> dict[str, Any]:
        rare = ("horizon", "round")
        return {name: value for name, value in asdict(self).items() if name not in rare or value is not None}

    def apply(self, session: AskTell) -> None:
        if self.round is not None:
            session.open_round(self.round)
        elif self.horizon is None:
            session.change(self.goal, self.max_calls)
        else:
            session.foresee(self.horizon or None)


def locked(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Have a method of a session wait for those in other threads, and refuse a session that broke."""

    @wraps(method)
    def alone(self: S, /, *arguments: P.args, **named: P.kwargs) -> T:
        with self._lock:
            if self._broken is not None:
                raise Misuse(
                    f"the session cannot go on: an error interrupted it in the middle of a step ({self._broken}); "
                    "open a new one and tell it the results again"
                )
            return method(self, *arguments, **named)

    return alone


class AskTell(ABC):
    """Ask and tell. Obligations of subclasses: `goals`, `_next_draw`, `_observe`, `_state`, `result`; `_check_stop()`
    once built.

    A draw asks one or several models (`draw.models`); `tell` takes a score for each of them.
    """

    goals: ClassVar[tuple[Any, ...]] = ()
    """The classes of its goals; the first is the usual one."""
    target: str = "benchmark"

    def __init__(
        self,
        n_items: int,
        goal: Any,
        *,
        confidence: float,
        budget: int | None,
        seed: int | None,
        models: Sequence[str] = (),
        asked: int = 1,
    ) -> None:
        """Begin with no draws; seed: None draws one; models: their names; asked: how many of them every draw asks."""
        self._lock = RLock()
        self._broken: BaseException | None = None
        self.n_items = pool_size(n_items)
        self._goal = checked_goal(goal, self.goals)
        self.confidence = checked_confidence(confidence)
        self.seed_drawn = seed is None
        self.seed = fresh_seed() if seed is None else whole("seed", seed, 0)
        self.budget = None if budget is None else whole("budget", budget, 1)
        self.first_budget = self.budget
        self.horizon: int | None = None
        self.models = tuple(models)
        self.scorer = ""
        """The scorer in words, for results; draws and bets do not depend on it."""
        self.remarks: tuple[str, ...] = ()
        """What results have to say of the run that they are of, before their own notes."""
        self.changes: list[Change] = []
        self._draws: list[Draw] = []
        self._told: list[Scored | None] = []
        """What came of each draw; None: it is awaited."""
        self.asked = asked
        self.n_evaluated = self.failures = 0
        """The results consumed so far, in draw order, and those of them with a call that failed."""
        self.stopped: Stopped = "running"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._lock = RLock()

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
        """Read the certificate as it stands, whether or not the session has ended; `locked`."""

    def settings(self) -> dict[str, Any]:
        """Return everything but the side information that decided draws and answers at the start, JSON-able."""
        return {
            "n_items": self.n_items,
            "goal": self._goal.spec(),
            "confidence": self.confidence,
            "budget": self.first_budget,
            "seed": self.seed,
            "engine": ENGINE,
        }

    def follow(self, log: Mapping[int, Draw], *, check: bool = False) -> None:  # noqa: B027
        """Take the draws that a log has, by number, in place of deciding them; before the first draw.

        check: they have to be those that the seed leads to.
        """

    # -- ask and tell -----------------------------------------------------------------------------------------

    @locked
    def ask(self, k: int = 1) -> list[Draw]:
        """Decide up to k further draws: fewer, or none, when earlier results must come first or no item is left."""
        most = whole("k", k, 1)
        if self.done:
            raise Misuse(f"the session has ended ({self.stopped}); nothing is left to ask")
        if self.budget is not None:
            most = max(min(most, self.budget - len(self._draws)), 0)
        with self._changing():
            fresh: list[Draw] = []
            while len(fresh) < most and (draw := self._next_draw()) is not None:
                fresh.append(draw)
            self._draws.extend(fresh)
            self._told.extend([None] * len(fresh))
            if not fresh and self.n_evaluated == len(self._draws):
                # Nothing is awaited and there is nothing left to ask: no further call could change that.
                spent = self.budget is not None and self.n_evaluated >= self.budget
                self.stopped = "budget" if spent else "exhausted"
        return fresh

    @locked
    def tell(self, draw: Draw, *scores: Any) -> None:
        """Take the scores of a draw, in [0, 1], one for each model that it asks."""
        if len(scores) != self.asked:
            raise Misuse(f"draw {draw.index} takes {self.asked} scores, got {len(scores)}")
        self._record(draw, tuple(self._checked(draw, number, score) for number, score in enumerate(scores)))

    def _checked(self, draw: Draw, number: int, score: Any) -> float | None:  # noqa: ARG002
        return unit_score(score, allowed=f"a number in [0, 1] (item {draw.item})")

    @locked
    def fail(self, draw: Draw) -> None:
        """Note that a draw failed for good: its scores count as unknown, which can only hold claims back."""
        self._record(draw, (None,) * self.asked)

    def _record(self, draw: Draw, scores: Scored) -> None:
        index = draw.index
        if not 0 <= index < len(self._draws) or self._draws[index] != draw:
            raise Misuse(f"draw {index} (item {draw.item}) was not asked by this session")
        if self._told[index] is not None:
            raise Misuse(f"draw {index} (item {draw.item}) was told already")
        with self._changing():
            self._hear(draw, scores)
            self._told[index] = scores
            self._consume()

    def _hear(self, draw: Draw, scores: Scored) -> None:  # noqa: B027
        """Take scores as they arrive; only what does not depend on their order may come of it."""

    def _consume(self) -> None:
        """Observe in draw order up to the first gap, or up to the end of the session."""
        while (
            not self.done
            and self.n_evaluated < len(self._draws)
            and (scores := self._told[self.n_evaluated]) is not None
        ):
            self._observe(self.n_evaluated)
            self.failures += None in scores
            self.n_evaluated += 1
            self._check_stop()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Change the session; after an error in the middle nothing that it says could be trusted."""
        try:
            yield
        except BaseException as error:
            self._broken = error
            raise

    def _scores(self, index: int) -> Scored:
        scores = self._told[index]
        assert scores is not None
        return scores

    def _check_stop(self) -> None:
        self.stopped = self._state()

    def _frame(self) -> dict[str, Any]:
        return {
            "confidence": self.confidence,
            "n_evaluated": self.n_evaluated,
            "n_items": self.n_items,
            "saved": 1 - self.n_evaluated / self.n_items,
            "stopped": self.stopped,
            "target": self.target,
            "seed": self.seed,
            "failures": self.failures,
            "goal": self._goal.spec(),
            "models": self.models,
            "scorer": self.scorer,
        }

    def _repr_html_(self) -> str:
        return self.result()._repr_html_()

    # -- what a runner needs ----------------------------------------------------------------------------------

    @property
    def goal(self) -> Any:
        return self._goal

    @property
    def done(self) -> bool:
        return self.stopped != "running"

    @property
    @locked
    def outstanding(self) -> tuple[Draw, ...]:
        return tuple(draw for draw, told in zip(self._draws, self._told, strict=True) if told is None)

    @property
    def n_drawn(self) -> int:
        return len(self._draws)

    @property
    def calls(self) -> int:
        return self.n_evaluated * self.asked

    @property
    @locked
    def log(self) -> tuple[tuple[Draw, Scored], ...]:
        return tuple((self._draws[index], self._scores(index)) for index in range(self.n_evaluated))

    def step(self) -> Step | None:
        """Return the interval now, on the scale that people are shown; None where there is no single one."""
        return None

    def standing(self) -> str:
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

    @locked
    def change(self, goal: Mapping[str, Any], budget: int | None) -> None:
        """Set a new goal or a new budget; most questions keep their goal."""
        found, most = self._new_goal(goal), None if budget is None else whole("budget", budget, 1)
        with self._changing():
            self._goal, self.budget, self.horizon = found, most, None
            self.changes.append(Change(self.n_evaluated, len(self._draws), found.spec(), most))
            self._rebudget()
            self._check_stop()
            self._consume()

    def _new_goal(self, spec: Mapping[str, Any]) -> Any:
        if dict(spec) != self._goal.spec():
            raise Misuse("this question keeps its goal: start a new run for another")
        return self._goal

    @locked
    def foresee(self, calls: int | None) -> None:
        """Have bets on the draws to come work towards so many results in all; None: towards the goal alone again.

        Unlike a budget it ends nothing: it says what money and time are expected to buy. Bets are predictable
        whatever it is, as long as it does not depend on draws that are still to be decided.
        """
        self.horizon = None if calls is None else whole("horizon", calls, 1)
        with self._changing():
            spec, drawn = self._goal.spec(), len(self._draws)
            self.changes.append(Change(self.n_evaluated, drawn, spec, self.budget, self.horizon or 0))
            self._rebudget()

    @locked
    def open_round(self, draws: int) -> None:
        """Have the next draws go out together, so many of them, where forecasts would hold them back.

        Valid whatever the number is, as long as it does not depend on draws that are still to be decided.
        """
        with self._changing():
            spec, drawn = self._goal.spec(), len(self._draws)
            self.changes.append(
                Change(self.n_evaluated, drawn, spec, self.budget, round=whole("round", draws, 1))
            )
            self._open_round(draws)

    def _open_round(self, draws: int) -> None:  # noqa: B027
        """Decide so many draws without waiting for results in between."""

    @property
    def soonest(self) -> int | None:
        """Return the results after which the session is expected to end, by its budget or by what is foreseen."""
        return min((end for end in (self.budget, self.horizon) if end is not None), default=None)

    def _rebudget(self) -> None:  # noqa: B027
        """Have bets work towards `soonest` from the next draw on."""


class MethodSession(AskTell):
    """Ask on behalf of one method. Obligation of subclasses: `_begin` at the end of their constructors."""

    method: Method

    def _begin(self, method: Method, limit: int | None) -> None:
        """Take the method, and how many items there are to ask; None where an item may come again."""
        self.method, self._limit = method, limit
        self._asks = tuple(range(self.asked))
        self._check_stop()

    def follow(self, log: Mapping[int, Draw], *, check: bool = False) -> None:
        self.method.follow(first_of(log), check=check)

    def _next_draw(self) -> Draw | None:
        draw = self.method.next_draw()
        if draw is None or len(self._asks) == 1:
            return draw
        return Draw(draw.index, draw.item, draw.probability, self._asks)

    def within_budget(self, draw: Draw) -> bool:
        return self.budget is None or draw.index < self.budget

    def _observe(self, index: int) -> None:
        self.method.observe(self._draws[index], *self._bounds(index))

    def _bounds(self, index: int) -> tuple[float, float]:
        (score,) = self._scores(index)
        return (0.0, 1.0) if score is None else (score, score)

    def _state(self) -> Stopped:
        if self.method.contradiction:
            return "contradiction"
        spent = self._limit is not None and self.n_evaluated >= self._limit
        if self._goal.reached(self.method) and (spent or not self.method.asks_all):
            return "goal"
        if spent:
            return "goal" if self.method.asks_all and not self._goal.decides else "exhausted"
        if self.budget is not None and self.n_evaluated >= self.budget:
            return "budget"
        return "running"

    def _aim(self, budget: int | None) -> Aim:
        found: Aim = self._goal.aim(budget)
        return found

    def _open_round(self, draws: int) -> None:
        self.method.open_round(draws)

    def _rebudget(self) -> None:
        self.method.aim_at(self._aim(self.soonest), drawn=len(self._draws))

    def _frame(self) -> dict[str, Any]:
        method = self.method
        own = {"method": method.name, "guarantee": method.guarantee, "notes": (*self.remarks, *self._notes())}
        return super()._frame() | own

    def _notes(self) -> tuple[str, ...]:
        return (*([rejection(self.confidence)] if self.method.contradiction else []), *self.method.notes)

    @property
    @locked
    def interval(self) -> Interval:
        """Return what is certified now; every interval ever shown is covered by the same confidence (for `anytime`
        methods).
        """
        return self.method.interval

    @property
    @locked
    def estimate(self) -> float:
        return self.method.estimate

    def step(self) -> Step | None:
        interval = self.interval
        return Step(self.n_evaluated, self.estimate, interval.lower, interval.upper)


def first_of(log: Mapping[int, Draw]) -> list[Draw]:
    """Return the draws of a log from number 0 on, up to the first that is missing.

    >>> first_of({0: Draw(0, 7, 0.1), 2: Draw(2, 5, 0.1)})
    [Draw(index=0, item=7, probability=0.1, models=(0,))]
    """
    return [log[number] for number in takewhile(log.__contains__, count())]


def rejection(confidence: float) -> str:
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
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInput(field, f"a whole number >= {least}", value)
    return int(value)


def pool_size(value: object, models: int = 1) -> int:
    size = whole("n_items", value, 1)
    if size * models > MOST_ITEMS:
        each = f" for {models:,} models" if models > 1 else ""
        raise InvalidInput("n_items", f"at most {MOST_ITEMS // models:,}{each}", value)
    return size


def embedded(texts: Sequence[str], n_items: int) -> ArrayLike:
    from cereval.forecasts.embeddings import text_features

    if len(texts) != n_items:
        raise InvalidInput("texts", f"one text for each of the {n_items} items", f"{len(texts)} texts")
    found: ArrayLike = text_features(texts)
    return found


def half_width(interval: Interval, eps: float | None) -> float:
    """Return half the width of an interval; a goal that was met is not shown as missed by rounding."""
    found = interval.half_width
    return min(found, eps) if eps is not None and within(found, eps) else found


def unit_score(value: object, field: str = "score", allowed: str = "a number in [0, 1]") -> float:
    """Return a score as a float: any real number, bool or single-element array scalar in [0, 1].

    >>> unit_score(True), unit_score(0.25)
    (1.0, 0.25)
    """
    plain: Any = value
    if type(value) is not float and getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        plain = plain.item()
    if not isinstance(plain, numbers.Real) or not 0 <= plain <= 1:  # type: ignore[operator]
        raise InvalidInput(field, allowed, value)
    return float(plain)


def tell(session: AskTell, draw: Draw, scores: Scored) -> None:
    if all(score is None for score in scores):
        session.fail(draw)
    else:
        session.tell(draw, *scores)
