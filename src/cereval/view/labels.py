"""Labels by people: which answer somebody is shown next, and what they say of it.

Nobody is shown whose answer it is, what a judge thinks of it, or the score so far. Of two answers the sides are
shuffled for each rater by a hash, so that a page that is loaded again shows the same.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping
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
from cereval.store.labels import UNDO_S, Labels, Rating, Waiting, agreement, checked_name
from cereval.store.sql import SqlStore

LEASE_S = 180.0
"""How long an answer is kept for whoever was shown it; lost at a restart, which only costs a second opinion."""


@dataclass(frozen=True, slots=True)
class Side:
    """Hold one of the texts that a rater sees."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Hold a label that can be given: the key that gives it, its words, and what the form sends."""

    key: str
    words: str
    label: str


@dataclass(frozen=True, slots=True)
class Card:
    """Say what a rater is shown."""

    run_id: str
    draw: int
    question: str
    sides: tuple[Side, ...]
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Labelled:
    """Hold a run that people score, and the runs that keep its answers."""

    run: Run
    plan: Plan
    people: People
    parts: tuple[str, ...]

    @classmethod
    def of(cls, store: SqlStore, run_id: str) -> Labelled:
        run = store.run(run_id)
        people = people_of(run.plan)
        plan = Plan.from_dict(run.plan)
        if people is None or not kind_of(plan).format:
            raise Misuse(f"run {run.run_id} is not scored by people (--scorer people)")
        return cls(run, plan, people, tuple(part.run_id for part in kind_of(plan).parts(plan)))

    @property
    def going(self) -> bool:
        return self.run.status in GOING


class Desk:
    """Hands out answers to label, no answer to two people at once unless two are wanted."""

    def __init__(self, store: SqlStore) -> None:
        self.store, self.labels = store, Labels(store)
        self._leases: dict[tuple[str, int, str], float] = {}
        self._lock = threading.Lock()

    def runs(self) -> list[tuple[Run, int]]:
        """Give the runs that people score, newest first, with how many answers wait."""
        found = []
        for run in self.store.runs():
            if people_of(run.plan) is not None and kind_of(run.plan).format:
                labelled = Labelled.of(self.store, run.run_id)
                found.append((run, len(self.labels.waiting(labelled.parts, labelled.plan.data_hash))))
        return found[::-1]

    def next_card(self, labelled: Labelled, rater: str) -> Card | None:
        """Choose what somebody labels next: what the run needs first, of what nobody else looks at."""
        name = checked_name(rater)
        if labelled.run.status == "finished":
            return None
        rated: dict[tuple[str, int], set[str]] = {}
        for mark in self.labels.ratings(labelled.parts):
            rated.setdefault((mark.run_id, mark.draw), set()).add(mark.rater)
        waiting = self.labels.waiting(labelled.parts, labelled.plan.data_hash)
        with self._lock:
            now = time.monotonic()
            self._leases = {key: until for key, until in self._leases.items() if until > now}
            for one in waiting:
                by = rated.get((one.run_id, one.draw), set())
                others = {who for run, draw, who in self._leases if (run, draw) == (one.run_id, one.draw)} - {
                    name
                }
                if name not in by and len(by | others) < labelled.people.raters:
                    self._leases[one.run_id, one.draw, name] = now + LEASE_S
                    return card_of(one, labelled, name)
        return None

    def card(self, labelled: Labelled, rater: str, run_id: str, draw: int) -> Card | None:
        """Give one card again, such as one whose label was taken back."""
        for one in self.labels.waiting(labelled.parts, labelled.plan.data_hash):
            if (one.run_id, one.draw) == (run_id, draw):
                return card_of(one, labelled, checked_name(rater))
        return None

    def rate(self, labelled: Labelled, rater: str, run_id: str, draw: int, label: str) -> None:
        """Take a label in."""
        if run_id not in labelled.parts:
            raise Misuse(f"run {run_id} is no part of {labelled.run.run_id}")
        name = checked_name(rater)
        score = labelled.people.worth(meant(labelled, run_id, draw, name, label))
        self.labels.rate(run_id, draw, name, score, raters=labelled.people.raters)
        with self._lock:
            self._leases.pop((run_id, draw, name), None)

    def undo(self, labelled: Labelled, rater: str) -> Card | None:
        """Take back somebody's newest label, if it does not count yet, and show its card again."""
        taken = self.labels.take_back(labelled.parts, rater)
        return None if taken is None else self.card(labelled, rater, *taken)

    def standing(self, labelled: Labelled, rater: str) -> dict[str, Any]:
        """Give what is shown beside the card: counts and agreement, and nothing of the score."""
        ratings = self.labels.ratings(labelled.parts)
        return {
            "labels": len(ratings),
            "own": sum(one.rater == checked_name(rater) for one in ratings) if rater else 0,
            "raters": sorted({one.rater for one in ratings}),
            "agreement": agreement(ratings),
            "undoable": bool(rater) and any(_undoable(one, rater) for one in ratings),
            "undo_s": UNDO_S,
        }


def _undoable(one: Rating, rater: str) -> bool:
    return one.rater == checked_name(rater) and not one.counts


def card_of(one: Waiting, labelled: Labelled, rater: str) -> Card:
    """Make a card of a reply: its question, the texts, the keys."""
    item = item_from(one.item)
    plan, people = labelled.plan, labelled.people
    prompt = prompt_of(plan.candidates[0])
    try:
        question = as_text(prompt.messages(item)[-1:])
    except CerevalError:
        question = item.text
    if people.how == "prefer":
        texts = [one.text, item.answer or ""]
        if swapped(one.run_id, one.draw, rater):
            texts.reverse()
        sides = (Side("Left", texts[0]), Side("Right", texts[1]))
        choices = (Choice("1", "Left is better", "left"), Choice("0", "Equally good", "tie"))
        return Card(
            one.run_id, one.draw, question, sides, (*choices, Choice("2", "Right is better", "right"))
        )
    shown = [Side("Answer", one.text)]
    if people.how == "right" and item.answer is not None:
        shown.append(Side("Expected", item.answer))
    return Card(one.run_id, one.draw, question, tuple(shown), _choices(people))


def _choices(people: People) -> tuple[Choice, ...]:
    if people.how == "right":
        return (Choice("1", "Right", "1"), Choice("0", "Wrong", "0"))
    ends: Mapping[int, str] = {1: "1 (worst)", POINTS: f"{POINTS} (best)"}
    return tuple(
        Choice(str(point), ends.get(point, str(point)), str(point)) for point in range(1, POINTS + 1)
    )


def swapped(run_id: str, draw: int, rater: str) -> bool:
    """Throw a fair coin that always falls the same way for a rater and an answer."""
    text = f"{run_id} {draw} {rater}".encode("utf-8", "surrogatepass")
    return bool(hashlib.blake2b(text, digest_size=1).digest()[0] & 1)


def meant(labelled: Labelled, run_id: str, draw: int, rater: str, label: str) -> str:
    """Translate a side that was preferred into whose it was."""
    if labelled.people.how != "prefer" or label == "tie":
        return label
    answer = "right" if swapped(run_id, draw, rater) else "left"
    return {answer: "answer"}.get(label, "other" if label in ("left", "right") else label)
