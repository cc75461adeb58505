"""Ask which items to evaluate, tell their scores, read the certified interval at any time: `Session`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from cereval.errors import InvalidInput, Misuse
from cereval.forecasts.pool import Pool
from cereval.methods.base import Setting, Target
from cereval.methods.registry import MOST_FORECAST, build_method
from cereval.questions.goals import Goal, checked_goal, goal_from_spec
from cereval.questions.mean.goal import Estimate, Finest, Threshold
from cereval.questions.session import MethodSession, embedded, half_width, locked
from cereval.records import Result
from cereval.stats.weights import Shift, shift_of

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

    goals = (Estimate, Finest, Threshold)

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
        models: Sequence[str] = (),
    ) -> None:
        super().__init__(n_items, goal, confidence=confidence, budget=budget, seed=seed, models=models)
        self.target = _checked_target(target, weights)
        if texts is not None and embeddings is None:
            embeddings = embedded(texts, self.n_items)
        pool = self.pool = Pool.build(
            self.n_items, weights=weights, embeddings=embeddings, groups=groups, history=history
        )
        kind = cast(Target, "benchmark" if self.target == "weighted" else self.target)
        setting = Setting(pool, kind, 1 - self.confidence, self.seed, self._aim(self.budget))
        self._asked_method = method
        self._shift: Shift | None = None
        limit = None if kind == "expected" else int(np.count_nonzero(pool.shares() > 0))
        self._begin(build_method(method, setting, options or {}), limit)

    @property
    def goal(self) -> Goal:
        return cast(Goal, self._goal)

    @goal.setter
    def goal(self, goal: Goal) -> None:
        """Set a new goal at any time; results already told then count towards it."""
        self.change(checked_goal(goal, self.goals).spec(), self.budget)

    def _new_goal(self, spec: Mapping[str, Any]) -> Goal:
        goal: Goal = goal_from_spec(spec, self.goals)
        if isinstance(self._goal, Threshold) and self.stopped == "goal" and goal != self._goal:
            raise Misuse(
                "the threshold was decided with the whole error budget: start a new session for a new goal"
            )
        return goal

    @locked
    def result(self) -> Result:
        interval = self.interval
        # Items of weight 0 are never asked: not asking them saves nothing.
        counted = self._limit or self.n_items
        return Result(
            **self._frame() | {"n_items": counted, "saved": 1 - self.n_evaluated / counted},
            estimate=self.estimate,
            lower=interval.lower,
            upper=interval.upper,
            half_width=half_width(interval, getattr(self._goal, "eps", None)),
            decision=self._goal.decision(self.method),
        )

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"method": self._asked_method, "target": self.target}

    @property
    def shift(self) -> Shift | None:
        if self.pool.weights is None:
            return None
        eps = getattr(self._goal, "eps", Estimate().eps)
        if self._shift is None or self._shift.eps != eps:
            self._shift = shift_of(self.pool.weights, eps, 1 - self.confidence)
        return self._shift

    def _notes(self) -> tuple[str, ...]:
        notes = [*super()._notes()]
        large = self._asked_method == "auto" and self.n_items > MOST_FORECAST and self.target != "population"
        if large and self.pool.has_side_information:
            notes.append(
                f"more than {MOST_FORECAST:,} items: what is known of them was not used (method active uses it)"
            )
        shift = self.shift
        if shift is None:
            return tuple(notes)
        # Draws with replacement never run out of heavy items: there the forecast of calls does not apply.
        warning = shift.warning if self.target == "weighted" else None
        return (shift.note, *([] if warning is None else [warning]), *notes)


def known_target(target: str) -> str:
    if target not in TARGETS:
        raise InvalidInput("target", "one of " + ", ".join(TARGETS), target)
    return target


def _checked_target(target: str, weights: ArrayLike | None) -> str:
    if known_target(target) == "weighted" and weights is None:
        raise InvalidInput("weights", "given for the target weighted", None)
    if target == "population" and weights is not None:
        raise InvalidInput("weights", "left out for the target population", "weights")
    return "weighted" if target == "benchmark" and weights is not None else target
