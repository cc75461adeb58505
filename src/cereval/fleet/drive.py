"""Drive a fleet: hand out jobs in their order, within one budget in calls, money and time, and collect the answers.

Where there is a budget, the runs that wait share what is left of it in proportion to what is expected of them. What one
does not need goes back; once no run that is as urgent waits any more, those that spent their part go on with what came
back.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from cereval.files import is_file
from cereval.fleet.file import Entry, Fleet
from cereval.fleet.limits import Parts
from cereval.fleet.plan import Step, own_budget
from cereval.fleet.work import Job, unasked
from cereval.runner.limits import Allowance
from cereval.text import money

Row = dict[str, Any]
Tell = Callable[[str], None]


class Workers(Protocol):
    @property
    def capacity(self) -> int:
        """Return how many jobs may be under way."""

    def submit(self, job: Job) -> None: ...

    def next(self) -> tuple[int, Row]:
        """Wait for a job to end; return its entry's number and its row."""

    def interrupt(self) -> None:
        """Have the runs under way end with the calls that are out."""


@dataclass(slots=True)
class Purse:
    """Hold a budget of one kind: what was spent, what the runs under way have been given, and what is set aside for
    those that wait and are asked anew: no less than they took the last time."""

    most: float | None
    spent: float = 0.0
    aside: dict[int, float] = field(default_factory=dict)
    lent: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Have what is set aside fit into what there is, each in proportion: the budget may be a smaller one now."""
        wanted = sum(self.aside.values())
        if self.most is not None and wanted:
            share = min(max(self.most - self.spent, 0.0) / wanted, 1.0)
            self.aside = {number: share * amount for number, amount in self.aside.items()}

    def left(self, number: int) -> float:
        if self.most is None:
            return float("inf")
        others = sum(amount for one, amount in self.aside.items() if one != number)
        return max(self.most - self.spent - sum(self.lent.values()) - others, 0.0)

    def lend(self, number: int, share: float, least: float = 0.0) -> float | None:
        """Give a run a share of what is left, or what is set aside for it; None: there is no limit."""
        if self.most is None:
            return None
        left = self.left(number)
        self.lent[number] = min(max(left * share, least, self.aside.pop(number, 0.0)), left)
        return self.lent[number]

    def settle(self, number: int, spent: float) -> None:
        self.lent.pop(number, None)
        self.spent += spent


@dataclass(slots=True)
class Earlier:
    """Say what the store had of the fleet before: finished runs of others to learn from, and what its own runs took.

    begun: the entries, by their numbers, that may have a run that is gone on with. anew: of those that are asked anew,
    the calls and dollars that they took the last time.
    """

    lessons: Mapping[str, int] = field(default_factory=dict)
    calls: Mapping[str, int] = field(default_factory=dict)
    usd: Mapping[str, float] = field(default_factory=dict)
    begun: frozenset[int] = frozenset()
    anew: Mapping[int, tuple[float, float]] = field(default_factory=dict)


class Driver:
    def __init__(
        self,
        fleet: Fleet,
        steps: Sequence[Step],
        workers: Workers,
        job: Callable[..., Job],
        tell: Tell,
        earlier: Earlier,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.fleet, self.workers, self.job, self.tell, self.earlier = fleet, workers, job, tell, earlier
        self.clock, self.began = clock, clock()
        self.steps = {step.entry.number: step for step in steps}
        self.waiting = [step.entry.number for step in steps]
        self.running: set[int] = set()
        self.rows: dict[int, Row] = {}
        self.short: list[int] = []
        aside = [{number: took[kind] for number, took in earlier.anew.items()} for kind in (0, 1)]
        self.calls = Purse(fleet.max_calls, sum(earlier.calls.values()), aside[0])
        self.usd = Purse(fleet.max_usd, sum(earlier.usd.values()), aside[1])
        self.before: dict[str, tuple[float, float]] = {
            run: (count, earlier.usd.get(run, 0.0)) for run, count in earlier.calls.items()
        }
        self.parts = Parts(fleet.limits)
        self.stopped = False

    def run(self) -> list[Row]:
        while True:
            try:
                self._hand_out()
                if not self.running:
                    break
                self._collect(*self.workers.next())
            except KeyboardInterrupt:
                if self.stopped:
                    raise
                self.stopped = True
                self.tell("interrupted: waiting for the calls in flight (Ctrl-C again to stop at once)")
                self.workers.interrupt()
        return [self.rows.get(number) or self._unasked(number) for number in sorted(self.steps)]

    # -- handing out --------------------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        while len(self.running) < self.workers.capacity:
            self._give_another_turn()
            ready = self._affordable(self._ready()) or self._begun()
            if not (ready or self.running):
                # Those that they would learn from cannot be afforded: they do without.
                ready = self._affordable(self.waiting)
            ready = [number for number in ready if self.parts.is_left(self.steps[number].entry.servers)]
            if self.stopped or not ready:
                return
            self._submit(ready[0], min(len(ready), self.workers.capacity - len(self.running)))

    def _affordable(self, numbers: Sequence[int]) -> list[int]:
        if self._minutes() == 0:
            return []
        return [one for one in numbers if self.calls.left(one) >= 1 and self.usd.left(one) > 0]

    def _minutes(self) -> float | None:
        most = self.fleet.max_minutes
        return None if most is None else max(most - (self.clock() - self.began) / 60, 0.0)

    def _give_another_turn(self) -> None:
        """Have runs that spent their part wait again, once no other that is as urgent waits or runs."""
        others = [self._urgency(number) for number in (*self.waiting, *self.running)]
        back = [number for number in self.short if self._urgency(number) > max(others, default=-math.inf)]
        self.waiting, self.short = back + self.waiting, [one for one in self.short if one not in back]

    def _ready(self) -> list[int]:
        ended = self.rows.keys() - self.running
        return [number for number in self.waiting if set(self.steps[number].after) <= ended]

    def _begun(self) -> list[int]:
        """Return the runs that were begun by an earlier call and have nothing left: they are read, and not asked."""
        if self.calls.lent or self.usd.lent:  # what is lent may come back
            return []
        begun = [number for number in self.waiting if number in self.earlier.begun - self.rows.keys()]
        return [number for number in begun if not self._affordable([number])]

    def _submit(self, number: int, runs: int) -> None:
        """Hand out a run. runs: that are ready now, and want a part of the servers' limits."""
        step = self.steps[number]
        lessons, read = self._lessons(step), not self._affordable([number])
        job = self.job(step.entry, lessons=lessons, reading=True) if read else self._job(number, lessons)
        self.waiting.remove(number)
        try:
            self.workers.submit(replace(job, limits=self.parts.lend(number, step.entry.servers, runs)))
        except BaseException:  # Ctrl-C while a worker was started: nobody works on it
            self.waiting.insert(0, number)
            self.parts.take_back(number)
            self.calls.settle(number, 0)
            self.usd.settle(number, 0)
            raise
        self.running.add(number)
        if not read:
            taught = f", after {len(step.after)} on the same data" if step.after else ""
            self.tell(f"started: {step.entry.model} on {step.entry.data}{taught}")

    def _job(self, number: int, lessons: Mapping[str, int]) -> Job:
        share = self._share(number)
        calls, usd = self.calls.lend(number, share, least=1), self.usd.lend(number, share)
        allowance = Allowance(None if calls is None else max(int(calls), 1), usd, dict(self.before))
        return self.job(
            self.steps[number].entry, lessons=lessons, allowance=allowance, minutes=self._minutes()
        )

    def _share(self, number: int) -> float:
        """Return the run's part of what is left: among those that wait and are as urgent, by what is expected of
        them."""
        urgent = self._urgency(number)
        peers = [self.steps[one] for one in self.waiting if self._urgency(one) >= urgent]
        return self.steps[number].calls / max(sum(step.calls for step in peers), 1)

    def _urgency(self, number: int) -> float:
        return self.steps[number].entry.priority

    def _lessons(self, step: Step) -> dict[str, int]:
        found = dict(self.earlier.lessons)
        for number in step.after:
            found |= self.rows.get(number, {}).get("lessons", {})
        return found

    # -- collecting ---------------------------------------------------------------------------------------------------

    def _collect(self, number: int, row: Row) -> None:
        self.running.discard(number)
        self.parts.take_back(number)
        row["data"] = self.steps[number].entry.data
        run, usd = str(row["run_id"]), row.get("cost_usd") or 0.0
        calls_before, usd_before = self.before.get(run, (0, 0.0))
        self.calls.settle(number, row["calls"] - calls_before)
        self.usd.settle(number, usd - usd_before)
        row["asked"] = row.get("asked", 0) + self.rows.get(number, {}).get("asked", 0)
        row["kept"] = max(row["calls"] - row["asked"], 0)
        progressed = row["calls"] > self.rows.get(number, {"calls": 0})["calls"] or number not in self.rows
        self.before[run] = row["calls"], usd
        self.rows[number] = row
        if self._wants_more(number, row) and progressed:
            self.short.append(number)
        self.tell(_told(row))

    def _wants_more(self, number: int, row: Row) -> bool:
        """Tell whether a run ended for want of its part of the budget, and not by a limit of its own."""
        own = own_budget(self.steps[number].entry)
        limited = self.fleet.max_calls is not None or self.fleet.max_usd is not None
        mine = own is not None and row["calls"] >= own
        return (
            limited
            and not mine
            and not row.get("interrupted")
            and row.get("stopped") in ("budget", "running")
        )

    def _unasked(self, number: int) -> Row:
        return {**unasked(self.steps[number].entry), "interrupted": self.stopped}


def _told(row: Row) -> str:
    if "error" in row:
        return f"could not run: {row['model']} on {row['data']}: {row['error']}"
    if "headline" not in row:
        return f"{row.get('stopped', 'interrupted')}: {row['model']} on {row['data']}"
    cost = f", {money(row['cost_usd'])}" if row["cost_usd"] else ""
    return f"ended: {row['model']} on {row['data']}: {row['headline']}{cost}"


def jobs(store: str, label: str) -> Callable[..., Job]:
    """Make the jobs of one fleet, so that they mean the same in every folder."""

    began = time.time()

    def made(entry: Entry, **given: Any) -> Job:
        path = Path(entry.data)
        there = replace(entry, data=str(path.absolute())) if is_file(path) else entry
        return Job(there, store, label, began, at=time.time(), **given)

    return made
