"""How far a run has to go: forecasts of results, budgets in money and minutes as numbers of results, rounds of batches.

Deadline bets that know when a run will end make its interval as narrow as a budget of calls would. What is foreseen
is recorded as a change before the draws that it concerns are decided, so that `verify` follows; it looks at the past
alone, so the bets stay predictable. A sealed run is left to its ladder: it may not choose anything on the way.

A round is decided before its first draw too, so that it is as valid as calls in flight. Each goes a share of the way
that the goal is expected to take; the last ones go a little beyond, since one more round costs hours.
`benchmarks.batch` has what the shares cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log
from typing import NamedTuple

from cereval.methods.active import Active
from cereval.methods.certified import CertifiedMethod
from cereval.questions.mean.goal import Estimate, Finest, Threshold
from cereval.questions.session import AskTell, MethodSession
from cereval.runner.limits import UNLIMITED, Limits, Spending
from cereval.stats.planning import ANYTIME_PRICE
from cereval.stats.rounding import upper_quantile

# -- forecasts of results ---------------------------------------------------------------------------------------------

SMALLEST_GAP = 0.005


def expected_calls(session: AskTell) -> int | None:
    """Forecast the results consumed at the end: when the goal is reached or the budget is spent.

    Nothing certified depends on it. None for methods and goals that do not tell.
    """
    total, end = calls_to_goal(session), session.soonest
    if isinstance(session.goal, Finest):
        return end
    return total if total is None or end is None else min(total, end)


def calls_to_goal(session: AskTell) -> int | None:
    """Forecast the results consumed when the goal is reached, whatever the budget, with the capital that is left."""
    if isinstance(session.goal, Finest):
        return None
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


# -- budgets in money and minutes -------------------------------------------------------------------------------------

LEAST = 20
"""Results from which on prices and pace are believed."""
SURE = 0.97
"""Share of what is expected that the bets count on: the last calls may be dearer than the average."""
APART = 0.1
"""Difference from what was foreseen before from which on it is worth a record."""
NEAR = 0.05
"""Share of the results by which a horizon that is reached with money left moves on."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Calls, of which so many came before this process began, and the seconds since then."""

    before: int
    elapsed_s: float


def affordable(spending: Spending, limits: Limits, pace: Pace) -> float | None:
    """Calls that the limits are expected to buy in all; None: no limit, or nothing known yet.

    >>> affordable(Spending(calls=50, cost_usd=0.5), Limits(max_usd=2.0), Pace(0, 10.0))
    200.0
    >>> affordable(Spending(calls=80), Limits(max_minutes=2.0), Pace(30, 30.0))
    230.0
    >>> affordable(Spending(calls=80), Limits(max_minutes=1e308), Pace(30, 30.0)) == UNLIMITED
    True
    """
    found = []
    if limits.max_usd is not None and spending.cost_usd:
        found.append(spending.calls * limits.max_usd / spending.cost_usd)
    fresh = spending.calls - pace.before
    if limits.max_minutes is not None and fresh and pace.elapsed_s > 0:
        found.append(pace.before + fresh * 60 * limits.max_minutes / pace.elapsed_s)
    return min([*found, UNLIMITED]) if found else None


def foreseen(session: AskTell, spending: Spending, limits: Limits, pace: Pace) -> int | None:
    """Return the horizon that is to be recorded now (0: none any more), or None: what is recorded will do."""
    certified = isinstance(session, MethodSession) and isinstance(session.method, CertifiedMethod)
    if not certified:
        return None
    calls = affordable(spending, limits, pace)
    if calls is None:
        stale = session.horizon is not None and limits.max_usd is None and limits.max_minutes is None
        return 0 if stale else None
    if session.n_evaluated < LEAST:
        return None
    drawn, last, found = session.n_drawn, session.horizon, int(SURE * calls / session.asked)
    if last is None:
        wanted = calls_afresh(session)
        return found if drawn < found and (wanted is None or found < wanted) else None
    found = max(found, drawn + max(limits.connections, int(NEAR * drawn)))
    return found if drawn >= last or abs(found - last) > APART * last else None


