"""Tell the world of a run's progress: one frozen record, the observer that is shown it, and a forecast."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol

from cereval.imports import optional
from cereval.records import Certified, Step
from cereval.text import interval, percent, printable, signed_interval

WARNING = "warning: "
"""How a note begins that casts doubt on a result."""


def other_model_warning(name: str, served: str) -> str:
    return f"{WARNING}{name} was asked, and the server says that {served} answered"


@dataclass(frozen=True, slots=True)
class Subject:
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
    def on_start(self, subject: Subject, notes: Sequence[str] = ()) -> None:
        """See `Observer`."""

    def on_progress(self, progress: Progress) -> None:
        """See `Observer`."""

    def on_note(self, note: str) -> None:
        """See `Observer`."""

    def on_end(self, result: Certified) -> None:
        """See `Observer`."""


# -- shown where Python runs: lines in a terminal, one line in a notebook ---------------------------------------------


EVERY_S = 5.0
LOGGER = logging.getLogger("cereval")


def watcher() -> Observer:
    """Return what shows progress here: one line in a notebook, some in a terminal; elsewhere warnings are logged."""
    if _is_in_notebook():
        return NotebookLine()
    return PlainDisplay() if sys.stderr is not None and sys.stderr.isatty() else Logged()


def _is_in_notebook() -> bool:
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class Logged(Silent):
    """Log notes for whoever listens to the logger `cereval`; warnings are printed where nobody does."""

    def on_start(self, subject: Subject, notes: Sequence[str] = ()) -> None:  # noqa: ARG002
        for note in notes:
            self.on_note(note)

    def on_note(self, note: str) -> None:
        warns = note.startswith(WARNING)
        LOGGER.log(logging.WARNING if warns else logging.INFO, printable(note.removeprefix(WARNING)))


# -- plain lines ------------------------------------------------------------------------------------------------------


def ends(step: Step) -> str:
    """Return the interval of a moment; differences have a sign."""
    return signed_interval(step.lower, step.upper) if step.lower < 0 else interval(step.lower, step.upper)


class PlainDisplay:
    def __init__(self, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._last = time.monotonic()

    def on_start(self, subject: Subject, notes: Sequence[str] = ()) -> None:
        say(
            f"run {subject.run_id}: {printable(subject.model, 80)} on {subject.n_items:,} questions of "
            f"{printable(subject.data, 80)}, {subject.question} at {percent(subject.confidence)} confidence"
        )
        for note in notes:
            self.on_note(note)

    def on_progress(self, progress: Progress) -> None:
        if time.monotonic() - self._last >= self._every_s:
            self._last = time.monotonic()
            say(line(progress))

    def on_note(self, note: str) -> None:
        say(printable(note))

    def on_end(self, result: Certified) -> None:
        """Leave the answer itself to stdout."""


def line(progress: Progress) -> str:
    """Return one moment of a run.

    >>> step = Step(118, 0.7, 0.61, 0.79)
    >>> line(Progress("r", 2000, 120, 118, 8, 0, step, 400, 0.012, 9.5, 22.0))
    '118 of about 400 calls, [61.00%, 79.00%], 8 in flight, $0.0120, 22 s to go'
    """
    each, expected = progress.calls_each, progress.expected_calls
    about = "" if expected is None else f" of about {each * expected:,}"
    parts = [
        f"{each * progress.consumed:,}{about} calls",
        progress.standing if progress.step is None else ends(progress.step),
        f"{progress.in_flight} in flight",
    ]
    if progress.failures:
        parts.append(f"{progress.failures} failed")
    if progress.cost_usd:
        parts.append(f"${progress.cost_usd:.4f}")
    if progress.eta_s is not None:
        parts.append(f"{progress.eta_s:.0f} s to go")
    return ", ".join(parts)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# -- notebooks --------------------------------------------------------------------------------------------------------


class NotebookLine(Logged):
    def __init__(self) -> None:
        self._line: Any = None

    def on_start(self, subject: Subject, notes: Sequence[str] = ()) -> None:
        display = optional("IPython.display", "plots").display
        self._line = display(_html(f"{subject.model} on {subject.data}: starting"), display_id=True)
        super().on_start(subject, notes)

    def on_progress(self, progress: Progress) -> None:
        if self._line is not None:
            self._line.update(_html(line(progress)))

    def on_end(self, result: Certified) -> None:
        if self._line is not None:
            self._line.update(_html(result.headline()))


def _html(text: str) -> Any:
    return optional("IPython.display", "plots").HTML(f"<code>{escape(text)}</code>")
