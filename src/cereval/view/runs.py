"""Define the list of runs: what is in the store, newest first, and how far those have come that are going on."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from sqlalchemy import func, select

from cereval.errors import CerevalError
from cereval.questions import kind_named
from cereval.report.svg import interval_bar
from cereval.runner.listing import listed
from cereval.store import tables
from cereval.store.base import GOING
from cereval.store.sql import SqlStore
from cereval.text import interval, signed_interval
from cereval.view.following import Following

ROWS = 200
"""Runs on one page."""
MOST_LIVE = 8
"""Running runs whose interval the list follows."""
FRESH_S = 0.5
"""How long a list that was read is good for."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Hold one page of the list. older: how many further runs there are."""

    rows: Sequence[dict[str, Any]]
    older: int
    parts: int
    version: tuple[Any, ...]


class RunList:
    """Reads the list of runs for all who look at it."""

    def __init__(self, store: SqlStore, following: Following) -> None:
        self.store, self.following = store, following
        self._lock = threading.Lock()
        self._read_at, self._seen, self._facts = 0.0, (), list[dict[str, Any]]()

    def page(self, text: str = "", skip: int = 0, *, parts: bool = False) -> Listed:
        """Give one page of the runs that have a text in their names, data, goals, tags or ids."""
        facts = self._all()
        hidden = sum(is_part(one) for one in facts)
        kept = [one for one in reversed(facts) if (parts or not is_part(one)) and fits(one, text)]
        rows = [self._row(one) for one in kept[skip : skip + ROWS]]
        version = (len(facts), *(f"{one['run_id']} {one['status']}" for one in rows))
        return Listed(rows, max(len(kept) - skip - ROWS, 0), hidden, version)

    def live(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Give the rows of those runs that are going on, as they stand now."""
        going = [one["run_id"] for one in rows if one["status"] in GOING][:MOST_LIVE]
        for run_id in going:
            with contextlib.suppress(CerevalError):  # a run that cannot be replayed stays as it is listed
                self.following.now(run_id)
        return [self._row(one) for one in self._all() if one["run_id"] in going]

    def _all(self) -> list[dict[str, Any]]:
        """Read the facts of all runs, unless nothing was written since the last time."""
        with self._lock:
            if time.monotonic() - self._read_at > FRESH_S:
                seen = self._newest()
                if seen != self._seen or any(one["status"] in GOING for one in self._facts):
                    self._facts, self._seen = listed(self.store), seen
                self._read_at = time.monotonic()
            return self._facts

    def _newest(self) -> tuple[Any, ...]:
        events, labels = tables.events, tables.labels
        with self.store.reading() as connection:
            marked = connection.execute(select(func.count(), func.max(events.c.at))).one()
            return (*marked, connection.execute(select(func.count()).select_from(labels)).scalar_one())

    def _row(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        row = {**facts, "share": 1.0 if facts["status"] == "finished" else _share(facts), "standing": ""}
        followed = self.following.at_hand([facts["run_id"]]).get(facts["run_id"])
        if followed is not None and facts["status"] in GOING:
            numbers = followed.numbers()
            row |= {name: numbers[name] for name in ("share", "calls", "failures", "cost_usd", "standing")}
            if numbers["step"] is not None and numbers["consumed"]:
                step = numbers["step"]
                row |= {"estimate": step.estimate, "lower": step.lower, "upper": step.upper}
        return {**row, "ends": _ends(row), "bar": _bar(row), "progress": progress_bar(row["share"])}


def is_part(facts: Mapping[str, Any]) -> bool:
    """Tell whether a run only keeps one model's answers for another run."""
    return kind_named(facts["kind"]).is_part


def fits(facts: Mapping[str, Any], text: str) -> bool:
    """Tell whether every word of a text is somewhere in what the list shows of a run."""
    shown = (facts["run_id"], facts["model"], facts["data"], facts["goal"], facts["status"], *facts["labels"])
    whole = " ".join(str(one) for one in shown).casefold()
    return all(word in whole for word in text.casefold().split())


def _share(facts: Mapping[str, Any]) -> float:
    return float(min(facts["items"] / max(facts["n_items"], 1), 1.0))


def _ends(row: Mapping[str, Any]) -> str:
    if row["lower"] is None or row["upper"] is None:
        return ""
    return (signed_interval if kind_named(row["kind"]).least < 0 else interval)(row["lower"], row["upper"])


def _bar(row: Mapping[str, Any]) -> str:
    if row["lower"] is None or row["upper"] is None:
        return ""
    limits = SimpleNamespace(lower=row["lower"], upper=row["upper"])
    return interval_bar(row["estimate"], limits, kind_named(row["kind"]).least)


def progress_bar(share: float) -> str:
    """Draw how far a run has come, from 0 to 1."""
    return (
        '<svg class="progress" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" '
        f'aria-label="{share:.0%} done"><rect class="track" width="100" height="6"/>'
        f'<rect class="done" width="{100 * share:.1f}" height="6"/></svg>'
    )
