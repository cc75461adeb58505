"""The page where people label: which answer somebody is shown next, and what they say of it.

Nobody is shown whose answer it is, what a judge thinks of it, or the score so far. Of two answers the sides are
shuffled for each rater by a hash, so that a page that is loaded again shows the same.
"""

from __future__ import annotations

import hashlib
import threading
import time
from typing import Any

from cereval.datasets.base import Item
from cereval.errors import CerevalError, Misuse
from cereval.questions import kind_of
from cereval.runner.answers import as_text
from cereval.runner.candidates import prompt_of
from cereval.runner.people import people_of
from cereval.scorers.people import POINTS, People
from cereval.store.base import Run
from cereval.store.labels import UNDO_S, Labels, Waiting, agreement, checked_name
from cereval.store.sql import SqlStore
from cereval.view.run_page import Shown

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


class Desk:
    """Hands out answers to label, to no more people at once than labels are wanted."""

    def __init__(self, store: SqlStore) -> None:
        self.store, self.labels = store, Labels(store)
        self._leases: dict[tuple[str, int, str], float] = {}
        self._lock = threading.Lock()

    def runs(self) -> list[tuple[Run, int]]:
        runs = [run for run in self.store.runs() if people_of(run.plan) and not kind_of(run.plan).is_part]
        return [(run, len(self._waiting(Shown.of(self.store, run.run_id)))) for run in reversed(runs)]

    def next_card(self, shown: Shown, rater: str) -> Card | None:
        """Choose what somebody labels next: what the run needs first, of what nobody else looks at."""
        name, raters = checked_name(rater), _people(shown).raters
        if shown.run.status == "finished":
            return None
        taken: dict[tuple[str, int], set[str]] = {}
        for mark in self.labels.ratings(shown.runs):
            taken.setdefault((mark.run_id, mark.draw), set()).add(mark.rater)
        waiting = self._waiting(shown)
        with self._lock:
            now = time.monotonic()
            self._leases = {key: until for key, until in self._leases.items() if until > now}
            rated = {place for place, names in taken.items() if name in names}
            for run_id, draw, who in self._leases:
                taken.setdefault((run_id, draw), set()).add(who)
            for one in waiting:
                place = (one.run_id, one.draw)
                if place not in rated and len(taken.get(place, set()) - {name}) < raters:
                    self._leases[one.run_id, one.draw, name] = now + LEASE_S
                    return make_card(one, shown, name)
        return None

    def rate(self, shown: Shown, rater: str, run_id: str, draw: int, label: str) -> None:
        if run_id not in shown.runs:
            raise Misuse(f"run {run_id} is no part of {shown.run.run_id}")
        name, people = checked_name(rater), _people(shown)
        if people.how == "prefer" and label in ("left", "right"):
            # Translate the side that was preferred into whose answer it showed.
            label = "answer" if (label == "right") == is_swapped(run_id, draw, name) else "other"
        self.labels.rate(run_id, draw, name, people.worth(label), raters=people.raters)
        with self._lock:
            self._leases.pop((run_id, draw, name), None)

    def undo(self, shown: Shown, rater: str) -> Card | None:
        taken = self.labels.take_back(shown.runs, rater)
        waiting = self._waiting(shown) if taken else []
        again = [one for one in waiting if (one.run_id, one.draw) == taken]
        return make_card(again[0], shown, checked_name(rater)) if again else None

    def standing(self, shown: Shown, rater: str) -> dict[str, Any]:
        """Return what is shown beside the card: counts and agreement, and nothing of the score."""
        _people(shown)
        ratings = self.labels.ratings(shown.runs)
        own = [one for one in ratings if rater and one.rater == checked_name(rater)]
        return {
            "labels": len(ratings),
            "own": len(own),
            "raters": sorted({one.rater for one in ratings}),
            "agreement": agreement(ratings),
            "undoable": any(not one.counts and one.at > time.time() - UNDO_S for one in own),
            "undo_s": UNDO_S,
        }

    def _waiting(self, shown: Shown) -> list[Waiting]:
        return self.labels.waiting(shown.runs, shown.plan.data_hash)


def _people(shown: Shown) -> People:
    if shown.people is None:
        raise Misuse(f"run {shown.run.run_id} is not scored by people (--scorer people)")
    return shown.people


def make_card(one: Waiting, shown: Shown, rater: str) -> Card:
    item, plan, how = Item.from_dict(one.item), shown.plan, _people(shown).how
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
    card = {"run_id": one.run_id, "draw": one.draw, "question": question}
    return {**card, "sides": sides, "choices": CHOICES[how]}


def is_swapped(run_id: str, draw: int, rater: str) -> bool:
    """Throw a fair coin that always falls the same way for a rater and an answer."""
    text = f"{run_id} {draw} {rater}".encode("utf-8", "surrogatepass")
    return bool(hashlib.blake2b(text, digest_size=1).digest()[0] & 1)
