"""Decide which of two models is better, from as few items as a certified answer takes: `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike

from cereval.errors import InvalidInput
from cereval.forecasts.memory import remembering_pair
from cereval.forecasts.pool import Pool
from cereval.forecasts.predictors import PairPredictor
from cereval.forms import Signed
from cereval.methods.active import Active
from cereval.methods.base import Setting, Target
from cereval.methods.certified import CertifiedMethod
from cereval.methods.memory import Memory
from cereval.methods.registry import MOST_FORECAST
from cereval.methods.uniform import Uniform, Whole
from cereval.questions.compare.goal import CompareGoal, Difference, NotWorse, Sign
from cereval.questions.session import MethodSession, embedded, locked, rejection, unit_score
from cereval.records import PASSED, Certified, Draw, Part, Rows, Step
from cereval.records import UNDECIDED as UNDECIDED_CODE
from cereval.text import points, points_ahead, signed_interval

UNDECIDED: Literal["undecided"] = "undecided"
TARGETS = ("benchmark", "population", "expected")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(Certified):
    """Hold what is certified of the difference D = mean of the first - mean of the second, over all items.

    decision: first | second | no-difference | undecided; not-worse | worse | undecided for `NotWorse`. D lies in
    [lower, upper], and the decision holds, with the stated confidence, all at once. n_evaluated: items that
    both models answered. failures: items on which a call failed.
    """

    difference: Annotated[float, Meta(ge=-1, le=1, description="Mean of the first minus mean of the second.")]
    lower: Signed
    upper: Signed
    decision: Literal["first", "second", "no-difference", "not-worse", "worse", "undecided"] = "undecided"

    @property
    def estimate(self) -> float:
        return self.difference

    def parts(self) -> list[Part]:
        name = " - ".join(self.models) or "difference"
        return [Part(name, self.difference, self.lower, self.upper)]

    def answer(self) -> str:
        (first, second), goal = self.models or ("first", "second"), self.goal.get("goal", "sign")
        size = points(self.difference, self.lower, self.upper)
        if goal == "not-worse":
            verdict = {"not-worse": "certified", "worse": "refuted"}.get(str(self.decision), "undecided")
            by = f" by more than {_in_points(self.goal['eps'])}" if self.goal["eps"] else ""
            return f"{first} is not worse than {second}{by}: {verdict}, {size}"
        if goal == "difference" or self.decision == "undecided":
            sign = {"first": f", {first} is better", "second": f", {second} is better"}.get(self.decision, "")
            undecided = "" if goal == "difference" else ", undecided which is better"
            return f"{first} minus {second}: {size}{sign}{undecided}"
        if self.decision == "no-difference":
            most = _in_points(self.goal.get("tie", 0.02))
            return f"{first} and {second} differ by no more than {most}: {size}"
        better, other, ahead = first, second, (self.difference, self.lower, self.upper)
        if self.decision == "second":
            better, other, ahead = second, first, (-self.difference, -self.upper, -self.lower)
        return f"{better} is better than {other} by {points_ahead(*ahead)}"

    @property
    def exit_code(self) -> int:
        """Return 0 decided or goal reached, 2 certified worse, 3 undecided; a regression check passes by its answer
        alone.
        """
        if self.goal.get("goal") == "not-worse" and self.decision != "worse":
            return PASSED if self.decision == "not-worse" else UNDECIDED_CODE
        return super(Comparison, self).exit_code

    def asked(self) -> str:
        if self.target == "expected":
            return f"{self.n_evaluated:,} fresh answers of each to {self.n_items:,} questions"
        return f"{self.n_evaluated:,} of {self.n_items:,} questions put to both"

    def rows(self) -> Rows:
        named = list(zip(("first", "second"), self.models, strict=False))
        return [
            *named,
            ("first minus second", f"{self.difference:+.2%}, in {signed_interval(self.lower, self.upper)}"),
            ("method", f"{self.method}, guarantee {self.guarantee}, seed {self.seed}"),
        ]


def _in_points(share: float) -> str:
    return f"{share * 100:g} point{'' if share == 0.01 else 's'}"


class CompareSession(MethodSession):
    """Ask/tell comparison of two models on the same items: one draw is one item, answered by both.

    Theorem. D = z_first - z_second lies in [-1, 1], so y = (1 + D)/2 is a score in [0, 1] and everything that holds
    for the mean of a score holds for the mean of y: with probability at least the confidence, every interval
    ever shown contains the difference of the means (`methods.certified`). "first" is said when the interval has
    no value <= 0 left, "second" when none >= 0, "no-difference" when all are within the tie, "not-worse" when none is
    under -eps; an end that the bets set is itself excluded. So all of it holds at 1 - delta together, whenever one
    stops, also for models that are exactly equal. Nearly all of delta goes against the values that the answer waits for
    (`stats.interval`, sides of a mark); so the question that was asked first is kept.
    Assumption: each model's score on an item does not depend on when it is asked.

    With the target `expected` every draw is an item and a fresh answer of each model to it: the two means are those of
    fresh answers, also for models that never answer the same twice (`methods.memory`). Assumption: how a model answers
    does not depend on how often it was asked.

    Draws go where the two are expected to disagree, from a forecast of each model; forecasts may be wrong at the
    price of calls alone. A failed call leaves a score anywhere in [0, 1], which can only widen the interval.

    >>> session = CompareSession(2000, seed=1)
    >>> while not session.done:
    ...     for draw in session.ask(8):
    ...         session.tell(draw, float(draw.item % 4 > 0), float(draw.item % 2))
    >>> session.result().decision
    'first'
    """

    goals = (Sign, Difference, NotWorse)
    method: CertifiedMethod

    def __init__(
        self,
        n_items: int,
        *,
        goal: CompareGoal | None = None,
        confidence: float = 0.95,
        texts: Sequence[str] | None = None,
        embeddings: ArrayLike | None = None,
        history: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        method: str = "auto",
        target: str = "benchmark",
        budget: int | None = None,
        seed: int | None = None,
        models: Sequence[str] = (),
    ) -> None:
        """Open a session; method: auto, or `all` to ask every item. target: benchmark, population, of which the items
        are a sample, or expected: the models' own randomness too."""
        asked: dict[str, Any] = {"confidence": confidence, "budget": budget, "seed": seed}
        super().__init__(n_items, goal, **asked, models=models, asked=2)
        self._asked_method = _checked_method(method, target, weights)
        self.target = "weighted" if target == "benchmark" and weights is not None else target
        if texts is not None and embeddings is None:
            embeddings = embedded(texts, self.n_items)
        self.weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        self.pool = Pool.build(
            self.n_items, weights=weights, embeddings=embeddings, groups=groups, history=history
        )
        again = target == "expected"
        # A sample of a population is drawn as if its items had never been seen.
        kind: Target = "expected" if again else "population" if target == "population" else "benchmark"
        setting = Setting(self.pool, kind, 1 - self.confidence, self.seed, self._aim(self.budget))
        self._predictor: PairPredictor | None = None
        found: CertifiedMethod
        if again and 1 < self.n_items <= MOST_FORECAST:
            self._predictor = remembering_pair(self.pool)
            found = Memory(setting, predictor=self._predictor)
        elif kind == "benchmark" and method == "auto" and self.pool.has_side_information:
            self._predictor = PairPredictor(self.pool)
            found = Active(setting, predictor=self._predictor)
        else:
            found = (Whole if method == Whole.name else Uniform)(setting)
        self._begin(found, None if again else int(np.count_nonzero(self.pool.shares() > 0)))

    def _checked(self, draw: Draw, number: int, score: Any) -> float | None:
        if score is None:
            return None
        which = ("first", "second")[number]
        return unit_score(score, f"score of the {which} model", f"in [0, 1], or None (item {draw.item})")

    def _observe(self, index: int) -> None:
        first, second = self._scores(index)
        if self._predictor is not None and first is not None and second is not None:
            self._predictor.tell(first, second)
        super()._observe(index)

    def _bounds(self, index: int) -> tuple[float, float]:
        (low, high), (low2, high2) = (
            (0.0, 1.0) if score is None else (score, score) for score in self._scores(index)
        )
        return (1 + low - high2) / 2, (1 + high - low2) / 2

    def settings(self) -> dict[str, Any]:
        target = "benchmark" if self.target == "weighted" else self.target
        unusual = {
            name: value
            for name, value, usual in (
                ("method", self._asked_method, "auto"),
                ("target", target, "benchmark"),
            )
            if value != usual
        }
        return super().settings() | {"side_information": self.pool.fingerprint()} | unusual

    @locked
    def result(self) -> Comparison:
        step, decision = self.step(), self._goal.decision(self.method)
        return Comparison(
            **self._frame(),
            decision=decision or UNDECIDED,
            difference=step.estimate,
            lower=step.lower,
            upper=step.upper,
        )

    def step(self) -> Step:
        interval = self.interval
        return Step(self.n_evaluated, *(2 * y - 1 for y in (self.estimate, interval.lower, interval.upper)))

    def _notes(self) -> tuple[str, ...]:
        found = [rejection(self.confidence)] if self.method.contradiction else []
        return (*found, *(self._predictor.notes if self._predictor is not None else ()))


def _checked_method(method: str, target: str, weights: ArrayLike | None) -> str:
    if method not in ("auto", Whole.name):
        raise InvalidInput("method", f"auto, or {Whole.name} to ask every item", method)
    if target not in TARGETS:
        raise InvalidInput("target", "one of " + ", ".join(TARGETS), target)
    if method == Whole.name and target == "expected":
        raise InvalidInput("method", "auto where every answer is fresh", method)
    if target == "population" and weights is not None:
        raise InvalidInput("weights", "left out for the target population", "weights")
    return method
