"""The lists of runs: all of them, newest first and live, and the trend on one data set."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cereval.errors import CerevalError
from cereval.questions import kind_named
from cereval.records import Interval
from cereval.report.svg import fitted, interval_bar
from cereval.runner.listing import is_of_one_model, listed, trend_of
from cereval.store.base import GOING
from cereval.store.sql import SqlStore
from cereval.text import interval, signed_interval
from cereval.view.live import Following

ROWS = 200
"""Runs on one page."""
MOST_LIVE = 8
"""Running runs whose interval the list follows."""
FRESH_S = 0.5
"""How long a list that was read is good for."""
NEWEST = """
SELECT count(*) AS events, max(recorded_at) AS newest, (SELECT count(*) FROM labels) AS labels FROM events
"""


@dataclass(frozen=True, slots=True)
class Listed:
    """One page of the list. older: how many further runs there are. parts: how many runs are parts of others."""

    rows: Sequence[dict[str, Any]]
    older: int
    parts: int
    version: tuple[Any, ...]


class RunList:
    def __init__(self, store: SqlStore, following: Following) -> None:
        self.store, self.following = store, following
        self._lock = threading.Lock()
        self._read_at, self._facts = 0.0, list[dict[str, Any]]()
        self._seen: object = None

    def page(self, text: str = "", skip: int = 0, *, parts: bool = False) -> Listed:
        """Return one page of the runs that have every word of a text in what the list shows of them."""
        facts = self._read()
        hidden = {one["run_id"] for one in facts if kind_named(one["kind"]).is_part}
        found = [
            one for one in reversed(facts) if (parts or one["run_id"] not in hidden) and _fits(one, text)
        ]
        rows = [self._row(one) for one in found[skip : skip + ROWS]]
        version = (len(facts), *(f"{one['run_id']} {one['status']}" for one in rows))
        return Listed(rows, max(len(found) - skip - ROWS, 0), len(hidden), version)

    def live(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        going = [one["run_id"] for one in rows if one["status"] in GOING][:MOST_LIVE]
        for run_id in going:
            with contextlib.suppress(CerevalError):  # a run that cannot be replayed stays as it is listed
                self.following.now(run_id)
        return [self._row(one) for one in self._read() if one["run_id"] in going]

    def _read(self) -> list[dict[str, Any]]:
        """Read the facts of all runs, unless nothing was written since the last time."""
        with self._lock:
            if time.monotonic() - self._read_at > FRESH_S:
                seen = self.store.read(NEWEST)
                if seen != self._seen or any(one["status"] in GOING for one in self._facts):
                    self._facts, self._seen = listed(self.store), seen
                self._read_at = time.monotonic()
            return self._facts

    def _row(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        done = facts["status"] == "finished"
        share = 1.0 if done else min(facts["items"] / max(facts["n_items"], 1), 1.0)
        row = {**facts, "share": share, "standing": "", "ends": "", "bar": ""}
        followed = self.following.at_hand(facts["run_id"]) if facts["status"] in GOING else None
        if followed is not None:
            numbers = followed.numbers()
            row |= {name: numbers[name] for name in ("share", "calls", "failures", "cost_usd", "standing")}
            if (step := numbers["step"]) is not None:
                row |= {"estimate": step.estimate, "lower": step.lower, "upper": step.upper}
        if row["lower"] is not None and row["upper"] is not None:
            least = kind_named(row["kind"]).least
            row["ends"] = (signed_interval if least < 0 else interval)(row["lower"], row["upper"])
            row["bar"] = interval_bar(row["estimate"], Interval(row["lower"], row["upper"]), least)
        return row


def _fits(facts: Mapping[str, Any], text: str) -> bool:
    shown = (
        facts["run_id"],
        facts["candidate"],
        facts["data"],
        facts["goal"],
        facts["status"],
        *facts["labels"],
    )
    whole = " ".join(map(str, shown)).casefold()
    return all(word in whole for word in text.casefold().split())


def trend(store: SqlStore, data: str) -> dict[str, Any]:
    """Return every run of one model on a data set, newest first, with their intervals on one scale; "": the newest."""
    runs = [run for run in store.runs() if is_of_one_model(run)]
    names = list(dict.fromkeys(str(run.plan.get("data_name")) for run in reversed(runs)))
    data = data or next(iter(names), "")
    rows = trend_of([run for run in reversed(runs) if run.plan.get("data_name") == data], store)
    ends = {
        number: Interval(row["lower"], row["upper"])
        for number, row in enumerate(rows)
        if row["lower"] is not None and row["upper"] is not None
    }
    scale = fitted(list(ends.values())) if ends else (0.0, 1.0)
    for number, row in enumerate(rows):
        row["bar"] = interval_bar(row["estimate"], ends[number], *scale) if number in ends else ""
    return {"names": names, "data": data, "rows": rows, "scale": scale if ends else ()}
