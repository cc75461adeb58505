"""How a run tells the world of its progress: one frozen record, and the observer that is shown it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cereval.plan import Plan
from cereval.records import Interval
from cereval.sessions import AnyResult


@dataclass(frozen=True, slots=True)
class Progress:
    """A run at one moment.

    answered: calls that came back, failed ones included. consumed: those that the interval rests on, in draw
    order. expected_calls: a forecast of `consumed` at the end (None while nothing is known). cost_usd: None
    when the price is not known. eta_s: seconds still to go at the present pace, if that can be told.
    """

    run_id: str
    n_items: int
    answered: int
    consumed: int
    in_flight: int
    failures: int
    estimate: float
    interval: Interval
    expected_calls: int | None
    cost_usd: float | None
    elapsed_s: float
    eta_s: float | None = None


class Observer(Protocol):
    """Is shown a run. `on_progress` is called a few times a second at most, and must return at once."""

    def on_start(self, plan: Plan, n_items: int, notes: Sequence[str] = ()) -> None:
        """Before the first call; `notes` say what is used and resumed, one line each."""

    def on_progress(self, progress: Progress) -> None: ...

    def on_note(self, note: str) -> None:
        """A line for whoever watches, such as what Ctrl-C led to."""

    def on_end(self, result: AnyResult) -> None:
        """After the last call, also when the run was interrupted; not when it could not run."""


class Silent:
    """Shows nothing."""

    def on_start(self, plan: Plan, n_items: int, notes: Sequence[str] = ()) -> None:
        """See `Observer`."""

    def on_progress(self, progress: Progress) -> None:
        """See `Observer`."""

    def on_note(self, note: str) -> None:
        """See `Observer`."""

    def on_end(self, result: AnyResult) -> None:
        """See `Observer`."""
