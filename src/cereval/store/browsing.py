"""Read a run's answers a page at a time, from an index: a million answers are as quick as a hundred.

Pages go on after a key (keyset paging), so that no page costs more than another. A search looks through pieces of the
run and stops after a while, with the key to go on from.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select, tuple_
from sqlalchemy.orm import aliased

from cereval.errors import InvalidInput
from cereval.store import schema
from cereval.store.cells import mapping
from cereval.store.faults import place
from cereval.store.sql import SqlStore

SHOWN = ("all", "wrong", "right", "failed")
PAIRED = ("disagree", "first", "second", "all")
RIGHT = 0.5
"""The least score of a right answer."""
PIECE = 5000
"""Answers looked through at a time by a search."""
LONGEST_SEARCH_S = 1.5
LONGEST_TEXT = 6000
"""Letters of an answer in a list; the answer by itself is shown whole."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Say what of a run's answers is asked for. after: the key that the last page ended with; empty: from the
    start."""

    show: str = "all"
    worst_first: bool = False
    text: str = ""
    category: str = ""
    after: tuple[float, ...] = ()
    limit: int = 25

    def __post_init__(self) -> None:
        if self.show not in (*SHOWN, *PAIRED):
            raise InvalidInput("show", "one of " + ", ".join((*SHOWN, *PAIRED)), self.show)

    @property
    def searches(self) -> bool:
        return bool(self.text or self.category)


@dataclass(frozen=True, slots=True)
class Found:
    """Hold a page: its rows, and the key of the next; None: this was the last."""

    rows: Sequence[Mapping[str, Any]]
    after: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class Counts:
    """Say how many answers there are of each kind."""

    all: int
    right: int
    wrong: int
    failed: int


@dataclass(frozen=True, slots=True)
class PairCounts:
    """On how many items which of two models did better; failed calls count for neither."""

    all: int
    first: int
    second: int

    @property
    def disagree(self) -> int:
        return self.first + self.second


@dataclass(frozen=True, slots=True)
class Browser:
    """Looks through the answers of a store, and changes nothing."""

    store: SqlStore

    def counts(self, run_id: str) -> Counts:
        """Count the answers of each kind."""
        score = schema.answers.c.score
        query = select(
            func.count(),
            func.coalesce(func.sum(case((score >= RIGHT, 1), else_=0)), 0),
            func.coalesce(func.sum(case((score < RIGHT, 1), else_=0)), 0),
            func.coalesce(func.sum(case((score.is_(None), 1), else_=0)), 0),
        ).where(schema.answers.c.run_id == run_id)
        with self.store.reading() as connection:
            return Counts(*map(int, connection.execute(query).one()))

    def page(self, run_id: str, data_hash: str, wanted: Wanted) -> Found:
        """Give the next answers of a run, in the order of the draws or the worst first."""
        answers = schema.answers
        key: tuple[ColumnElement[Any], ...] = (answers.c.draw,)
        # As the index has them: in another order all of a kind would be sorted for every page.
        if (wanted.worst_first and wanted.show != "failed") or wanted.show in ("wrong", "right"):
            key = (answers.c.score, answers.c.draw)
        where = [answers.c.run_id == run_id, *_kinds(wanted, answers.c.score)]
        return self._looked_through(_rows(data_hash, run_id), key, where, wanted, (answers.c.text,))

    def one(self, run_id: str, data_hash: str, draw: int) -> Mapping[str, Any] | None:
        """Give one answer, whole."""
        query = _rows(data_hash, run_id, whole=True).where(schema.answers.c.draw == draw)
        with self.store.reading() as connection:
            row = connection.execute(query.where(schema.answers.c.run_id == run_id)).mappings().first()
        return None if row is None else self._plain(row)

    # -- two models side by side --------------------------------------------------------------------------------------

    def pair_counts(self, runs: tuple[str, str]) -> PairCounts:
        """Count on how many items each of two models did better."""
        first, second = aliased(schema.answers), aliased(schema.answers)
        query = (
            select(
                func.count(),
                func.coalesce(func.sum(case((first.c.score > second.c.score, 1), else_=0)), 0),
                func.coalesce(func.sum(case((first.c.score < second.c.score, 1), else_=0)), 0),
            )
            .join_from(first, second, first.c.draw == second.c.draw)
            .where(first.c.run_id == runs[0], second.c.run_id == runs[1])
        )
        with self.store.reading() as connection:
            return PairCounts(*map(int, connection.execute(query).one()))

    def pairs(self, runs: tuple[str, str], data_hash: str, wanted: Wanted) -> Found:
        """Give the next items that both models answered, with both answers: where they disagree, or all."""
        first, second = aliased(schema.answers), aliased(schema.answers)
        draws, items = schema.draws, schema.items
        query = (
            select(
                first.c.draw,
                items.c.content,
                *(
                    getattr(one.c, name).label(f"{name}_{side}")
                    for side, one in (("first", first), ("second", second))
                    for name in ("score", "failure", "detail")
                ),
                func.substr(first.c.text, 1, LONGEST_TEXT).label("text_first"),
                func.substr(second.c.text, 1, LONGEST_TEXT).label("text_second"),
            )
            .join_from(first, second, and_(first.c.draw == second.c.draw, second.c.run_id == runs[1]))
            .join(draws, and_(draws.c.run_id == first.c.run_id, draws.c.draw == first.c.draw))
            .join(items, and_(items.c.data_hash == data_hash, items.c.item == draws.c.item))
        )
        differing = {
            "disagree": [first.c.score != second.c.score],
            "first": [first.c.score > second.c.score],
            "second": [first.c.score < second.c.score],
        }
        where = [first.c.run_id == runs[0], *differing.get(wanted.show, [])]
        return self._looked_through(query, (first.c.draw,), where, wanted, (first.c.text, second.c.text))

    # -- pieces -------------------------------------------------------------------------------------------------------

    def _looked_through(
        self,
        query: Select[Any],
        key: tuple[ColumnElement[Any], ...],
        where: Sequence[ColumnElement[bool]],
        wanted: Wanted,
        texts: Sequence[ColumnElement[str]],
    ) -> Found:
        """Read one page; a search goes on piece by piece until it has one, or has taken long enough."""
        matches = [*where, *_search(wanted, texts)]
        until, after, rows = time.monotonic() + LONGEST_SEARCH_S, wanted.after, list[Mapping[str, Any]]()
        with self.store.reading() as connection:
            while True:
                end = self._end_of_piece(connection, query, key, where, after) if wanted.searches else None
                inside = [*_beyond(key, after), *([tuple_(*key) <= tuple_(*end)] if end else [])]
                piece = query.where(*matches, *inside).order_by(*key).limit(wanted.limit - len(rows) + 1)
                rows += map(self._plain, connection.execute(piece).mappings())
                if len(rows) > wanted.limit:
                    last = rows[wanted.limit - 1]
                    return Found(rows[: wanted.limit], tuple(last[column.name] for column in key))
                if end is None:
                    return Found(rows, None)
                after = end
                if time.monotonic() > until:
                    return Found(rows, after)

    def _plain(self, row: Mapping[Any, Any]) -> dict[str, Any]:
        """Give a row with its item read, and nothing but numbers where numbers belong."""
        numbers = {name: None for name in NUMBERS if name in row and not isinstance(row[name], int | float)}
        return {**row, **numbers, "content": mapping(row["content"], "content", place(self.store.address))}

    def _end_of_piece(
        self,
        connection: Any,
        query: Select[Any],
        key: tuple[ColumnElement[Any], ...],
        where: Sequence[ColumnElement[bool]],
        after: tuple[float, ...],
    ) -> tuple[float, ...] | None:
        """Give the key of the last answer of the next piece; None: the piece goes to the end."""
        bare = query.with_only_columns(*key, maintain_column_froms=True).where(*where, *_beyond(key, after))
        row = connection.execute(bare.order_by(*key).limit(1).offset(PIECE - 1)).first()
        return None if row is None else tuple(row)


NUMBERS = ("score", "score_first", "score_second", "cost_usd", "latency_s")
"""Columns of numbers, where anything else counts as unknown: SQLite keeps a text wherever somebody writes one."""


def _rows(data_hash: str, run_id: str, *, whole: bool = False) -> Select[Any]:
    answers, draws, items = schema.answers, schema.draws, schema.items
    names = ("score", "failure", "detail", "cost_usd", "latency_s", "kept", "at")
    text = answers.c.text if whole else func.substr(answers.c.text, 1, LONGEST_TEXT)
    return (
        select(answers.c.draw, items.c.content, *(answers.c[name] for name in names), text.label("text"))
        .join_from(answers, draws, and_(draws.c.run_id == run_id, draws.c.draw == answers.c.draw))
        .join(items, and_(items.c.data_hash == data_hash, items.c.item == draws.c.item))
    )


def _kinds(wanted: Wanted, score: ColumnElement[Any]) -> list[ColumnElement[bool]]:
    kinds: dict[str, list[ColumnElement[bool]]] = {
        "wrong": [score < RIGHT],
        "right": [score >= RIGHT],
        "failed": [score.is_(None)],
        "all": [score.is_not(None)] if wanted.worst_first else [],
    }
    return kinds.get(wanted.show, [])


def _beyond(key: tuple[ColumnElement[Any], ...], after: tuple[float, ...]) -> list[ColumnElement[bool]]:
    return [tuple_(*key) > tuple_(*after)] if len(after) == len(key) else []


def _search(wanted: Wanted, texts: Sequence[ColumnElement[str]]) -> list[ColumnElement[bool]]:
    """Items are kept as JSON in ASCII: what is looked for in them is written alike."""
    content, found = schema.items.c.content, []
    if wanted.text:
        written = json.dumps(wanted.text)[1:-1]
        found.append(
            or_(
                content.icontains(written, autoescape=True),
                *(text.icontains(wanted.text, autoescape=True) for text in texts),
            )
        )
    if wanted.category:
        found.append(content.contains(f'"category":{json.dumps(wanted.category)}', autoescape=True))
    return found
