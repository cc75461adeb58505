"""How far a run still has to go. Nothing certified depends on it: it feeds the display and the look-ahead."""

from __future__ import annotations

from math import log

from scipy.special import ndtri

from cereval.goals import Estimate, Threshold
from cereval.methods.certified import CertifiedMethod
from cereval.sessions import AnySession
from cereval.stats.planning import SHARE

SMALLEST_GAP = 0.005


def expected_calls(session: AnySession) -> int | None:
    """Results that will have been consumed at the end: when the goal is reached or the budget is spent.

    None for methods and goals that do not tell.
    """
    total = calls_to_goal(session)
    return total if total is None or session.budget is None else min(total, session.budget)


def calls_to_goal(session: AnySession) -> int | None:
    """Results that will have been consumed when the goal is reached, whatever the budget.

    The information that a fixed-n test would need, times the price of looking all the time, less what is
    there; draws without replacement turn x independent draws into x / (1 + x / left).
    """
    method, goal = session.method, session.goal
    if not (isinstance(method, CertifiedMethod) and isinstance(goal, Estimate | Threshold)):
        return None
    if not session.n_evaluated:
        return None
    if session.done:
        return session.n_evaluated
    missing = max(_information_needed(goal, 1 - session.confidence, method) - method.clock.total, 0.0)
    draws = missing * method.tally.prospect().variance
    left = session.n_items - session.n_evaluated
    ahead = draws if method.tally.replacement else draws / (1 + draws / max(left, 1))
    return session.n_evaluated + max(round(ahead), 1)


def _information_needed(goal: Estimate | Threshold, delta: float, method: CertifiedMethod) -> float:
    variance = method.clock.variance
    if isinstance(goal, Threshold):
        gap = max(abs(method.clock.mean - goal.value), SMALLEST_GAP)
        return 2 * variance * log(1 / delta) / gap**2
    return float(SHARE * variance * (ndtri(1 - delta / 2) / goal.eps) ** 2)
