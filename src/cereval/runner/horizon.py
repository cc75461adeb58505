"""Budgets in money and minutes as what they are: a number of results, known roughly from prices and pace so far.

Deadline bets that know when a run will end make its interval as narrow as a budget of calls would. What is foreseen
is recorded as a change before the draws that it concerns are decided, so that `verify` follows; it looks at the past
alone, so the bets stay predictable. A sealed run is left to its ladder: it may not choose anything on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

from cereval.methods.certified import CertifiedMethod
from cereval.questions.session import AskTell, MethodSession
from cereval.runner.limits import UNLIMITED, Limits, Spending
from cereval.runner.progress import calls_afresh

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
