"""State the contract of an audit: a second computation of a result, which shares nothing with the first but
constants.

`verify` tells a session its log once more through the audit, which notes what it needs on the way (forecasts, draw
weights); `check` then recomputes the numbers and says what it recomputed, or that it recomputed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cereval.certificate.audit.book import AimSince, Case, ForecastSince, Seen
from cereval.methods.certified import CertifiedMethod
from cereval.questions.base import Kind
from cereval.questions.session import AskTell, tell
from cereval.records import Draw, Scored

Equal = Callable[[str, Any, Any], None]
"""Objects where what is stated (second) is not what was recomputed (third)."""


class Audit:
    """Recompute nothing: for kinds that have no audit."""

    def __init__(self, kind: Kind, session: AskTell) -> None:
        self.kind = kind
        self.begin(session)

    def begin(self, session: AskTell) -> None:
        """Look at the session before its first result."""

    def tell(self, session: AskTell, draw: Draw, scores: Scored) -> None:
        """Tell a result, and note what the audit needs of it."""
        tell(session, draw, scores)

    def check(self, certificate: Mapping[str, Any], session: AskTell, equal: Equal) -> str:  # noqa: ARG002
        """Recompute the result; return what was recomputed, in words."""
        return "nothing recomputed by an audit"


class Watched:
    """Tell a game its results again, and note each forecast that it turns to, and the results."""

    def __init__(self, method: CertifiedMethod) -> None:
        self.method = method
        self.seen: list[Seen] = []
        self.forecasts: list[ForecastSince] = []
        self._last: object = None
        self._turn(0)

    def note(self, item: int, low: float, high: float) -> None:
        """Call after the result was told: the outlook is the one that it was booked under."""
        self._turn(len(self.seen))
        self.seen.append(Seen(item, low, high))

    def _turn(self, number: int) -> None:
        outlook = self.method.tally.outlook
        if outlook is not self._last:
            self._last = outlook
            self.forecasts = [one for one in self.forecasts if one.since < number]
            self.forecasts.append(ForecastSince.of(outlook, number))

    def case(self, aims: list[AimSince], **differing: Any) -> Case:
        """Return all that the audit of this game needs; `differing` from the usual: equal, replacement, given_up."""
        setting = self.method.setting
        usual = {"equal": setting.pool.weights is None, "replacement": False, "given_up": False}
        return Case(
            shares=self.method.tally.shares,
            delta=setting.delta,
            aims=aims,
            seen=self.seen,
            forecasts=self.forecasts,
            tuning=self.method.tuning,
            **{**usual, **differing},
        )


def bounds(score: float | None) -> tuple[float, float]:
    """Return where a score lies: anywhere in [0, 1] when its call failed."""
    return (0.0, 1.0) if score is None else (score, score)
