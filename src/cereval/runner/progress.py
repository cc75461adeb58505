"""Tell the world of a run's progress: one frozen record, the observer that is shown it, and a forecast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import Protocol

from cereval.methods.certified import CertifiedMethod
from cereval.questions.mean.goal import Estimate, Threshold
from cereval.questions.session import AskTell, MethodSession
from cereval.records import Certified, Step
from cereval.stats.planning import ANYTIME_PRICE
from cereval.stats.rounding import upper_quantile

SMALLEST_GAP = 0.005
WARNING = "warning: "
"""How a note begins that casts doubt on a result."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Say what a run is about, in words: its models, its data and its question."""

    run_id: str
    model: str
    data: str
    n_items: int
    question: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Progress:
    """Describe a run at one moment.

    answered: calls that came back, failed ones included. consumed: results that the answer rests on, in draw
    order. step: the interval now, None where there is no single one; then `standing` says how far it has come.
    expected_calls: a forecast of `consumed` at the end (None while nothing is known). cost_usd: None when the
    price is not known. eta_s: seconds still to go at the present pace, if that can be told.
    """

    run_id: str
    n_items: int
    answered: int
    consumed: int
    in_flight: int
    failures: int
    step: Step | None
    expected_calls: int | None
    cost_usd: float | None
    elapsed_s: float
    eta_s: float | None = None
    standing: str = ""
    calls_each: int = 1
    """Calls that one result takes: of each candidate that answers it, and of each sample."""


class Observer(Protocol):
    """Observe a run. `on_progress` is called a few times a second at most, and must return at once."""

    def on_start(self, subject: Subject, notes: Sequence[str] = ()) -> None:
        """Note the start, before the first call; `notes` say what is used and resumed, one line each."""

    def on_progress(self, progress: Progress) -> None: ...

    def on_note(self, note: str) -> None:
        """Take a line for whoever watches, such as what Ctrl-C led to."""

    def on_end(self, result: Certified) -> None:
        """Note the end, after the last call, also when the run was interrupted; not when it could not run."""


class Silent:
    """Show nothing."""

    def on_start(self, subject: Subject, notes: Sequence[str] = ()) -> None:
        """See `Observer`."""

    def on_progress(self, progress: Progress) -> None:
        """See `Observer`."""

    def on_note(self, note: str) -> None:
        """See `Observer`."""

    def on_end(self, result: Certified) -> None:
        """See `Observer`."""


def expected_calls(session: AskTell) -> int | None:
    """Forecast the results consumed at the end: when the goal is reached or the budget is spent.

    Nothing certified depends on it. None for methods and goals that do not tell.
    """
    total = calls_to_goal(session)
    return total if total is None or session.budget is None else min(total, session.budget)


def calls_to_goal(session: AskTell) -> int | None:
    """Forecast the results consumed when the goal is reached, whatever the budget, with the capital that is left."""
    return _forecast(session, _information_to_go)


def calls_afresh(session: AskTell) -> int | None:
    """Forecast the results of a run that has worked towards this goal from its first draw on."""
    return _forecast(session, _information_of_new_run)


DEAR = 1.15
"""Times a new run's results from which on going on with a run is worth a word."""


def cheaper_afresh(session: AskTell) -> int | None:
    """Forecast the results that a new run would take; None where going on is about as cheap, or nothing can be told."""
    going_on, afresh = calls_to_goal(session), calls_afresh(session)
    return None if going_on is None or afresh is None or going_on < DEAR * afresh else afresh


def _forecast(
    session: AskTell, information: Callable[[Estimate | Threshold, float, CertifiedMethod], float]
) -> int | None:
    """Return the results consumed when so much more information is there.

    Draws without replacement turn x independent draws into x / (1 + x / left).
    """
    method = session.method if isinstance(session, MethodSession) else None
    goal = session.goal if session.n_evaluated else None
    if not (isinstance(method, CertifiedMethod) and isinstance(goal, Estimate | Threshold)):
        return None
    if goal.reached(method) or (session.n_evaluated >= session.n_items and not method.tally.replacement):
        return session.n_evaluated
    draws = information(goal, 1 - session.confidence, method) * method.tally.prospect().variance
    left = session.n_items - session.n_evaluated
    ahead = draws if method.tally.replacement else draws / (1 + draws / max(left, 1))
    return session.n_evaluated + max(round(ahead), 1)


def _information_to_go(goal: Estimate | Threshold, delta: float, method: CertifiedMethod) -> float:
    """Return what fixed-n tests still need with the capital that is left, times the price of looking all the time."""
    if isinstance(goal, Threshold):
        return _information_of_new_run(goal, delta, method)
    return ANYTIME_PRICE * method.information_to_go(goal.eps)


def _information_of_new_run(goal: Estimate | Threshold, delta: float, method: CertifiedMethod) -> float:
    """Return what a fixed-n test would need, times the price of looking all the time, less what is there."""
    variance = method.clock.variance
    if isinstance(goal, Threshold):
        gap = max(abs(method.clock.mean - goal.value), SMALLEST_GAP)
        needed = 2 * variance * log(1 / delta) / gap**2
    else:
        needed = ANYTIME_PRICE * variance * (upper_quantile(delta / 2) / goal.eps) ** 2
    return max(needed - method.clock.total, 0.0)
