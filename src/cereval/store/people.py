"""Say what people have to label, and their labels: replies wait for ratings, ratings can be taken back for a
while."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import and_, delete, exists, func, insert, select

from cereval.errors import InvalidInput, Misuse, StoreError, shown
from cereval.store import schema
from cereval.store.base import Answer
from cereval.store.cells import mapping, read
from cereval.store.faults import place
from cereval.store.sql import SqlStore, storable

UNDO_S = 6.0
"""How long a rating can be taken back; it counts afterwards."""
LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Rating:
    """Say what one person thinks of one answer."""

    run_id: str
    draw: int
    rater: str
    score: float
    at: float

    @property
    def counts(self) -> bool:
        """Tell whether it can no longer be taken back."""
        return self.at <= time.time() - UNDO_S


@dataclass(frozen=True, slots=True)
class Waiting:
    """Hold a reply that is to be labelled: where it belongs, its item as the store keeps it, its text."""

    run_id: str
    draw: int
    item: Mapping[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class Labels:
    """Hold the replies and ratings of a store."""

    store: SqlStore

    def keep(self, run_id: str, reply: Answer) -> None:
        """Keep a reply until it is labelled: it was paid for."""
        table = schema.replies
        with self.store.writing() as connection:
            there = select(table.c.draw).where(table.c.run_id == run_id, table.c.draw == reply.draw)
            if connection.execute(there).first() is None:
                row = {
                    "run_id": run_id,
                    "draw": reply.draw,
                    "content": json.dumps(asdict(reply)),
                    "at": time.time(),
                }
                connection.execute(insert(table).values(**row))

    def reply(self, run_id: str, draw: int) -> Answer | None:
        """Give a reply that was kept."""
        table = schema.replies
        query = select(table.c.content).where(table.c.run_id == run_id, table.c.draw == draw)
        with self.store.reading() as connection:
            content = connection.execute(query).scalar()
        return None if content is None else self._answer(content)

    def _answer(self, content: str) -> Answer:
        where = place(self.store.address)
        try:
            return Answer(**mapping(content, "content", where))
        except TypeError:
            raise StoreError(
                f"{where} is damaged, or was changed by hand: a reply in it is not one: {shown(content)}"
            ) from None

    def waiting(self, run_ids: Sequence[str], data_hash: str) -> list[Waiting]:
        """Give the replies that have no score yet, in the order in which their scores are needed."""
        replies, draws, items, answers = schema.replies, schema.draws, schema.items, schema.answers
        scored = exists().where(answers.c.run_id == replies.c.run_id, answers.c.draw == replies.c.draw)
        query = (
            select(replies, items.c.content.label("item"))
            .join(draws, and_(draws.c.run_id == replies.c.run_id, draws.c.draw == replies.c.draw))
            .join(items, and_(items.c.data_hash == data_hash, items.c.item == draws.c.item))
            .where(replies.c.run_id.in_(list(run_ids)), ~scored)
            .order_by(replies.c.draw, replies.c.run_id)
        )
        where = place(self.store.address)
        with self.store.reading() as connection:
            rows = read(connection, query, where)
        return [
            Waiting(
                row["run_id"],
                row["draw"],
                mapping(row["item"], "content", where),
                str(mapping(row["content"], "content", where).get("text", "")),
            )
            for row in rows
        ]

    def ratings(self, run_ids: Sequence[str]) -> list[Rating]:
        """Give every rating of runs, oldest first."""
        table = schema.ratings
        query = select(table).where(table.c.run_id.in_(list(run_ids))).order_by(table.c.at)
        with self.store.reading() as connection:
            return [Rating(**row) for row in read(connection, query, place(self.store.address))]

    def rate(self, run_id: str, draw: int, rater: str, score: float, at: float | None = None) -> None:
        """Record what somebody thinks of a reply; whoever has rated it before changes their mind, while they can."""
        name, table = named(rater), schema.ratings
        with self.store.writing() as connection:
            self._check_open(connection, run_id, draw)
            own = (table.c.run_id == run_id, table.c.draw == draw, table.c.rater == name)
            connection.execute(delete(table).where(*own))
            row = {"run_id": run_id, "draw": draw, "rater": name, "score": score}
            connection.execute(insert(table).values(**row, at=time.time() if at is None else at))

    def take_back(self, run_ids: Sequence[str], rater: str) -> tuple[str, int] | None:
        """Remove somebody's newest rating if it does not count yet; say which it was."""
        table = schema.ratings
        own = (table.c.run_id.in_(list(run_ids)), table.c.rater == named(rater))
        with self.store.writing() as connection:
            newest = connection.execute(
                select(table).where(*own, table.c.at > time.time() - UNDO_S).order_by(table.c.at.desc())
            ).first()
            if newest is None:
                return None
            connection.execute(
                delete(table).where(*own, table.c.run_id == newest.run_id, table.c.draw == newest.draw)
            )
        return newest.run_id, newest.draw

    def _check_open(self, connection: Any, run_id: str, draw: int) -> None:
        replies, answers = schema.replies, schema.answers
        for table, wanted in ((replies, 1), (answers, 0)):
            query = (
                select(func.count()).select_from(table).where(table.c.run_id == run_id, table.c.draw == draw)
            )
            if connection.execute(query).scalar_one() != wanted:
                reason = "is not there to be labelled" if wanted else "has its score already"
                raise Misuse(f"draw {draw} of run {run_id} {reason}")


def named(rater: str) -> str:
    """Check the name of somebody who labels.

    >>> named("  Ada ")
    'Ada'
    """
    name = storable(" ".join(rater.split()))
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise InvalidInput("rater", f"a name of 1 to {LONGEST_NAME} letters", rater)
    return name


def agreement(ratings: Sequence[Rating]) -> tuple[int, float, float] | None:
    """Compute how far raters agree: on how many answers, how often exactly, and Krippendorff's alpha (interval).

    None where no answer has two ratings. alpha is 1 for full agreement and 0 for that of chance.

    >>> marks = [("a", 0, 1.0), ("b", 0, 1.0), ("a", 1, 0.0), ("b", 1, 0.0), ("a", 2, 1.0), ("b", 2, 0.0)]
    >>> count, same, alpha = agreement([Rating("r", draw, who, score, 0.0) for who, draw, score in marks])
    >>> count, round(same, 2), round(alpha, 2)
    (3, 0.67, 0.44)
    """
    units: dict[tuple[str, int], list[float]] = {}
    for one in ratings:
        units.setdefault((one.run_id, one.draw), []).append(one.score)
    shared = [scores for scores in units.values() if len(scores) > 1]
    if not shared:
        return None
    pairs = [(x, y) for scores in shared for i, x in enumerate(scores) for y in scores[i + 1 :]]
    every = [score for scores in shared for score in scores]
    observed = sum(_spread(scores) / (len(scores) - 1) for scores in shared) / len(every)
    expected = _spread(every) / (len(every) * (len(every) - 1))
    alpha = 1.0 if expected == 0 else 1 - observed / expected
    return len(shared), sum(x == y for x, y in pairs) / len(pairs), alpha


def _spread(scores: Sequence[float]) -> float:
    """Add up the squared differences of all ordered pairs."""
    return 2 * (len(scores) * sum(x * x for x in scores) - sum(scores) ** 2)
