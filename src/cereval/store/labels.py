"""Labels by people: replies wait for ratings; a rating can be taken back for a few seconds, then it counts."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import and_, delete, exists, insert, select, update

from cereval.errors import InvalidInput, Misuse, StoreError, shown
from cereval.store.base import Answer
from cereval.store.sql import SqlStore, storable
from cereval.store.tables import answers, draws, items, mapping, ratings, read, replies

UNDO_S = 6.0
"""How long a rating can be taken back."""
LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Rating:
    """What one person thinks of one answer. counts: it can no longer be taken back."""

    run_id: str
    draw: int
    rater: str
    score: float
    at: float
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """A reply without a score, with its item as the store keeps it."""

    run_id: str
    draw: int
    item: Mapping[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class Labels:
    """The replies and ratings of a store."""

    store: SqlStore

    def keep(self, run_id: str, reply: Answer) -> None:
        """Keep a reply until it is labelled: it was paid for."""
        row = {"run_id": run_id, "draw": reply.draw, "content": json.dumps(asdict(reply)), "at": time.time()}
        with self.store.writing() as connection:
            if (
                connection.execute(select(replies.c.draw).where(*_of(replies, run_id, reply.draw))).first()
                is None
            ):
                connection.execute(insert(replies).values(row))

    def reply(self, run_id: str, draw: int) -> Answer | None:
        with self.store.reading() as connection:
            content = connection.execute(
                select(replies.c.content).where(*_of(replies, run_id, draw))
            ).scalar()
        if content is None:
            return None
        try:
            return Answer(**mapping(content, "content", self.store.name))
        except TypeError:
            raise StoreError(
                f"{self.store.name} is damaged, or was changed by hand: a reply in it is not one: {shown(content)}"
            ) from None

    def waiting(self, run_ids: Sequence[str], data_hash: str) -> list[Waiting]:
        """Return the replies without a score, in the order in which their scores are needed."""
        scored = exists().where(answers.c.run_id == replies.c.run_id, answers.c.draw == replies.c.draw)
        query = (
            select(replies, items.c.content.label("item"))
            .join(draws, and_(draws.c.run_id == replies.c.run_id, draws.c.draw == replies.c.draw))
            .join(items, and_(items.c.data_hash == data_hash, items.c.item == draws.c.item))
            .where(replies.c.run_id.in_(list(run_ids)), ~scored)
            .order_by(replies.c.draw, replies.c.run_id)
        )
        place = self.store.name
        with self.store.reading() as connection:
            rows = read(connection, query, place)
        return [
            Waiting(
                row["run_id"],
                row["draw"],
                mapping(row["item"], "content", place),
                str(mapping(row["content"], "content", place).get("text", "")),
            )
            for row in rows
        ]

    def ratings(self, run_ids: Sequence[str]) -> list[Rating]:
        """Return every rating of runs, oldest first."""
        query = select(ratings).where(ratings.c.run_id.in_(list(run_ids))).order_by(ratings.c.at)
        with self.store.reading() as connection:
            rows = [dict(row) for row in read(connection, query, self.store.name)]
        return [Rating(counts=bool(row.pop("final")), **row) for row in rows]

    def settle(self, run_ids: Sequence[str]) -> list[Rating]:
        """Let the ratings count that nobody may take back any more; return every rating, oldest first.

        That a rating counts is written down, so that none is used and taken back at the same moment.
        """
        found, due = self.ratings(run_ids), time.time() - UNDO_S
        if not any(one.at <= due and not one.counts for one in found):
            return found
        with self.store.writing() as connection:
            ripe = (ratings.c.run_id.in_(list(run_ids)), ratings.c.at <= due)
            connection.execute(update(ratings).where(*ripe).values(final=1))
        return self.ratings(run_ids)

    def rate(
        self, run_id: str, draw: int, rater: str, score: float, *, raters: int, final: bool = False
    ) -> None:
        """Record what somebody thinks of a reply, or thinks now. final: it counts at once.

        raters: how many ratings a reply takes.
        """
        name, what = checked_name(rater), f"draw {draw} of run {run_id}"
        with self.store.writing() as connection:
            # Locking the reply makes raters wait for one another.
            waits = select(replies.c.draw).where(*_of(replies, run_id, draw)).with_for_update()
            if connection.execute(waits).first() is None:
                raise Misuse(f"{what} is not there to be labelled")
            if connection.execute(select(answers.c.draw).where(*_of(answers, run_id, draw))).first():
                raise Misuse(f"{what} has its score already")
            given = {
                row.rater: row
                for row in connection.execute(select(ratings).where(*_of(ratings, run_id, draw)))
            }
            own = given.pop(name, None)
            if own is not None and own.final and own.score == score:
                return
            if own is not None and own.final:
                raise Misuse(f"the label of {name} for {what} counts already")
            if len(given) >= raters:
                raise Misuse(f"{what} has its {raters} label{'s' if raters > 1 else ''} already")
            connection.execute(delete(ratings).where(*_of(ratings, run_id, draw), ratings.c.rater == name))
            row = {"run_id": run_id, "draw": draw, "rater": name, "score": score}
            connection.execute(insert(ratings).values(**row, at=time.time(), final=int(final)))

    def take_back(self, run_ids: Sequence[str], rater: str) -> tuple[str, int] | None:
        """Remove somebody's newest rating unless it counts; return its run and draw."""
        own = (ratings.c.run_id.in_(list(run_ids)), ratings.c.rater == checked_name(rater))
        with self.store.writing() as connection:
            not_final = (*own, ratings.c.final == 0, ratings.c.at > time.time() - UNDO_S)
            newest = connection.execute(
                select(ratings).where(*not_final).order_by(ratings.c.at.desc())
            ).first()
            if newest is None:
                return None
            gone = delete(ratings).where(*not_final, *_of(ratings, newest.run_id, newest.draw))
            return (newest.run_id, newest.draw) if connection.execute(gone).rowcount else None


def _of(table: Any, run_id: str, draw: int) -> tuple[Any, Any]:
    return table.c.run_id == run_id, table.c.draw == draw


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
    """Return the sum of the squared differences of all ordered pairs."""
    return 2 * (len(scores) * sum(x * x for x in scores) - sum(scores) ** 2)
