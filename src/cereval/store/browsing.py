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

from cereval.errors import InvalidInput
from cereval.store.database import execute, mapping
from cereval.store.sql import SqlStore

PIECE = 5000
"""How many answers a search looks through at a time."""
LONGEST_SEARCH_S = 1.5
LONGEST_TEXT = 6000
"""Letters of an answer in a list; the answer by itself is shown whole."""
NUMBERS = ("score", "score_first", "score_second", "cost_usd", "latency_s")
"""Columns where anything but a number counts as unknown: SQLite keeps a text wherever somebody writes one."""

KINDS = {
    "all": "1 = 1",
    "wrong": "answers.score < 0.5",
    "right": "answers.score >= 0.5",
    "failed": "answers.score IS NULL",
}
PAIR_KINDS = {
    "disagree": "first.score <> second.score",
    "first": "first.score > second.score",
    "second": "first.score < second.score",
    "all": "1 = 1",
}
WITH_ITEM = """
JOIN draws ON draws.run_id = :run AND draws.draw = {answers}.draw
JOIN items ON items.data_hash = :data AND items.item = draws.item
WHERE {answers}.run_id = :run
"""
ANSWERS = f"""
SELECT answers.draw, items.content, score, failure, detail, cost_usd, latency_s, kept, answers.at,
    substr(text, 1, :longest) AS text
FROM answers {WITH_ITEM.format(answers="answers")}"""
PAIRS = f"""
SELECT first.draw, items.content, substr(first.text, 1, :longest) AS text_first,
    substr(second.text, 1, :longest) AS text_second, first.score AS score_first, second.score AS score_second,
    first.failure AS failure_first, second.failure AS failure_second
FROM answers AS first JOIN answers AS second ON first.draw = second.draw AND second.run_id = :other
{WITH_ITEM.format(answers="first")}"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of a run's answers are asked for. after: the key that the last page ended with; empty: from the start."""

    show: str = "all"
    worst_first: bool = False
    text: str = ""
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
    store: SqlStore

    def counts(self, run_id: str) -> Mapping[str, int]:
        return self._count(KINDS, "FROM answers WHERE run_id = :run", run=run_id)

    def pair_counts(self, runs: tuple[str, str]) -> Mapping[str, int]:
        """Count the items that both models answered, and on how many each did better."""
        pairs = "FROM answers AS first JOIN answers AS second ON first.draw = second.draw"
        where = "WHERE first.run_id = :run AND second.run_id = :other"
        return self._count(PAIR_KINDS, f"{pairs} {where}", run=runs[0], other=runs[1])

    def page(self, run_id: str, data_hash: str, wanted: Wanted) -> Found:
        """Return the next answers of a run, in the order of the draws or the worst first."""
        by_score = (wanted.worst_first and wanted.show != "failed") or wanted.show in ("wrong", "right")
        # As the index has them: in another order all of a kind would be sorted for every page.
        key = ("answers.score", "answers.draw") if by_score else ("answers.draw",)
        where = KINDS.get(wanted.show, "1 = 1") + (" AND answers.score IS NOT NULL" if by_score else "")
        values = {"run": run_id, "data": data_hash, "longest": LONGEST_TEXT}
        return self._look_through(f"{ANSWERS} AND {where}", key, wanted, ("answers.text",), values)

    def pairs(self, runs: tuple[str, str], data_hash: str, wanted: Wanted) -> Found:
        """Return the next items that both models answered, with both answers."""
        values = {"run": runs[0], "other": runs[1], "data": data_hash, "longest": LONGEST_TEXT}
        sql = f"{PAIRS} AND {PAIR_KINDS.get(wanted.show, '1 = 1')}"
        return self._look_through(sql, ("first.draw",), wanted, ("first.text", "second.text"), values)

    def one(self, run_id: str, data_hash: str, draw: int) -> Mapping[str, Any] | None:
        values = {"run": run_id, "data": data_hash, "draw": draw, "longest": 2**30}
        with self.store.reading() as connection:
            row = execute(connection, f"{ANSWERS} AND answers.draw = :draw", **values).mappings().first()
        return None if row is None else self._plain(row)

    def _count(self, kinds: Mapping[str, str], source: str, **values: Any) -> Mapping[str, int]:
        counted = ", ".join(f"count(CASE WHEN {condition} THEN 1 END)" for condition in kinds.values())
        with self.store.reading() as connection:
            row = execute(connection, f"SELECT {counted} {source}", **values).one()
        return dict(zip(kinds, row, strict=True))

    def _look_through(
        self, sql: str, key: Sequence[str], wanted: Wanted, texts: Sequence[str], values: dict[str, Any]
    ) -> Found:
        """Read one page; a search goes on piece by piece until it has one, or has taken long enough."""
        matches, named = _search(wanted.text, texts)
        order = f"ORDER BY {', '.join(key)}"
        until, after, rows = time.monotonic() + LONGEST_SEARCH_S, wanted.after, list[Mapping[str, Any]]()
        with self.store.reading() as connection:
            while True:
                beyond = f" AND ({', '.join(key)}) > {_tuple('after', key)}" if len(after) == len(key) else ""
                known = values | _numbered("after", after if beyond else ())
                end, inside = None, ""
                if matches:
                    bare = f"SELECT {', '.join(key)} {sql[sql.index('FROM') :]}{beyond} {order}"
                    end = execute(connection, f"{bare} LIMIT 1 OFFSET {PIECE - 1}", **known).first()
                if end is not None:
                    inside = f" AND ({', '.join(key)}) <= {_tuple('end', key)}"
                    known |= _numbered("end", end)
                limit = f"LIMIT {wanted.limit - len(rows) + 1}"
                piece = execute(
                    connection, f"{sql}{beyond}{inside}{matches} {order} {limit}", **known, **named
                )
                rows += map(self._plain, piece.mappings())
                if len(rows) > wanted.limit:
                    last = rows[wanted.limit - 1]
                    return Found(rows[: wanted.limit], tuple(last[name.partition(".")[2]] for name in key))
                if end is None or time.monotonic() > until:
                    return Found(rows, None if end is None else tuple(end))
                after = tuple(end)

    def _plain(self, row: Mapping[Any, Any]) -> dict[str, Any]:
        unknown = {name: None for name in NUMBERS if name in row and not isinstance(row[name], int | float)}
        return {**row, **unknown, "content": mapping(row["content"], "content", self.store.name)}


def _tuple(name: str, key: Sequence[str]) -> str:
    return f"({', '.join(f':{name}{number}' for number in range(len(key)))})"


def _numbered(name: str, key: Sequence[float]) -> dict[str, float]:
    return {f"{name}{number}": value for number, value in enumerate(key)}


def _search(text: str, columns: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return a condition and its values. Items are kept as JSON in ASCII: what is looked for is written alike."""
    values = {"text": text, "written": json.dumps(text)[1:-1]}
    for name, found in values.items():
        for sign in "/%_":
            found = found.replace(sign, f"/{sign}")
        values[name] = f"%{found}%"
    parts = [("items.content", "written"), *((column, "text") for column in columns)]
    likes = (f"lower({column}) LIKE lower(:{name}) ESCAPE '/'" for column, name in parts)
    return (f" AND ({' OR '.join(likes)})", values) if text else ("", {})
