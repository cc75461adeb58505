"""Decide which of two models is better, from as few items as a certified answer takes: `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cereval.errors import InvalidInput
from cereval.forecasts.pool import Pool
from cereval.forecasts.predictors import PairPredictor
from cereval.methods.active import Active
from cereval.methods.base import Setting
from cereval.methods.certified import CertifiedMethod
from cereval.methods.uniform import Uniform
from cereval.pictures import Part
from cereval.questions.compare.goal import CompareGoal, Difference, NotWorse, Sign
from cereval.questions.goals import checked_confidence
from cereval.questions.mean.session import embedded
from cereval.questions.replay import check_same_order, checked_scores, drive, kept_rows, kept_texts
from cereval.questions.session import MethodSession, rejection, unit_score, whole
from cereval.records import PASSED, Certified, Draw, Rows, Scored, Step
from cereval.records import UNDECIDED as UNDECIDED_CODE
from cereval.text import signed_interval, signed_plus_minus
from cereval.version import ENGINE

Floats = NDArray[np.float64]
UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(Certified):
    """Hold what is certified of the difference D = mean of the first - mean of the second, over all items.

    decision: first | second | no-difference | undecided; not-worse | worse | undecided for `NotWorse`. D lies in
    [lower, upper], and the decision holds, with the stated confidence, all at once. n_evaluated: items that
    both models answered. failures: items on which a call failed.
    """

    difference: float
    lower: float
    upper: float

    @property
    def estimate(self) -> float:
        """Return the estimated difference."""
        return self.difference

    def parts(self) -> list[Part]:
        name = " - ".join(self.models) or "difference"
        return [Part(name, self.difference, self.lower, self.upper)]

    def answer(self) -> str:
        """Find which is better, by how much, or whether the first is not worse."""
        (first, second), goal = self.models or ("first", "second"), self.goal.get("goal", "sign")
        if goal == "difference":
            size = signed_plus_minus(self.difference, self.lower, self.upper)
            sign = {"first": f", {first} is better", "second": f", {second} is better"}.get(
                str(self.decision), ""
            )
            return f"{first} minus {second}: {size}{sign}"
        if goal == "not-worse":
            said = {"not-worse": "certified", "worse": "refuted"}.get(str(self.decision), "undecided")
            by = f" by more than {self.goal['eps'] * 100:g} points" if self.goal["eps"] else ""
            return f"{first} is not worse than {second}{by}: {said}"
        if self.decision in ("first", "second"):
            better, other = (first, second) if self.decision == "first" else (second, first)
            return f"{better} is better than {other}"
        if self.decision == "no-difference":
            return f"{first} and {second} differ by no more than {self.goal.get('tie', 0.02) * 100:g} points"
        return f"{first} against {second}: undecided"

    @property
    def exit_code(self) -> int:
        """Return 0 decided or goal reached, 2 certified worse, 3 undecided; a regression check passes by its answer
        alone.
        """
        if self.goal.get("goal") == "not-worse" and self.decision != "worse":
            return PASSED if self.decision == "not-worse" else UNDECIDED_CODE
        return super(Comparison, self).exit_code

    def asked(self) -> str:
        """Return how many items both models answered, and what that saved."""
        return f"{self.n_evaluated:,} of {self.n_items:,} items put to both{self.saving()}"

    def rows(self) -> Rows:
        """Return the difference, its interval, and what they rest on."""
        named = list(zip(("first", "second"), self.models, strict=False))
        return [
            *named,
            ("difference", f"{self.difference:+.2%}, in {signed_interval(self.lower, self.upper)}"),
            ("method", f"{self.method}, guarantee {self.guarantee}, seed {self.seed}"),
        ]


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

    Draws go where the two are expected to disagree, from a forecast of each model; forecasts may be wrong at the
    price of calls alone. A failed call leaves a score anywhere in [0, 1], which can only widen the interval.

    >>> session = CompareSession(2000, seed=1)
    >>> while not session.done:
    ...     for draw in session.ask(8):
    ...         session.tell(draw, float(draw.item % 4 > 0), float(draw.item % 2))
    >>> session.result().decision
    'first'
    """

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
        budget: int | None = None,
        seed: int | None = None,
        models: tuple[str, ...] = (),
    ) -> None:
        self.models = tuple(models)
        self._goal = _checked_goal(Sign() if goal is None else goal)
        self.confidence = checked_confidence(confidence)
        self.target = "benchmark" if weights is None else "weighted"
        self._take_seed(seed)
        self.n_items = whole("n_items", n_items, 1)
        budget = None if budget is None else whole("budget", budget, 1)
        if texts is not None and embeddings is None:
            embeddings = embedded(texts, self.n_items)
        self.weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        self.pool = Pool.build(
            self.n_items, weights=weights, embeddings=embeddings, groups=groups, history=history
        )
        aim = self.goal.aim(budget)
        setting = Setting(self.pool, "benchmark", 1 - self.confidence, self.seed, aim)
        self._predictor = PairPredictor(self.pool) if self.pool.has_side_information else None
        self.budgets: tuple[tuple[int, int | None], ...] = ((0, budget),)
        """The budgets so far, each with the number of draws that were decided before it."""
        method: CertifiedMethod = (
            Uniform(setting) if self._predictor is None else Active(setting, predictor=self._predictor)
        )
        super().__init__(method, int(np.count_nonzero(self.pool.shares() > 0)), budget, models=2)

    @property
    def goal(self) -> CompareGoal:
        """Return what was asked; a comparison keeps it."""
        return self._goal

    def _checked(self, draw: Draw, number: int, score: Any) -> float | None:
        if score is None:
            return None
        which = ("first", "second")[number]
        return unit_score(score, f"score of the {which} model", f"in [0, 1], or None (item {draw.item})")

    def _record(self, draw: Draw, scores: Scored) -> None:
        first, second = scores
        fresh = 0 <= draw.index < len(self._draws) and not self._has_told[draw.index]
        if fresh and self._predictor is not None and first is not None and second is not None:
            # Heard now, looked at in draw order: fits use the results of earlier draws alone.
            self._predictor.tell(draw.item, first, second)
        super()._record(draw, scores)

    def _bounds(self, index: int) -> tuple[float, float]:
        """Return where y lies: a failed call has a score anywhere in [0, 1]."""
        (low, high), (low2, high2) = (
            (0.0, 1.0) if score is None else (score, score) for score in self._scores(index)
        )
        return (1 + low - high2) / 2, (1 + high - low2) / 2

    def _rebudget(self) -> None:
        self.budgets = (*self.budgets, (len(self._draws), self.soonest))
        self._method.aim_at(self.goal.aim(self.soonest), drawn=len(self._draws))

    def _goal_reached(self) -> bool:
        return bool(self.goal.reached(self._method))

    @property
    def engine(self) -> CertifiedMethod:
        """Return the method, which is certified: it sees y alone."""
        assert isinstance(self._method, CertifiedMethod)
        return self._method

    def settings(self) -> dict[str, Any]:
        """Return everything but the side information that decides draws and answers, JSON-able."""
        return {
            "n_items": self.n_items,
            "goal": self.goal.spec(),
            "confidence": self.confidence,
            "budget": self.budgets[0][1],
            "seed": self.seed,
            "side_information": self.pool.fingerprint(),
            "engine": ENGINE,
        }

    def result(self) -> Comparison:
        """Return the state of the certificate now, whether or not the session has ended."""
        interval, method = self.interval, self._method
        return Comparison(
            decision=self.goal.decision(method) or UNDECIDED,
            difference=2 * self.estimate - 1,
            lower=2 * interval.lower - 1,
            upper=2 * interval.upper - 1,
            confidence=self.confidence,
            n_evaluated=self._consumed,
            n_items=self.n_items,
            saved=1 - self._consumed / self.n_items,
            stopped=self._stopped,
            method=method.name,
            guarantee=method.guarantee,
            target=self.target,
            seed=self.seed,
            failures=self._failures,
            notes=self._notes(),
            goal=self.goal.spec(),
            models=self.models,
        )

    def step(self) -> Step | None:
        interval = self.interval
        return Step(self.n_evaluated, *(2 * y - 1 for y in (self.estimate, interval.lower, interval.upper)))

    def _notes(self) -> tuple[str, ...]:
        notes = self._predictor.notes if self._predictor is not None else ()
        if not self._method.contradiction:
            return notes
        return (rejection(self.confidence), *notes)


