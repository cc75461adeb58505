"""Read a run's answers a page at a time, from an index: a million answers are as quick as a hundred.

A page goes on after the key that the last one ended with, so that no page costs more than another. A search looks
through one piece of the run after another and stops after a while, with the key to go on from.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, or_, select, true, tuple_

from cereval.errors import InvalidInput
from cereval.store.sql import SqlStore
from cereval.store.tables import answers, draws, items, mapping

RIGHT = 0.5
"""The least score of a right answer."""
PIECE = 5000
"""How many answers a search looks through at a time."""
LONGEST_SEARCH_S = 1.5
LONGEST_TEXT = 6000
"""Letters of an answer in a list; the answer by itself is shown whole."""
NUMBERS = ("score", "score_first", "score_second", "cost_usd", "latency_s")
"""Columns where anything but a number counts as unknown: SQLite keeps a text wherever somebody writes one."""

Key = tuple[ColumnElement[Any], ...]
Kinds = Mapping[str, ColumnElement[bool]]

KINDS: Kinds = {
    "all": true(),
    "wrong": answers.c.score < RIGHT,
    "right": answers.c.score >= RIGHT,
    "failed": answers.c.score.is_(None),
}
first, second = answers.alias("first"), answers.alias("second")
PAIR_KINDS: Kinds = {
    "disagree": first.c.score != second.c.score,
    "first": first.c.score > second.c.score,
    "second": first.c.score < second.c.score,
    "all": true(),
}
_same_draw = first.c.draw == second.c.draw


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of a run's answers are asked for. after: the key that the last page ended with; empty: from the start."""

    show: str = "all"
    worst_first: bool = False
    text: str = ""
    category: str = ""
    after: tuple[float, ...] = ()
    limit: int = 25

    def __post_init__(self) -> None:
        known = dict.fromkeys((*KINDS, *PAIR_KINDS))
        if self.show not in known:
            raise InvalidInput("show", "one of " + ", ".join(known), self.show)