# -- rounds, where answers take hours ---------------------------------------------------------------------------------


LARGEST_ROUND = 10_000
"""Calls of one round: each waits as a task of its own, and providers take 50,000 to a batch."""
SMALLEST_ROUND = 25
"""Draws of a round, where so many are left: a round costs hours, a call cents."""


class Shares(NamedTuple):
    """first: of what scores of the largest variance would take, since easy sets take little more. later: of the calls
    that the goal is expected to take in all, those that are out after the second and the later rounds."""

    first: float
    later: tuple[float, ...]


PLAIN = Shares(0.12, (0.8, 0.96, 1.03, 1.06))
LEARNING = Shares(0.1, (0.7, 1.0, 1.08, 1.12))
"""Where forecasts learn from the results: what is foreseen before they have is too much, but a round more costs more
calls than larger rounds do."""
GROWTH = 0.7
"""Further calls as a share of those so far, where the calls to the goal cannot be told."""
FARTHEST = 3.0
"""Times the calls so far that a decision which is near in doubt may go at once: its forecast is a guess."""


def next_round(session: AskTell, sent: int) -> int:
    """Return how many draws to send together now; sent: rounds before this one."""
    total = _first(session) if session.n_evaluated == 0 else _further(session, sent)
    most = max(LARGEST_ROUND // session.asked, 1)
    return min(max(total - session.n_drawn, SMALLEST_ROUND), most)


def _first(session: AskTell) -> int:
    goal, size = session.goal, session.n_items
    if isinstance(goal, Finest):
        return ceil(_shares(session).first * (session.soonest or 0))
    if isinstance(goal, Estimate):
        quantile = upper_quantile((1 - session.confidence) / 2)
        worst = ANYTIME_PRICE * 0.25 * (quantile / goal.eps) ** 2
        return ceil(_shares(session).first * worst / (1 + worst / size))
    return 4 * SMALLEST_ROUND


def _further(session: AskTell, sent: int) -> int:
    so_far, goal = session.n_evaluated, session.goal
    later = _shares(session).later
    share = later[min(max(sent, 1), len(later)) - 1]
    if isinstance(goal, Finest) and session.soonest is not None:
        return ceil(min(share, 1.0) * session.soonest)
    if isinstance(goal, Estimate):
        total = calls_to_goal(session)
        return ceil((1 + GROWTH) * so_far) if total is None else ceil(share * total)
    deciding = _to_decide(session)
    if deciding is None:
        return ceil((1 + GROWTH) * so_far)
    return ceil(min(max(share * deciding, (1 + GROWTH / 2) * so_far), FARTHEST * so_far))


def _shares(session: AskTell) -> Shares:
    return LEARNING if is_held_back(session) else PLAIN


def _to_decide(session: AskTell) -> float | None:
    """Forecast the draws until the mean is told from a threshold or a mark; None where there is none."""
    method = session.method if isinstance(session, MethodSession) else None
    if not isinstance(method, CertifiedMethod):
        return None
    aim = method.aim
    value = aim.threshold if aim.threshold is not None else next(iter(aim.marks), None)
    if value is None:
        return None
    gap = max(abs(method.clock.mean - value), aim.eps or SMALLEST_GAP)
    information = 2 * method.clock.variance * log(1 / (1 - session.confidence)) / gap**2
    calls = max(information - method.clock.total, 0.0) * method.tally.prospect().variance
    left = session.n_items - session.n_evaluated
    return session.n_evaluated + (calls if method.tally.replacement else calls / (1 + calls / max(left, 1)))


def is_held_back(session: AskTell) -> bool:
    """Tell whether draws wait for forecasts, so that a round has to be opened."""
    return isinstance(session, MethodSession) and isinstance(session.method, Active)
