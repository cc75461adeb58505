"""Follow runs as they go on: each is replayed once, then told only what is new in the store.

Draws are decided again, as in every replay, so that the interval on the page is the one that the run itself has. A
run that somebody changed (a closer goal, a new budget) is replayed anew: a change comes at a moment of its own.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from cereval.datasets.base import Item
from cereval.plan import Plan
from cereval.records import Draw
from cereval.report.story import Asked, Story, Watch, replayed_run, told_story
from cereval.runner.items import stored_items
from cereval.runner.progress import expected_calls
from cereval.runner.start import Start, Voice, newest_certificate, scores_of
from cereval.store import tables
from cereval.store.base import CHANGED, GOING, Answer, Run
from cereval.store.sql import SqlStore, answer_from

AHEAD = 256
"""Draws that are decided before their answers are there."""
MOST_NAMED = 500
MOST_FOLLOWED = 16
"""Runs kept in memory, the newest looked at."""
MOST_REPLAYED = 20_000
"""Answers of a run whose chart is drawn unasked."""
PACE_S = 30.0
"""The pace is that of the last so many seconds."""


@dataclass(slots=True, eq=False)
class Followed:
    """Hold one run in memory, as far as it has been told."""

    store: SqlStore
    run: Run
    items: Sequence[Item]
    begun: Start
    watch: Watch
    answers: dict[tuple[int, int], Answer]
    """What each model said at each place, without the texts."""
    arrivals: list[float] = field(default_factory=list)
    waiting: list[Draw] = field(default_factory=list)
    marks: int = 0
    """Events of the run when it was last looked at."""
    changes: int = 0
    version: int = 0
    """Goes up whenever there is something new to show."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held while the run goes forward or is told: one looks at it in many threads."""

    @classmethod
    def of(cls, store: SqlStore, run_id: str) -> Followed:
        """Replay a run up to where it stands."""
        run = store.run(run_id)
        events = store.events(run.run_id)
        plan = Plan.from_dict(run.plan)
        items = stored_items(plan, store)
        begun, watch = replayed_run(plan, items, store)
        answers = {
            (number, answer.draw): answer
            for number, voice in enumerate(begun.voices)
            for answer in store.answers(voice.run_id, texts=False)
        }
        arrivals = sorted(at for voice in begun.voices for at in store.answered_at(voice.run_id)[-200:])
        changes = sum(event["status"] == CHANGED for event in events)
        waiting = list(begun.waiting)
        return cls(store, run, items, begun, watch, answers, arrivals, waiting, len(events), changes)

    def advance(self) -> None:
        """Tell the session what has come since, and note what else is new of the run."""
        with self.lock:
            fresh = self._listen()
            run, events = self.store.run(self.run.run_id), self.store.events(self.run.run_id)
            if fresh or len(events) != self.marks or run.status != self.run.status:
                self.run, self.marks = run, len(events)
                self.version += 1

    @property
    def stale(self) -> bool:
        """Tell whether it must be replayed: a goal or a budget was changed, or its draws are decided by another run."""
        if not self.begun.kind.format and self.run.status in GOING:
            return True
        events = self.store.events(self.run.run_id)
        return bool(sum(event["status"] == CHANGED for event in events) != self.changes)

    def _listen(self) -> bool:
        """Take in new answers in turns: those that came may lead to further draws."""
        session, heard = self.begun.session, False
        while not session.done:
            if len(self.waiting) < AHEAD:
                self.waiting += session.ask(AHEAD)
            if not self.waiting or session.done or not self._read():
                break
            heard = True
            self.waiting = [draw for draw in self.waiting if not self._told(draw)]
        return heard

    def _read(self) -> bool:
        """Read the answers that the session waits for."""
        session, found = self.begun.session, False
        for number, voice in enumerate(self.begun.voices):
            asked = [draw for draw in self.waiting if len(self.begun.voices) == 1 or number in draw.models]
            places = [place for place in map(session.place, asked) if place not in voice.results]
            for answer, at in self._stored(voice, places):
                voice.results[answer.draw] = answer.score
                self.answers[number, answer.draw] = answer
                self.begun.spending.add(answer.cost_usd, failed=answer.failure is not None)
                self.arrivals.append(at)
                found = True
        return found

    def _stored(self, voice: Voice, places: Sequence[int]) -> list[tuple[Answer, float]]:
        table = tables.answers
        columns = [column for column in table.c if column.name != "text"]
        found = []
        for begin in range(0, len(places), MOST_NAMED):
            query = select(*columns).where(
                table.c.run_id == voice.run_id, table.c.draw.in_(places[begin : begin + MOST_NAMED])
            )
            with self.store.reading() as connection:
                found += [
                    (answer_from(row), float(row["at"])) for row in connection.execute(query).mappings()
                ]
        return found

    def _told(self, draw: Draw) -> bool:
        scores = scores_of(self.begun.session, self.begun.voices, draw)
        if scores is not None and not self.begun.session.done:
            self.watch.tell(self.begun.session, draw, scores)
        return scores is not None

    # -- what is shown ------------------------------------------------------------------------------------------------

    def story(self) -> Story:
        """Tell the run as it stands, without the texts of its answers."""
        with self.lock:
            asked = tuple(
                Asked(self.begun.voices[number].name, drawn, self.items[drawn.item], answer)
                for (number, place), answer in self.answers.items()
                if (drawn := self._draw(number, place)) is not None
            )
            return told_story(
                self.run, self.begun, self.watch, newest_certificate(self.begun, self.store), asked
            )

    def _draw(self, number: int, place: int) -> Draw | None:
        voice = self.begun.voices[number]
        if place not in voice.stored:
            for draw in self.store.draws(voice.run_id):
                voice.stored[draw.index] = draw
        return voice.stored.get(place)

    def numbers(self) -> dict[str, Any]:
        """Give what a progress bar and its tiles show."""
        with self.lock:
            return self._numbers()

    def _numbers(self) -> dict[str, Any]:
        session, spent = self.begun.session, self.begun.spending
        expected = expected_calls(session)
        pace = self._pace()
        left = None if expected is None else max(expected - session.n_evaluated, 0)
        going = self.run.status in GOING
        return {
            "calls": spent.calls,
            "counted": session.calls,
            "failures": spent.failures,
            "cost_usd": spent.cost_usd,
            "consumed": session.n_evaluated,
            "expected": expected,
            "left": left if not session.done else 0,
            "pace": pace if going else None,
            "eta_s": left / pace if going and left is not None and pace else None,
            "share": 1.0 if session.done else _share(session.n_evaluated, expected, session.n_items),
            "step": self.watch.steps[-1] if self.watch.steps else None,
            "standing": session.standing(),
        }

    def _pace(self) -> float:
        """Count the answers per second of the last moments."""
        now = time.time()
        latest = [at for at in self.arrivals[-2000:] if now - PACE_S <= at <= now]
        return len(latest) / max(now - min(latest), 1.0) if latest else 0.0


def _share(done: int, expected: int | None, n_items: int) -> float:
    return min(done / max(expected or n_items, 1), 1.0)


class Following:
    """Hold the runs that somebody looks at now, each followed once for all who do."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self._runs: OrderedDict[str, Followed] = OrderedDict()
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def now(self, run_id: str) -> Followed:
        """Give a run as it stands this very moment."""
        with self._lock:
            lock = self._locks.setdefault(run_id, threading.Lock())
        with lock:
            known = self._runs.get(run_id)
            if known is None or known.stale:
                version = 0 if known is None else known.version + 1
                known = Followed.of(self.store, run_id)
                known.version = version
            else:
                known.advance()
            with self._lock:
                self._runs[run_id] = known
                self._runs.move_to_end(run_id)
                while len(self._runs) > MOST_FOLLOWED:
                    self._runs.popitem(last=False)
            return known

    def at_hand(self, run_ids: Sequence[str]) -> Mapping[str, Followed]:
        """Give those runs that are followed already, as they were last seen."""
        with self._lock:
            return {run_id: self._runs[run_id] for run_id in run_ids if run_id in self._runs}
