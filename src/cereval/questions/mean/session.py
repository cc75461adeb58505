"""Ask which items to evaluate, tell their scores, read the certified interval at any time: `Session`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from cereval.errors import InvalidInput, LogMismatch, Misuse
from cereval.forecasts.pool import Pool
from cereval.methods.base import Setting, Target
from cereval.methods.registry import MOST_FORECAST, build_method
from cereval.questions.goals import Goal, checked_confidence, goal_from_spec
from cereval.questions.mean.goal import Estimate, Threshold
from cereval.questions.session import MethodSession, check_engine, rejection, unit_score, whole
from cereval.records import Draw, Result
from cereval.stats.rounding import within
from cereval.stats.weights import Shift, shift_of
from cereval.version import ENGINE

STATE_FORMAT = 1
TARGETS = ("benchmark", "population", "expected", "weighted")


class Session(MethodSession):
    """Evaluate one model by ask and tell on `n_items` items.

    >>> session = Session(1000, goal=Estimate(0.1), seed=1)
    >>> while not session.done:
    ...     for draw in session.ask(8):
    ...         session.tell(draw, float(draw.item % 4 > 0))
    >>> result = session.result()
    >>> result.stopped, result.lower <= 0.75 <= result.upper, result.half_width <= 0.1
    ('goal', True, True)
    """

    def __init__(
        self,
        n_items: int,
        *,
        goal: Goal | None = None,
        confidence: float = 0.95,
        method: str = "auto",
        target: str = "benchmark",
        texts: Sequence[str] | None = None,
        embeddings: ArrayLike | None = None,
        history: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        budget: int | None = None,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Open a session; the keywords are those of `evaluate`."""
        goal = _checked_goal(Estimate() if goal is None else goal)
        self.confidence = checked_confidence(confidence)
        self.target = _checked_target(target, weights)
        self._take_seed(seed)
        self.n_items = whole("n_items", n_items, 1)
        self.budget = None if budget is None else whole("budget", budget, 1)
        source = texts if embeddings is None else None
        if source is not None:
            embeddings = embedded(source, self.n_items)
        pool = self.pool = Pool.build(
            self.n_items, weights=weights, embeddings=embeddings, groups=groups, history=history
        )
        kind = cast(Target, "benchmark" if self.target == "weighted" else self.target)
        aim = goal.aim(self.budget)
        setting = Setting(pool, kind, 1 - self.confidence, self.seed, aim)
        self._asked_method, self._options = method, dict(options or {})
        self._fingerprint, self._weights = pool.fingerprint(source), pool.weights
        self._shift: Shift | None = None
        self._goals: list[tuple[int, int, dict[str, Any]]] = [(0, 0, goal.spec())]
        limit = None if kind == "expected" else int(np.count_nonzero(pool.shares() > 0))
        self._goal = goal
        super().__init__(build_method(method, setting, self._options), limit, self.budget)

    def _goal_reached(self) -> bool:
        return self._goal.reached(self._method)

    @property
    def goal(self) -> Goal:
        return self._goal

    @goal.setter
    def goal(self, goal: Goal) -> None:
        """Set a new goal at any time; results already told then count towards it."""
        goal = _checked_goal(goal)
        if isinstance(self._goal, Threshold) and self._stopped == "goal" and goal != self._goal:
            raise Misuse(
                "the threshold was decided with the whole error budget: start a new session for a new goal"
            )
        self._goals.append((self._consumed, len(self._draws), goal.spec()))
        self._goal = goal
        self._rebudget()
        self._check_stop()
        self._consume()

    def _rebudget(self) -> None:
        self._method.aim_at(self._goal.aim(self.soonest), drawn=len(self._draws))

    def result(self) -> Result:
        """Return the state of the certificate now, whether or not the session has ended."""
        interval, method = self.interval, self._method
        # Items of weight 0 are never asked: not asking them saves nothing.
        counted = self._limit or self.n_items
        return Result(
            estimate=self.estimate,
            lower=interval.lower,
            upper=interval.upper,
            half_width=self._half_width(),
            confidence=self.confidence,
            n_evaluated=self._consumed,
            n_items=counted,
            saved=1 - self._consumed / counted,
            stopped=self._stopped,
            method=method.name,
            guarantee=method.guarantee,
            target=self.target,
            seed=self.seed,
            failures=self._failures,
            decision=self._goal.decision(method),
            notes=self._notes(),
            goal=self._goal.spec(),
            models=self.models,
        )

    def settings(self) -> dict[str, Any]:
        return {
            "n_items": self.n_items,
            "goal": self._goal.spec(),
            "confidence": self.confidence,
            "method": self._asked_method,
            "target": self.target,
            "budget": self.budget,
            "seed": self.seed,
            "engine": ENGINE,
        }

    def change(self, goal: Mapping[str, Any], budget: int | None) -> None:
        """Set a new goal, a new budget, or both."""
        self.budget, self.horizon = budget, None
        self.goal = goal_from_spec(goal)

    def _half_width(self) -> float:
        """Return how far the target may be from the estimate; a goal that was met is not shown as missed by
        rounding."""
        interval = self.interval
        reach = max(self.estimate - interval.lower, interval.upper - self.estimate)
        if isinstance(self._goal, Estimate) and within(interval.half_width, self._goal.eps):
            return min(reach, self._goal.eps)
        return reach

    @property
    def shift(self) -> Shift | None:
        """Return what the weights mean for the goal; None where all items count alike."""
        if self._weights is None:
            return None
        eps = self._goal.eps if isinstance(self._goal, Estimate) else Estimate().eps
        if self._shift is None or self._shift.eps != eps:
            self._shift = shift_of(self._weights, eps, 1 - self.confidence)
        return self._shift

    def _notes(self) -> tuple[str, ...]:
        shift, notes = self.shift, self._method_notes()
        if shift is None:
            return notes
        # Draws with replacement never run out of heavy items: there the forecast of calls does not apply.
        warning = shift.warning if self.target == "weighted" else None
        return (shift.note, *([] if warning is None else [warning]), *notes)

    def _method_notes(self) -> tuple[str, ...]:
        """Return the notes of the method, and what was not used."""
        large = (
            self._asked_method == "auto" and self.n_items > MOST_FORECAST and self.pool.has_side_information
        )
        ignored = (
            f"more than {MOST_FORECAST:,} items: what is known of them was not used (method active uses it)"
        )
        return (*self._plain_notes(), *([ignored] if large and self.target != "population" else []))

    def _plain_notes(self) -> tuple[str, ...]:
        if not self._method.contradiction:
            return self._method.notes
        return (rejection(self.confidence), *self._method.notes)

    # -- save and restore ---------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on elsewhere, JSON-able. Side information is named by its hash, not
        stored."""
        return {
            "format": STATE_FORMAT,
            "n_items": self.n_items,
            "goals": [[consumed, drawn, spec] for consumed, drawn, spec in self._goals],
            "confidence": self.confidence,
            "method": self._asked_method,
            "options": self._options,
            "target": self.target,
            "budget": self.budget,
            "seed": self.seed,
            "engine": ENGINE,
            "side_information": self._fingerprint,
            "draws": [[draw.item, draw.probability] for draw in self._draws],
            "results": [[i, *self._scores(i)] for i, told in enumerate(self._has_told) if told],
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any], **side_information: Any) -> Session:
        """Rebuild the session that a `state()` describes, exactly; pass the same texts, embeddings, history, weights,
        groups.

        Restoring is replaying: the draws are those of the state, on whatever machine, and the results are told again.
        """
        if state.get("format") != STATE_FORMAT:
            raise InvalidInput("state format", str(STATE_FORMAT), state.get("format"))
        check_engine("state", state.get("engine"))
        keys = ("confidence", "method", "target", "budget", "seed", "options")
        session = cls(
            state["n_items"],
            goal=goal_from_spec(state["goals"][0][2]),
            **{key: state[key] for key in keys},
            **side_information,
        )
        if session._fingerprint != state["side_information"]:
            raise InvalidInput("side information", "the arrays that the state was saved with", "other arrays")
        try:
            draws = [(whole("item", item, 0), float(chance)) for item, chance in state["draws"]]
            session.follow({index: Draw(index, *draw) for index, draw in enumerate(draws)})
            _replay_into(session, state)
        except (KeyError, TypeError, LogMismatch) as error:
            raise InvalidInput("state", f"as `state()` wrote it ({error})", "another") from error
        return session


def _replay_into(session: Session, state: Mapping[str, Any]) -> None:
    """Ask and tell again in draw order; every goal comes at the same draw and result as it did."""
    results = {int(index): score for index, score in state["results"]}
    for consumed, drawn, spec in state["goals"][1:]:
        _retell(session, results, range(session.n_evaluated, int(consumed)))
        _redraw(session, int(drawn))
        session.goal = goal_from_spec(spec)
    _retell(session, results, range(session.n_evaluated, len(state["draws"])))
    _redraw(session, len(state["draws"]))


def _retell(session: Session, results: Mapping[int, float | None], indices: range) -> None:
    for index in indices:
        _redraw(session, index + 1)
        if index in results:
            score = results[index]
            session._record(session._draws[index], (None if score is None else unit_score(score),))


def _redraw(session: Session, drawn: int) -> None:
    """Draw again, also those that were in flight when the session ended."""
    while len(session._draws) < drawn:
        draw = session._method.next_draw()
        if draw is None:
            raise InvalidInput("state", "as many draws as its results allow", f"{drawn} draws")
        session._note([draw])


def _checked_goal(goal: object) -> Goal:
    if not isinstance(goal, Estimate | Threshold):
        raise InvalidInput("goal", "Estimate(eps) or Threshold(value)", goal)
    return goal


def known_target(target: str) -> str:
    """Return the target, if it is one."""
    if target not in TARGETS:
        raise InvalidInput("target", "one of " + ", ".join(TARGETS), target)
    return target


def _checked_target(target: str, weights: ArrayLike | None) -> str:
    if known_target(target) == "weighted" and weights is None:
        raise InvalidInput("weights", "given for the target weighted", None)
    if target == "population" and weights is not None:
        raise InvalidInput("weights", "left out for the target population", "weights")
    return "weighted" if target == "benchmark" and weights is not None else target


def embedded(texts: Sequence[str], n_items: int) -> ArrayLike:
    """Return the texts of the items as features."""
    from cereval.forecasts.embeddings import text_features

    if len(texts) != n_items:
        raise InvalidInput("texts", f"one text for each of the {n_items} items", f"{len(texts)} texts")
    return cast(ArrayLike, text_features(texts))