@dataclass(frozen=True, slots=True)
class Found:
    """A page of answers. after: the key to go on from; None: this was the last."""

    rows: Sequence[Mapping[str, Any]]
    after: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class Browser:
    """Looks through the answers of a store, and changes nothing."""

    store: SqlStore

    def counts(self, run_id: str) -> Mapping[str, int]:
        """Count the answers of each kind."""
        return self._counts(KINDS, select(*_counted(KINDS)).where(answers.c.run_id == run_id))

    def page(self, run_id: str, data_hash: str, wanted: Wanted) -> Found:
        """Return the next answers of a run, in the order of the draws or the worst first."""
        by_score = (wanted.worst_first and wanted.show != "failed") or wanted.show in ("wrong", "right")
        # As the index has them: in another order all of a kind would be sorted for every page.
        key: Key = (answers.c.score, answers.c.draw) if by_score else (answers.c.draw,)
        where = [answers.c.run_id == run_id, KINDS.get(wanted.show, true())]
        if wanted.show == "all" and by_score:
            where.append(answers.c.score.is_not(None))
        return self._look_through(_answers(run_id, data_hash), key, where, wanted, (answers.c.text,))

    def one(self, run_id: str, data_hash: str, draw: int) -> Mapping[str, Any] | None:
        """Return one answer, whole."""
        query = _answers(run_id, data_hash, whole=True)
        with self.store.reading() as connection:
            row = (
                connection.execute(query.where(answers.c.run_id == run_id, answers.c.draw == draw))
                .mappings()
                .first()
            )
        return None if row is None else self._plain(row)

    def pair_counts(self, runs: tuple[str, str]) -> Mapping[str, int]:
        """Count the items that both models answered, and on how many each did better."""
        query = select(*_counted(PAIR_KINDS)).join_from(first, second, _same_draw)
        return self._counts(PAIR_KINDS, query.where(first.c.run_id == runs[0], second.c.run_id == runs[1]))

    def pairs(self, runs: tuple[str, str], data_hash: str, wanted: Wanted) -> Found:
        """Return the next items that both models answered, with both answers."""
        columns = [
            column.label(f"{name}_{side}")
            for side, table in (("first", first), ("second", second))
            for name, column in (
                *((name, table.c[name]) for name in ("score", "failure", "detail")),
                ("text", func.substr(table.c.text, 1, LONGEST_TEXT)),
            )
        ]
        query = (
            select(first.c.draw, items.c.content, *columns)
            .join_from(first, second, and_(_same_draw, second.c.run_id == runs[1]))
            .join(draws, and_(draws.c.run_id == first.c.run_id, draws.c.draw == first.c.draw))
            .join(items, and_(items.c.data_hash == data_hash, items.c.item == draws.c.item))
        )
        where = [first.c.run_id == runs[0], PAIR_KINDS.get(wanted.show, true())]
        return self._look_through(query, (first.c.draw,), where, wanted, (first.c.text, second.c.text))

    def _counts(self, kinds: Kinds, query: Select[Any]) -> Mapping[str, int]:
        with self.store.reading() as connection:
            return dict(zip(kinds, connection.execute(query).one(), strict=True))

    def _look_through(
        self,
        query: Select[Any],
        key: Key,
        where: Sequence[ColumnElement[bool]],
        wanted: Wanted,
        texts: Sequence[ColumnElement[str]],
    ) -> Found:
        """Read one page; a search goes on piece by piece until it has one, or has taken long enough."""
        matches = [*where, *_search(wanted, texts)]
        until, after, rows = time.monotonic() + LONGEST_SEARCH_S, wanted.after, list[Mapping[str, Any]]()
        with self.store.reading() as connection:
            while True:
                beyond = [tuple_(*key) > tuple_(*after)] if len(after) == len(key) else []
                end = None
                if wanted.text or wanted.category:
                    end = _end_of_piece(connection, query.where(*where, *beyond), key)
                inside = [*beyond, *([tuple_(*key) <= tuple_(*end)] if end else [])]
                piece = query.where(*matches, *inside).order_by(*key).limit(wanted.limit - len(rows) + 1)
                rows += map(self._plain, connection.execute(piece).mappings())
                if len(rows) > wanted.limit:
                    last = rows[wanted.limit - 1]
                    return Found(rows[: wanted.limit], tuple(last[column.name] for column in key))
                if end is None or time.monotonic() > until:
                    return Found(rows, end)
                after = end

    def _plain(self, row: Mapping[Any, Any]) -> dict[str, Any]:
        unknown = {name: None for name in NUMBERS if name in row and not isinstance(row[name], int | float)}
        return {**row, **unknown, "content": mapping(row["content"], "content", self.store.name)}


def _counted(kinds: Kinds) -> list[Any]:
    return [func.count(case((condition, 1))) for condition in kinds.values()]


def _answers(run_id: str, data_hash: str, *, whole: bool = False) -> Select[Any]:
    names = ("score", "failure", "detail", "cost_usd", "latency_s", "kept", "at")
    text = answers.c.text if whole else func.substr(answers.c.text, 1, LONGEST_TEXT)
    return (
        select(answers.c.draw, items.c.content, *(answers.c[name] for name in names), text.label("text"))
        .join_from(answers, draws, and_(draws.c.run_id == run_id, draws.c.draw == answers.c.draw))
        .join(items, and_(items.c.data_hash == data_hash, items.c.item == draws.c.item))
    )


def _end_of_piece(connection: Connection, query: Select[Any], key: Key) -> tuple[float, ...] | None:
    """Return the key of the last answer of the next piece; None: the piece goes to the end."""
    bare = query.with_only_columns(*key, maintain_column_froms=True).order_by(*key)
    row = connection.execute(bare.limit(1).offset(PIECE - 1)).first()
    return None if row is None else tuple(row)


def _search(wanted: Wanted, texts: Sequence[ColumnElement[str]]) -> list[ColumnElement[bool]]:
    """Items are kept as JSON in ASCII: what is looked for in them is written alike."""
    found: list[ColumnElement[bool]] = []
    if wanted.text:
        written = json.dumps(wanted.text)[1:-1]
        columns = ((items.c.content, written), *((text, wanted.text) for text in texts))
        found.append(or_(*(column.icontains(text, autoescape=True) for column, text in columns)))
    if wanted.category:
        category = f'"category":{json.dumps(wanted.category)}'
        found.append(items.c.content.contains(category, autoescape=True))
    return found
