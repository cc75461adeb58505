"""Labels by people: replies wait for ratings; a rating can be taken back for a few seconds, then it counts."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cereval.errors import InvalidInput, Misuse
from cereval.store.base import Answer
from cereval.store.database import execute, insert_rows, mapping, refuse
from cereval.store.sql import SqlStore
from cereval.text import storable

UNDO_S = 6.0
"""How long a rating can be taken back."""
LONGEST_NAME = 60

PLACE = "run_id = :run AND draw = :draw"


@dataclass(frozen=True, slots=True)
class Rating:
    """What one person thinks of one answer. counts: it can no longer be taken back."""

    run_id: str
    draw: int
    rater: str
    score: float
    at: float
    counts: int = 0


@dataclass(frozen=True, slots=True)
class Waiting:
    run_id: str
    draw: int
    item: Mapping[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class Labels:
    store: SqlStore

    def keep(self, run_id: str, reply: Answer) -> None:
        """Keep a reply until it is labelled: it was paid for."""
        row = {"run_id": run_id, "draw": reply.draw, "content": json.dumps(asdict(reply)), "at": time.time()}
        with self.store.writing() as connection:
            insert_rows(connection, "replies", [row], ignore_known=True)

    def reply(self, run_id: str, draw: int) -> Answer | None:
        rows = self.store.read(f"SELECT content FROM replies WHERE {PLACE}", run=run_id, draw=draw)
        try:
            return Answer(**mapping(rows[0]["content"], "content", self.store.name)) if rows else None
        except TypeError:
            refuse("content", rows[0]["content"], self.store.name)

    def waiting(self, run_ids: Sequence[str], data_hash: str) -> list[Waiting]:
        """Return the replies without a score, in the order in which their scores are needed."""
        sql = """
            SELECT replies.*, items.content AS asked FROM replies JOIN draws USING (run_id, draw)
            JOIN items ON items.data_hash = :data AND items.item = draws.item
            LEFT JOIN answers USING (run_id, draw) WHERE run_id IN :runs AND text IS NULL ORDER BY draw, run_id"""
        found = []
        for row in self.store.read(sql, data=data_hash, runs=list(run_ids)):
            item, reply = (mapping(row[name], "content", self.store.name) for name in ("asked", "content"))
            found.append(Waiting(row["run_id"], row["draw"], item, str(reply.get("text", ""))))
        return found

    def ratings(self, run_ids: Sequence[str]) -> list[Rating]:
        rows = self.store.read("SELECT * FROM ratings WHERE run_id IN :runs ORDER BY at", runs=list(run_ids))
        names = ("run_id", "draw", "rater", "score", "at", "final")
        return [Rating(*(row[name] for name in names)) for row in rows]

    def settle(self, run_ids: Sequence[str]) -> list[Rating]:
        """Let the ratings count that nobody may take back any more; return every rating, oldest first.

        That a rating counts is written down, so that none is used and taken back at the same moment.
        """
        found, due = self.ratings(run_ids), time.time() - UNDO_S
        if not any(one.at <= due and not one.counts for one in found):
            return found
        with self.store.writing() as connection:
            ripe = "UPDATE ratings SET final = 1 WHERE run_id IN :runs AND at <= :due"
            execute(connection, ripe, runs=list(run_ids), due=due)
        return self.ratings(run_ids)

    def rate(
        self, run_id: str, draw: int, rater: str, score: float, *, raters: int, final: bool = False
    ) -> None:
        """Record what somebody thinks of a reply, or thinks now. final: it counts at once.

        raters: how many ratings a reply takes.
        """
        name, what, place = checked_name(rater), f"draw {draw} of run {run_id}", {"run": run_id, "draw": draw}
        with self.store.writing() as connection:
            # Locking the reply makes raters wait for one another; on SQLite the transaction does.
            lock = " FOR UPDATE" if connection.dialect.name == "postgresql" else ""
            if not execute(connection, f"SELECT draw FROM replies WHERE {PLACE}{lock}", **place).first():
                raise Misuse(f"{what} is not there to be labelled")
            if execute(connection, f"SELECT draw FROM answers WHERE {PLACE}", **place).first():
                raise Misuse(f"{what} has its score already")
            rows = execute(
                connection, f"SELECT rater, score, final FROM ratings WHERE {PLACE}", **place
            ).all()
            given = {row.rater: row for row in rows}
            own = given.pop(name, None)
            if own is not None and own.final:
                if own.score == score:
                    return
                raise Misuse(f"the label of {name} for {what} counts already")
            if len(given) >= raters:
                raise Misuse(f"{what} has its {raters} label{'s' if raters > 1 else ''} already")
            execute(connection, f"DELETE FROM ratings WHERE {PLACE} AND rater = :rater", rater=name, **place)
            row = {"run_id": run_id, "draw": draw, "rater": name, "score": score}
            insert_rows(connection, "ratings", [row | {"at": time.time(), "final": int(final)}])

    def take_back(self, run_ids: Sequence[str], rater: str) -> tuple[str, int] | None:
        """Remove somebody's newest rating unless it counts; return its run and draw."""
        own = "FROM ratings WHERE run_id IN :runs AND rater = :rater AND final = 0 AND at > :since"
        with self.store.writing() as connection:
            values = {"runs": list(run_ids), "rater": checked_name(rater), "since": time.time() - UNDO_S}
            newest = execute(
                connection, f"SELECT run_id, draw {own} ORDER BY at DESC LIMIT 1", **values
            ).first()
            if newest is None:
                return None
            gone = execute(
                connection, f"DELETE {own} AND {PLACE}", run=newest.run_id, draw=newest.draw, **values
            )
            return (newest.run_id, newest.draw) if gone.rowcount else None


def checked_name(rater: str) -> str:
    """Return the name of somebody who labels, if it can be one.

    >>> checked_name("  Ada ")
    'Ada'
    """
    name = storable(" ".join(rater.split()))
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise InvalidInput("rater", f"a name of 1 to {LONGEST_NAME} letters", rater)
    return name


def agreement(given: Sequence[Rating]) -> tuple[int, float, float] | None:
    """Return how far raters agree: on how many answers, how often exactly, and Krippendorff's alpha (interval).

    None if no answer has two ratings. alpha is 1 for full agreement, and 0 for the agreement that chance would give.

    >>> marks = [("a", 0, 1.0), ("b", 0, 1.0), ("a", 1, 0.0), ("b", 1, 0.0), ("a", 2, 1.0), ("b", 2, 0.0)]
    >>> count, same, alpha = agreement([Rating("r", draw, who, score, 0.0) for who, draw, score in marks])
    >>> count, round(same, 2), round(alpha, 2)
    (3, 0.67, 0.44)
    """
    scores_of: dict[tuple[str, int], list[float]] = {}
    for one in given:
        scores_of.setdefault((one.run_id, one.draw), []).append(one.score)
    shared = [scores for scores in scores_of.values() if len(scores) > 1]
    if not shared:
        return None
    pairs = [(x, y) for scores in shared for i, x in enumerate(scores) for y in scores[i + 1 :]]
    every = [score for scores in shared for score in scores]
    observed = sum(_spread(scores) / (len(scores) - 1) for scores in shared) / len(every)
    expected = _spread(every) / (len(every) * (len(every) - 1))
    alpha = 1.0 if expected == 0 else 1 - observed / expected
    return len(shared), sum(x == y for x, y in pairs) / len(pairs), alpha


def _spread(scores: Sequence[float]) -> float:
    return 2 * (len(scores) * sum(x * x for x in scores) - sum(scores) ** 2)
