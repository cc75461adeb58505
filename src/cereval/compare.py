"""`compare`: which of two models is better, from as few items as a certified answer takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cereval.asktell import AskTell, rejection, whole
from cereval.errors import InvalidInput
from cereval.goals.compare import CompareGoal, Difference, NotWorse, Sign
from cereval.goals.estimate import in_open_unit_interval
from cereval.items.pair_predictor import PairPredictor
from cereval.items.pool import Pool
from cereval.ledger import unit_score
from cereval.methods.active import Active
from cereval.methods.base import Setting
from cereval.methods.certified import CertifiedMethod
from cereval.methods.uniform import Uniform
from cereval.records import Draw, Guarantee, Result, Stopped
from cereval.replay import checked_scores
from cereval.session import embedded

Floats = NDArray[np.float64]
UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is certified of the difference D = mean of the first - mean of the second, over all items.

    decision: first | second | no-difference | undecided; not-worse | worse | undecided for `NotWorse`. D lies in
    [lower, upper], and the decision holds, with the stated confidence, all at once. n_evaluated: items that
    both models answered. failures: items on which a call failed.
    """

    decision: str
    difference: float
    lower: float
    upper: float
    confidence: float
    n_evaluated: int
    n_items: int
    saved: float
    stopped: Stopped
    method: str
    guarantee: Guarantee
    target: str
    seed: int
    failures: int = 0
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values, in declaration order."""
        return {**asdict(self), "notes": list(self.notes)}

    @classmethod
    def of(cls, result: Result) -> Comparison:
        """A plain session's result on the scores y = (1 + first - second)/2, as a comparison."""
        same = [
            field.name
            for field in fields(cls)
            if field.name not in ("decision", "difference", "lower", "upper")
        ]
        return cls(
            decision=result.decision or UNDECIDED,
            difference=2 * result.estimate - 1,
            lower=2 * result.lower - 1,
            upper=2 * result.upper - 1,
            **{name: getattr(result, name) for name in same},
        )


