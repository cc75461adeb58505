"""Follow runs as they go on: each is replayed once, and is then told what is new in the store.

The replay decides the draws again, so that the interval on the page is the one that the run itself has. A run that
somebody changed (another goal, another budget) is replayed anew: a change takes effect at a moment of its own.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cereval.datasets.base import Item
from cereval.plan import Plan
from cereval.records import Draw
from cereval.report.story import Asked, Story, Watch, replayed_run, told_story
from cereval.runner.finding import stored_items
from cereval.runner.pace import expected_calls
from cereval.runner.start import Start, newest_certificate, scores_of
from cereval.store.base import CHANGED, GOING, Answer, Run
from cereval.store.sql import SqlStore

AHEAD = 256
"""Draws that are decided before their answers are there."""
MOST_FOLLOWED = 16
"""Runs kept in memory, those that were looked at last."""
PACE_S = 30.0
"""The pace is that of the last so many seconds."""


@dataclass(slots=True, eq=False)
class Followed:
    store: SqlStore
    run: Run
    items: Sequence[Item]
    begun: Start
    watch: Watch
    answers: dict[tuple[int, int], Answer]
    """The answer of each model at each place, without its text."""
    arrivals: list[float]
    waiting: list[Draw]
    events: int
    """How many events the run had when it was last looked at."""
    changes: int
    version: int = 0
    """Goes up whenever there is something new to show."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Many threads look at a run: held while it goes on or is told."""

    @classmethod
    def of(cls, store: SqlStore, run_id: str, version: int) -> Followed:
        run, events = store.run(run_id), store.events(run_id)
        plan = Plan.from_dict(run.plan)
        items = stored_items(plan, store)
        begun, watch = replayed_run(plan, items, store)
        answers = {
            (number, answer.draw): answer
            for number, voice in enumerate(begun.voices)
            for answer in store.answers(voice.run_id, texts=False)
        }
        arrivals = sorted(at for voice in begun.voices for at in store.answered_at(voice.run_id)[-200:])
        waiting, changes = list(begun.waiting), _changes(events)
        return cls(store, run, items, begun, watch, answers, arrivals, waiting, len(events), changes, version)

    def advance(self) -> bool:
        """Tell the session what has come since; return False if the run must be replayed instead."""
        with self.lock:
            run, events = self.store.run(self.run.run_id), self.store.events(self.run.run_id)
            # The draws of a part are decided by another run.
            if _changes(events) != self.changes or (run.status in GOING and not self.begun.kind.format):
                return False
            if self._hear() or len(events) != self.events or run.status != self.run.status:
                self.run, self.events = run, len(events)
                self.version += 1
            return True

    def _hear(self) -> bool:
        """Take in new answers, in turns: those that came may lead to further draws."""
        session, voices, heard = self.begun.session, self.begun.voices, False
        while not session.done:
            if len(self.waiting) < AHEAD:
                self.waiting += session.ask(AHEAD)
            if not self.waiting or session.done or not self._read():
                break
            heard, waiting = True, []
            for draw in self.waiting:
                scores = scores_of(session, voices, draw)
                if scores is None:
                    waiting.append(draw)
                elif not session.done:
                    self.watch.tell(session, draw, scores)
            self.waiting = waiting
        return heard

    def _read(self) -> bool:
        session, found = self.begun.session, False
        for number, voice in enumerate(self.begun.voices):
            asked = [draw for draw in self.waiting if len(self.begun.voices) == 1 or number in draw.models]
            places = [place for place in map(session.place, asked) if place not in voice.results]
            for answer in self.store.answers(voice.run_id, texts=False, only=places):
                voice.results[answer.draw] = answer.score
                self.answers[number, answer.draw] = answer
                self.begun.spending.add(answer.cost_usd, failed=answer.failure is not None)
                self.arrivals.append(time.time())
                found = True
        return found

    def story(self) -> Story:
        with self.lock:
            asked = []
            for (number, place), answer in self.answers.items():
                voice = self.begun.voices[number]
                if place not in voice.stored:
                    voice.stored.update((draw.index, draw) for draw in self.store.draws(voice.run_id))
                if draw := voice.stored.get(place):
                    asked.append(Asked(voice.name, draw, self.items[draw.item], answer))
            certificate = newest_certificate(self.begun, self.store)
            return told_story(self.run, self.begun, self.watch, certificate, tuple(asked))

    def numbers(self) -> dict[str, Any]:
        """Return what the progress bar and its tiles show."""
        with self.lock:
            session, spent = self.begun.session, self.begun.spending
            expected, done = expected_calls(session), session.n_evaluated
            left = 0 if session.done else None if expected is None else max(expected - done, 0)
            now = time.time()
            latest = [at for at in self.arrivals[-2000:] if now - PACE_S <= at <= now]
            pace = len(latest) / max(now - min(latest), 1.0) if latest and self.run.status in GOING else None
            return {
                "calls": spent.calls,
                "surplus": spent.calls - session.calls if left == 0 else 0,
                "failures": spent.failures,
                "cost_usd": spent.cost_usd,
                "left": left,
                "pace": pace,
                "eta_s": left / pace if left and pace else None,
                "share": 1.0 if session.done else min(done / max(expected or session.n_items, 1), 1.0),
                "step": self.watch.steps[-1] if self.watch.steps and done else None,
                "standing": session.standing(),
            }


def _changes(events: Sequence[Mapping[str, Any]]) -> int:
    return sum(event["status"] == CHANGED for event in events)


class Following:
    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self._runs: OrderedDict[str, Followed] = OrderedDict()
        self._turns: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def now(self, run_id: str) -> Followed:
        with self._lock:
            turn = self._turns.setdefault(run_id, threading.Lock())
        with turn:
            known = self.at_hand(run_id)
            if known is None or not known.advance():
                known = Followed.of(self.store, run_id, 0 if known is None else known.version + 1)
            with self._lock:
                self._runs[run_id] = known
                self._runs.move_to_end(run_id)
                while len(self._runs) > MOST_FOLLOWED:
                    self._runs.popitem(last=False)
            return known

    def at_hand(self, run_id: str) -> Followed | None:
        """Return a run that is followed already, as it was last seen."""
        with self._lock:
            return self._runs.get(run_id)
