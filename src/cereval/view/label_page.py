"""The page where people label: which answer somebody is shown next, and what they say of it.

Nobody is shown whose answer it is, what a judge thinks of it, or the score so far. Of two answers the sides are
shuffled for each rater by a hash, so that a page that is loaded again shows the same.
"""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass
from typing import Any

from cereval.errors import CerevalError, Misuse
from cereval.plan import Plan
from cereval.questions import kind_of
from cereval.runner.answers import as_text
from cereval.runner.candidates import prompt_of
from cereval.runner.items import item_from
from cereval.runner.people import people_of
from cereval.scorers.people import POINTS, People
from cereval.store.base import GOING, Run
from cereval.store.labels import UNDO_S, Labels, Waiting, agreement, checked_name
from cereval.store.sql import SqlStore

LEASE_S = 180.0
"""How long an answer is kept for whoever was shown it. A restart forgets it, which only costs a second opinion."""

CHOICES = {
    "right": [("1", "Right", "1"), ("0", "Wrong", "0")],
    "prefer": [
        ("1", "Left is better", "left"),
        ("0", "Equally good", "tie"),
        ("2", "Right is better", "right"),
    ],
    "scale": [
        (str(point), {1: "1 (worst)", POINTS: f"{POINTS} (best)"}.get(point, str(point)), str(point))
        for point in range(1, POINTS + 1)
    ],
}
"""The labels by the way in which people judge: the key that gives it, its words, and what the form sends."""

Card = dict[str, Any]
"""What a rater is shown: `run_id`, `draw`, `question`, `sides` (names and texts) and `choices`."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A run that people score, and the runs that keep its answers."""

    run: Run
    plan: Plan
    people: People
    parts: tuple[str, ...]

    @classmethod
    def of(cls, store: SqlStore, run_id: str) -> Labelled:
        run = store.run(run_id)
        people = people_of(run.plan)
        plan = Plan.from_dict(run.plan)
        if people is None or kind_of(plan).is_part:
            raise Misuse(f"run {run.run_id} is not scored by people (--scorer people)")
        return cls(run, plan, people, tuple(part.run_id for part in kind_of(plan).parts(plan)))

    @property
    def going(self) -> bool:
        return self.run.status in GOING


class Desk:
    """Hands out answers to label, to no more people at once than labels are wanted."""

    def __init__(self, store: SqlStore) -> None:
        self.store, self.labels = store, Labels(store)
        self._leases: dict[tuple[str, int, str], float] = {}
        self._lock = threading.Lock()

    def runs(self) -> list[tuple[Run, int]]:
        """Return the runs that people score, newest first, with how many answers wait."""
        runs = [run for run in self.store.runs() if people_of(run.plan) and not kind_of(run.plan).is_part]
        return [(run, len(self._waiting(Labelled.of(self.store, run.run_id)))) for run in reversed(runs)]

    def next_card(self, labelled: Labelled, rater: str) -> Card | None:
        """Choose what somebody labels next: what the run needs first, of what nobody else looks at."""
        name = checked_name(rater)
        if labelled.run.status == "finished":
            return None
        taken: dict[tuple[str, int], set[str]] = {}
        for mark in self.labels.ratings(labelled.parts):
            taken.setdefault((mark.run_id, mark.draw), set()).add(mark.rater)
        waiting = self._waiting(labelled)
        with self._lock:
            now = time.monotonic()
            self._leases = {key: until for key, until in self._leases.items() if until > now}
            rated = {place for place, names in taken.items() if name in names}
            for run_id, draw, who in self._leases:
                taken.setdefault((run_id, draw), set()).add(who)
            for one in waiting:
                place = (one.run_id, one.draw)
                if place not in rated and len(taken.get(place, set()) - {name}) < labelled.people.raters:
                    self._leases[one.run_id, one.draw, name] = now + LEASE_S
                    return make_card(one, labelled, name)
        return None

    def rate(self, labelled: Labelled, rater: str, run_id: str, draw: int, label: str) -> None:
        if run_id not in labelled.parts:
            raise Misuse(f"run {run_id} is no part of {labelled.run.run_id}")
        name, people = checked_name(rater), labelled.people
        if people.how == "prefer" and label in ("left", "right"):
            # Translate the side that was preferred into whose answer it showed.
            label = "answer" if (label == "right") == is_swapped(run_id, draw, name) else "other"
        self.labels.rate(run_id, draw, name, people.worth(label), raters=people.raters)
        with self._lock:
            self._leases.pop((run_id, draw, name), None)

    def undo(self, labelled: Labelled, rater: str) -> Card | None:
        """Take back somebody's newest label unless it counts, and return its card."""
        taken = self.labels.take_back(labelled.parts, rater)
        waiting = self._waiting(labelled) if taken else []
        again = [one for one in waiting if (one.run_id, one.draw) == taken]
        return make_card(again[0], labelled, checked_name(rater)) if again else None

    def standing(self, labelled: Labelled, rater: str) -> dict[str, Any]:
        """Return what is shown beside the card: counts and agreement, and nothing of the score."""
        ratings = self.labels.ratings(labelled.parts)
        own = [one for one in ratings if rater and one.rater == checked_name(rater)]
        return {
            "labels": len(ratings),
            "own": len(own),
            "raters": sorted({one.rater for one in ratings}),
            "agreement": agreement(ratings),
            "undoable": any(not one.counts and one.at > time.time() - UNDO_S for one in own),
            "undo_s": UNDO_S,
        }

    def _waiting(self, labelled: Labelled) -> list[Waiting]:
        return self.labels.waiting(labelled.parts, labelled.plan.data_hash)


def make_card(one: Waiting, labelled: Labelled, rater: str) -> Card:
    item, plan, how = item_from(one.item), labelled.plan, labelled.people.how
    try:
        prompt = prompt_of(plan.candidates[0])
        question = as_text(prompt.messages(item)[-1:])
    except CerevalError:
        question = item.text
    sides = [("Answer", one.text)]
    if how == "prefer":
        texts = [one.text, item.answer or ""]
        left, right = reversed(texts) if is_swapped(one.run_id, one.draw, rater) else texts
        sides = [("Left", left), ("Right", right)]
    elif how == "right" and item.answer is not None:
        sides.append(("Expected", item.answer))
    shown = {"question": question, "sides": sides, "choices": CHOICES[how]}
    return {"run_id": one.run_id, "draw": one.draw, **shown}


def is_swapped(run_id: str, draw: int, rater: str) -> bool:
    """Throw a fair coin that always falls the same way for a rater and an answer."""
    text = f"{run_id} {draw} {rater}".encode("utf-8", "surrogatepass")
    return bool(hashlib.blake2b(text, digest_size=1).digest()[0] & 1)
