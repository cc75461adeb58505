"""How many calls may be out before their results are needed."""

from __future__ import annotations

from math import sqrt

from cereval.goals import Estimate
from cereval.runner.forecast import calls_to_goal
from cereval.sessions import AnySession

SURE = 1 / 3
"""Of the calls still expected, less the root of all that are: a run has never been seen to end sooner.

Nor within half of them (tests/runner/test_window.py holds a third)."""

FEWEST = 50
"""Results before an expectation is worth something."""

MOST_AHEAD = 3
"""Answers that may wait for an earlier one, in multiples of the connections."""


class Window:
    """Calls beyond those needed at the stop are kept at the number of connections.

    Results are consumed in draw order, so one slow call holds back all later ones. With as many calls out as
    connections, at most that many are too many when the goal is reached; but a call that is retried for
    a minute would idle the others for a minute. So far from an estimate's goal, where none of the next calls can
    be the last, answers may pile up behind a slow one. A threshold can be decided by the very next answers.

    >>> from cereval.session import Session
    >>> Window(4).size(Session(100))
    4
    """

    def __init__(self, connections: int) -> None:
        self.connections = connections
        self._at, self._size = -1, connections

    def size(self, session: AnySession) -> int:
        """Draws that may have been sent and not consumed."""
        at = session.n_evaluated
        if self._at < 0 or at >= self._at + self.connections // 2 or at < self._at:
            self._at, self._size = at, self.connections + self._ahead(session)
        # The end has come nearer since the size was worked out.
        return max(self._size - (at - self._at), self.connections)

    def _ahead(self, session: AnySession) -> int:
        if session.n_evaluated < FEWEST or not isinstance(session.goal, Estimate):
            return 0
        # A budget ends the draws by itself: only the goal can come while calls are out.
        expected = calls_to_goal(session) or 0
        sure = int(SURE * (expected - session.n_evaluated) - sqrt(expected))
        return max(min(sure, MOST_AHEAD * self.connections), 0)
