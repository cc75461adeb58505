"""Progress as plain lines, for logs: one every few seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from cereval.goals.words import in_words
from cereval.plan import Plan
from cereval.runner.progress import Progress
from cereval.sessions import AnyResult
from cereval.text import interval, percent, printable

EVERY_S = 5.0


class PlainDisplay:
    """An `Observer` that writes to stderr. goal: the one now pursued, where it is not that of the plan."""

    def __init__(self, every_s: float = EVERY_S, goal: Mapping[str, Any] | None = None) -> None:
        self._every_s, self._goal = every_s, goal
        self._last = time.monotonic()

    def on_start(self, plan: Plan, n_items: int, notes: Sequence[str] = ()) -> None:
        click.echo(
            f"run {plan.run_id}: {printable(plan.model_name, 80)} on {n_items:,} items of "
            f"{printable(plan.data_name or 'data', 80)}, "
            f"{in_words(self._goal or plan.goal)} at {percent(plan.confidence)} confidence",
            err=True,
        )
        for note in notes:
            self.on_note(note)

    def on_progress(self, progress: Progress) -> None:
        if time.monotonic() - self._last >= self._every_s:
            self._last = time.monotonic()
            click.echo(line(progress), err=True)

    def on_note(self, note: str) -> None:
        click.echo(printable(note), err=True)

    def on_end(self, result: AnyResult) -> None:
        """The answer itself goes to stdout."""


def line(progress: Progress) -> str:
    """One moment of a run.

    >>> from cereval.records import Interval
    >>> line(Progress("r", 2000, 120, 118, 8, 0, 0.7, Interval(0.61, 0.79), 400, 0.012, 9.5, 22.0))
    '118 of about 400 calls, [61.00%, 79.00%], 8 in flight, $0.0120, 22 s to go'
    """
    about = "" if progress.expected_calls is None else f" of about {progress.expected_calls:,}"
    parts = [
        f"{progress.consumed:,}{about} calls",
        interval(progress.interval.lower, progress.interval.upper),
    ]
    parts.append(f"{progress.in_flight} in flight")
    if progress.failures:
        parts.append(f"{progress.failures} failed")
    if progress.cost_usd:
        parts.append(f"${progress.cost_usd:.4f}")
    if progress.eta_s is not None:
        parts.append(f"{progress.eta_s:.0f} s to go")
    return ", ".join(parts)