def replay_comparison(
    scores_a: ArrayLike,
    scores_b: ArrayLike,
    *,
    goal: CompareGoal | None = None,
    confidence: float = 0.95,
    texts: Sequence[str] | None = None,
    embeddings: ArrayLike | None = None,
    history: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    batch: int = 1,
    budget: int | None = None,
    seed: int | None = None,
    models: tuple[str, ...] = (),
) -> Comparison:
    """Compare two models on recorded scores of the same items; an item that either lacks (NaN) is left out.

    goal: `Sign(tie=0.02)` (the default), `Difference(eps)` or `NotWorse(eps)`. history: items x past models, neither
    of the two among them. `batch` draws are in flight at a time; the result does not depend on it.

    >>> better, worse = [1, 1, 1, 0] * 500, [1, 0, 1, 0] * 500
    >>> answer = replay_comparison(better, worse)
    >>> answer.decision, answer.lower >= 0, answer.n_evaluated < 100
    ('first', True, True)
    """
    first, second = checked_scores(scores_a), checked_scores(scores_b)
    if len(first) != len(second):
        raise InvalidInput(
            "scores_b", f"scores of the same {len(first)} items as scores_a", f"{len(second)} scores"
        )
    check_same_order("scores_b", scores_b, scores_a)
    kept = np.flatnonzero(~np.isnan(first) & ~np.isnan(second))
    if not len(kept):
        raise InvalidInput("scores", "at least one item that both models have a score for", "none")
    side = {"embeddings": embeddings, "history": history, "weights": weights, "groups": groups}
    rows = {name: kept_rows(name, values, len(first), kept, scores_a) for name, values in side.items()}
    session = CompareSession(
        len(kept),
        goal=goal,
        confidence=confidence,
        texts=kept_texts(texts, len(first), kept, scores_a),
        budget=budget,
        seed=seed,
        models=models,
        **rows,
    )
    comparison: Comparison = drive(session, np.column_stack((first[kept], second[kept])), batch)
    return comparison


def _checked_goal(goal: object) -> CompareGoal:
    if not isinstance(goal, Sign | Difference | NotWorse):
        raise InvalidInput("goal", "Sign(tie), Difference(eps) or NotWorse(eps)", goal)
    return goal
