"""Name the events of a run. Its status is the newest of them that is not a mere record."""

from __future__ import annotations

GOING = ("running", "stopping")
"""Some process works on the run, if it lives; if not, it is `interrupted`."""
STOPPING = "stopping"
"""Somebody elsewhere asked it to stop; whoever works on it does, as at Ctrl-C."""
AT_WORK = ("created", *GOING)
ENDED = ("finished", "budget")
SUMMED_UP = (*ENDED, "interrupted")
"""The event says what the run came to."""

CHANGED = "changed"
"""Records a new goal, budget or horizon."""
LEASED = "leased"
"""Records that questions were handed out."""
RECORDS = (CHANGED, LEASED)
