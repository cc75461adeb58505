"""Show a run's progress in a notebook: one line that is written over."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from typing import Any

from cereval.imports import optional
from cereval.records import Certified
from cereval.runner.progress import Observer, Progress, Silent, Subject
from cereval.text import interval


def watcher() -> Observer:
    """Return what shows progress here: a line in a notebook, nothing elsewhere."""
    return NotebookLine() if _is_in_notebook() else Silent()


def _is_in_notebook() -> bool:
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class NotebookLine(Silent):
    """Write one line below the cell, and write it over as answers come in."""

    def __init__(self) -> None:
        self._line: Any = None

    def on_start(self, subject: Subject, notes: Sequence[str] = ()) -> None:  # noqa: ARG002
        display = optional("IPython.display", "plots").display
        self._line = display(_html(f"{subject.model} on {subject.data}: starting"), display_id=True)

    def on_progress(self, progress: Progress) -> None:
        """Show how far the run has come."""
        if self._line is not None:
            self._line.update(_html(told(progress)))

    def on_end(self, result: Certified) -> None:
        """Show the answer."""
        if self._line is not None:
            self._line.update(_html(result.headline()))


def told(progress: Progress) -> str:
    """Return one moment of a run in a line."""
    now = progress.standing or "no interval yet"
    if progress.step is not None:
        now = interval(progress.step.lower, progress.step.upper)
    expected = "" if progress.expected_calls is None else f" of about {progress.expected_calls:,}"
    return f"{progress.consumed:,}{expected} answers, {now}"


def _html(text: str) -> Any:
    return optional("IPython.display", "plots").HTML(f"<code>{escape(text)}</code>")