class CompareSession(AskTell):
    """Ask/tell comparison of two models on the same items: one draw is one item, answered by both.

    Theorem. D = z_first - z_second lies in [-1, 1], so y = (1 + D)/2 is a score in [0, 1] and everything that holds
    for the mean of a score holds for the mean of y: with probability at least the confidence, every interval
    ever shown contains the difference of the means (`methods.certified`). "first" is said when the interval has
    no value <= 0 left, "second" when none >= 0, "no-difference" when all are within the tie, "not-worse" when none is
    under -eps: none of them can be wrong while the interval is right. So all of it holds at 1 - delta together,
    whenever one stops, also for models that are exactly equal; nothing is split among the answers.
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
        seed: int = 0,
    ) -> None:
        self.goal = _checked_goal(Sign() if goal is None else goal)
        self.confidence = in_open_unit_interval("confidence", confidence)
        self.target = "benchmark" if weights is None else "weighted"
        self.seed = whole("seed", seed, 0)
        self.n_items = whole("n_items", n_items, 1)
        budget = None if budget is None else whole("budget", budget, 1)
        if texts is not None and embeddings is None:
            embeddings = embedded(texts, self.n_items)
        self.weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        self.pool = Pool.build(
            self.n_items, weights=weights, embeddings=embeddings, groups=groups, history=history
        )
        setting = Setting(self.pool, "benchmark", 1 - self.confidence, self.seed, self.goal.aim(budget))
        self._predictor = PairPredictor(self.pool) if self.pool.has_side_information else None
        self._pairs: dict[int, tuple[float | None, float | None]] = {}
        method: CertifiedMethod = (
            Uniform(setting) if self._predictor is None else Active(setting, predictor=self._predictor)
        )
        super().__init__(method, int(np.count_nonzero(self.pool.shares() > 0)), budget)

    def tell(self, draw: Draw, first: float | None, second: float | None) -> None:  # type: ignore[override]
        """The scores of both models on the item of a draw, in [0, 1]; None where the call failed for good."""
        pair = _score("first", first, draw), _score("second", second, draw)
        known = [score for score in pair if score is not None]
        y = (1 + known[0] - known[1]) / 2 if len(known) == 2 else None
        if 0 <= draw.index < len(self._draws) and not self._has_told[draw.index]:
            self._pairs[draw.index] = pair
            if self._predictor is not None and len(known) == 2:
                self._predictor.tell(draw.item, *known)
        self._record(draw, y)

    def fail(self, draw: Draw) -> None:
        """Neither model could answer."""
        self.tell(draw, None, None)

    def _bounds(self, index: int) -> tuple[float, float]:
        """Where y lies: a failed call has a score anywhere in [0, 1]."""
        (low, high), (low2, high2) = (
            (0.0, 1.0) if score is None else (score, score) for score in self._pairs[index]
        )
        return (1 + low - high2) / 2, (1 + high - low2) / 2

    def _goal_reached(self) -> bool:
        return self.goal.reached(self._method)

    @property
    def engine(self) -> CertifiedMethod:
        """The method, which is certified: it sees y alone."""
        assert isinstance(self._method, CertifiedMethod)
        return self._method

    @property
    def log(self) -> tuple[tuple[Draw, float | None, float | None], ...]:
        """The results consumed so far, in draw order: the draw, and the scores of both models."""
        return tuple((self._draws[index], *self._pairs[index]) for index in range(self._consumed))

    def settings(self) -> dict[str, Any]:
        """Everything but the side information that decides draws and answers, JSON-able."""
        return {
            "n_items": self.n_items,
            "goal": self.goal.spec(),
            "confidence": self.confidence,
            "budget": self.budget,
            "seed": self.seed,
            "side_information": self.pool.fingerprint(),
        }

    def result(self) -> Comparison:
        """The state of the certificate now, whether or not the session has ended."""
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
        )

    def _notes(self) -> tuple[str, ...]:
        notes = self._predictor.notes if self._predictor is not None else ()
        if not self._method.contradiction:
            return notes
        return (rejection(self.confidence), *notes)


def compare(
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
    seed: int = 0,
) -> Comparison:
    """Compares two models on recorded scores of the same items; an item that either lacks (NaN) is left out.

    goal: `Sign(tie=0.02)` (the default), `Difference(eps)` or `NotWorse(eps)`. history: items x past models, neither
    of the two among them. `batch` draws are in flight at a time; the result does not depend on it.

    >>> better, worse = [1, 1, 1, 0] * 500, [1, 0, 1, 0] * 500
    >>> answer = compare(better, worse)
    >>> answer.decision, answer.lower >= 0, answer.n_evaluated < 100
    ('first', True, True)
    """
    first, second = checked_scores(scores_a), checked_scores(scores_b)
    if len(first) != len(second):
        raise InvalidInput(
            "scores_b", f"scores of the same {len(first)} items as scores_a", f"{len(second)} scores"
        )
    kept = np.flatnonzero(~np.isnan(first) & ~np.isnan(second))
    if not len(kept):
        raise InvalidInput("scores", "at least one item that both models have a score for", "none")
    side = {"embeddings": embeddings, "history": history, "weights": weights, "groups": groups}
    rows = {name: _kept(name, values, len(first), kept) for name, values in side.items()}
    if texts is not None:
        _check_rows("texts", len(texts), len(first))
        texts = [texts[int(row)] for row in kept]
    session = CompareSession(
        len(kept), goal=goal, confidence=confidence, texts=texts, budget=budget, seed=seed, **rows
    )
    return drive_pair(session, first[kept], second[kept], batch)


def drive_pair(session: CompareSession, first: Floats, second: Floats, batch: int = 1) -> Comparison:
    """Answers a session's questions from recorded scores until it ends."""
    size = whole("batch", batch, 1)
    while not session.done:
        for draw in session.ask(size):
            session.tell(draw, float(first[draw.item]), float(second[draw.item]))
    return session.result()


def _checked_goal(goal: object) -> CompareGoal:
    if not isinstance(goal, Sign | Difference | NotWorse):
        raise InvalidInput("goal", "Sign(tie), Difference(eps) or NotWorse(eps)", goal)
    return goal


def _score(which: str, score: float | None, draw: Draw) -> float | None:
    if score is None:
        return None
    return unit_score(score, f"score of the {which} model", f"in [0, 1], or None (item {draw.item})")


def _kept(field: str, values: ArrayLike | None, size: int, kept: NDArray[np.int64]) -> Any:
    if values is None:
        return None
    array: NDArray[Any] = np.asarray(values)
    _check_rows(field, len(array) if array.ndim else 0, size)
    return array[kept]


def _check_rows(field: str, rows: int, size: int) -> None:
    if rows != size:
        raise InvalidInput(field, f"one row for each of the {size} scores", f"{rows} rows")
