"""Keep a run within its limits: connections, money, time. A spent budget is no error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cereval.errors import InvalidInput

UNLIMITED = 2**31


@dataclass(frozen=True, slots=True)
class Limits:
    """max_usd counts all of a run's calls, also those before a resume; max_minutes only the time from now.

    further_answers: at most so many from now on. Unlike a plan's `max_calls` it decides nothing but the end: a run that
    it stopped goes on as if it had not been. call_usd: what a call is expected to cost at most, before any has told.
    """

    connections: int = 8
    max_usd: float | None = None
    max_minutes: float | None = None
    further_answers: int | None = None
    call_usd: float | None = field(default=None, repr=False)

    def within(self, allowance: Allowance, run_id: str, spending: Spending, each: int) -> Limits:
        """Return the limits of a run that may take no more than an allowance. each: calls that make one answer.

        >>> Limits(max_usd=9.0).within(Allowance(10, 1.0, {"r": (20, 2.0)}), "r", Spending(calls=24), 1)
        Limits(connections=8, max_usd=3.0, max_minutes=None, further_answers=6)
        """
        calls, dollars = allowance.before.get(run_id, (0, 0.0))
        answers, usd = None, self.max_usd
        if allowance.calls is not None:
            answers = max(int(calls + allowance.calls) // each - spending.calls, 0)
        if allowance.usd is not None:
            usd = min(dollars + allowance.usd, float("inf") if usd is None else usd)
        return replace(self, further_answers=answers, max_usd=usd)


@dataclass(frozen=True, slots=True)
class Allowance:
    """Say what a run may take more than it had taken, whoever works on it; None: no limit.

    before: calls and dollars that runs had taken when it was given, by their ids. So a worker who takes over from one
    that was killed has what is left of it.
    """

    calls: int | None = None
    usd: float | None = None
    before: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(slots=True)
class Spending:
    """Count calls and money so far. `cost_usd` is None from the first call whose price is not known."""

    calls: int = 0
    failures: int = 0
    cost_usd: float | None = 0.0
    highest_usd: float = 0.0

    def add(self, cost_usd: float | None, failed: bool) -> None:
        self.calls += 1
        self.failures += failed
        self.cost_usd = None if cost_usd is None or self.cost_usd is None else self.cost_usd + cost_usd
        self.highest_usd = max(self.highest_usd, cost_usd or 0.0)

    def room(self, max_usd: float | None, pending: int) -> int:
        """Return how many further calls the budget allows, each at the price of the most expensive so far; the first
        goes alone.

        >>> Spending(calls=10, cost_usd=1.0, highest_usd=0.1).room(1.5, pending=4)
        1
        >>> Spending(calls=10, cost_usd=1.0, highest_usd=0.1).room(1e308, pending=4) == UNLIMITED - 4
        True
        """
        if max_usd is None:
            return UNLIMITED
        if self.cost_usd is None:
            raise InvalidInput(
                "--max-usd",
                "given with --price-in and --price-out for this model, and a server that says how many tokens it used",
                max_usd,
            )
        if not self.highest_usd:
            # Nothing but free failures tells no price either.
            return UNLIMITED if self.calls > self.failures else int(not pending)
        affordable = (max_usd - self.cost_usd) / self.highest_usd + 1e-9
        return max(int(min(affordable, UNLIMITED)) - pending, 0)
