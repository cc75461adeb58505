"""How many questions to send together, where answers take hours: few rounds, and few calls that nobody needs.

A round is decided before its first draw, from the results so far, so that it is as valid as calls in flight. Each goes
a share of the way that the goal is expected to take; the last ones go a little beyond, since one more round costs
hours.
`benchmarks.batch` has what the shares cost.
"""

from __future__ import annotations

from math import ceil, log
from typing import NamedTuple

from cereval.methods.active import Active
from cereval.methods.certified import CertifiedMethod
from cereval.questions.mean.goal import Estimate
from cereval.questions.session import AskTell, MethodSession
from cereval.runner.progress import SMALLEST_GAP, calls_to_goal
from cereval.stats.planning import ANYTIME_PRICE
from cereval.stats.rounding import upper_quantile

MOST = 10_000
"""Calls of one round: each waits as a task of its own, and providers take 50,000 to a batch."""
LEAST = 25
"""Draws of a round, where so many are left: a round costs hours, a call cents."""


class Shares(NamedTuple):
    """first: of what scores of the largest variance would take, since easy sets take little more. later: of the calls
    that the goal is expected to take in all, those that are out after the second and the later rounds."""

    first: float
    later: tuple[float, ...]


PLAIN = Shares(0.12, (0.8, 0.96, 1.03, 1.06))
LEARNING = Shares(0.06, (0.5, 0.85, 1.03, 1.06))
"""Where forecasts learn from the results: the sooner they do, the fewer calls; what is foreseen before is too much."""
GROWTH = 0.7
"""Further calls as a share of those so far, where the calls to the goal cannot be told."""
FARTHEST = 3.0
"""Times the calls so far that a decision which is near in doubt may go at once: its forecast is a guess."""


def next_round(session: AskTell, sent: int) -> int:
    """Return how many draws to send together now; sent: rounds before this one."""
    total = _first(session) if session.n_evaluated == 0 else _further(session, sent)
    most = max(MOST // session.asked, 1)
    return min(max(total - session.n_drawn, LEAST), most)


def _first(session: AskTell) -> int:
    goal, size = session.goal, session.n_items
    if isinstance(goal, Estimate):
        quantile = upper_quantile((1 - session.confidence) / 2)
        worst = ANYTIME_PRICE * 0.25 * (quantile / goal.eps) ** 2
        return ceil(_shares(session).first * worst / (1 + worst / size))
    return 4 * LEAST


def _further(session: AskTell, sent: int) -> int:
    """Return the draws that are to be out after this round."""
    so_far, goal = session.n_evaluated, session.goal
    later = _shares(session).later
    share = later[min(max(sent, 1), len(later)) - 1]
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
