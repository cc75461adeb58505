"""The tables of a store, and the check of what is read from them: SQLite keeps any value in any column."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, NoReturn

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    MetaData,
    Select,
    Table,
    Text,
    func,
    insert,
    inspect,
    select,
    text,
)

from cereval.errors import StoreError, shown
from cereval.store.base import now

SCHEMA = 1
"""The number of the schema, which a database keeps; it changes whenever the tables do."""
SCHEMA_LOCK = 0x63657265

metadata = MetaData()


def _run() -> Column[str]:
    return Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True)


def _key(name: str) -> Column[int]:
    return Column(name, BigInteger, primary_key=True, autoincrement=False)


def _texts(*names: str) -> list[Column[str]]:
    return [Column(name, Text, nullable=False) for name in names]


def _counts(*names: str) -> list[Column[int]]:
    return [Column(name, BigInteger, nullable=False) for name in names]


def _numbers(*names: str) -> list[Column[float]]:
    return [Column(name, Double, nullable=False) for name in names]


schema_versions = Table("cereval_schema", metadata, _key("version"), *_texts("applied_at"))
runs = Table(
    "runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    *_texts("plan", "data_hash", "model", "created_at"),
    *_counts("engine"),
    Index("runs_by_data", "data_hash"),
)
events = Table("events", metadata, _run(), _key("number"), *_texts("status", "detail", "at"))
labels = Table("labels", metadata, _run(), Column("label", Text, primary_key=True))
certificates = Table("certificates", metadata, _run(), _key("number"), *_texts("content", "at"))
leases = Table("leases", metadata, Column("run_id", Text, primary_key=True), *_texts("holder"))
items = Table(
    "items",
    metadata,
    Column("data_hash", Text, primary_key=True),
    _key("item"),
    *_texts("content", "content_key"),
    # Items are found by their content in every data set that has them.
    Index("items_by_content", "content_key"),
)
draws = Table("draws", metadata, _run(), _key("draw"), *_counts("item"), *_numbers("probability", "at"))
answers = Table(
    "answers",
    metadata,
    Column("run_id", Text, primary_key=True),
    _key("draw"),
    *_texts("text"),
    Column("score", Double),
    Column("failure", Text),
    *_texts("detail"),
    *_counts("input_tokens", "output_tokens"),
    Column("cost_usd", Double),
    *_numbers("latency_s"),
    *_counts("attempts"),
    *_texts("finish_reason"),
    *_numbers("at"),
    *_texts("kept"),
    ForeignKeyConstraint(["run_id", "draw"], [draws.c.run_id, draws.c.draw]),
    CheckConstraint("(score IS NULL) <> (failure IS NULL)"),
    # Answers are read the worst first, however many there are.
    Index("answers_by_score", "run_id", "score", "draw"),
)
replies = Table("replies", metadata, _run(), _key("draw"), *_texts("content"), *_numbers("at"))
ratings = Table(
    "ratings",
    metadata,
    _run(),
    _key("draw"),
    Column("rater", Text, primary_key=True),
    *_numbers("score", "at"),
    # 1: the rating counts and can no longer be taken back.
    *_counts("final"),
)


def create_schema(connection: Connection, place: str) -> None:
    """Create the tables in an empty database, inside the caller's transaction; else check that they are these."""
    if connection.dialect.name == "postgresql":
        # Two first runs at once must not both create the tables; SQLite's transaction is exclusive anyway.
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": SCHEMA_LOCK})
    there = inspect(connection).get_table_names()
    if schema_versions.name in there or (there and connection.dialect.name == "sqlite"):
        check_schema(connection, place)
        return
    metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(schema_versions).values(version=SCHEMA, applied_at=now()))


def check_schema(connection: Connection, place: str) -> None:
    """Refuse a database of another program, or with other tables; nothing is written."""
    if schema_versions.name not in inspect(connection).get_table_names():
        raise StoreError(f"{place} is the database of another program, or empty; use another --store")
    newest = connection.execute(select(func.coalesce(func.max(schema_versions.c.version), 0)))
    found = whole(newest.scalar_one(), "version", place)
    if found != SCHEMA:
        raise StoreError(
            f"{place} has the schema {found} of another version of cereval, this one reads {SCHEMA}; use the version "
            "that wrote it, or another --store"
        )


# -- checking what is read --------------------------------------------------------------------------------------------

MAY_BE_EMPTY = frozenset({"score", "failure", "cost_usd"})
TYPES: Mapping[type, frozenset[type]] = {
    BigInteger: frozenset({int}),
    Double: frozenset({float, int}),
    Text: frozenset({str}),
}
LARGEST = 2**53
"""Numbers of draws, items and events are below this."""

Rows = Sequence[Mapping[Any, Any]]


def read(connection: Connection, query: Select[Any], place: str) -> Rows:
    """Fetch the rows of a query, checked."""
    return checked(connection.execute(query).mappings().all(), query, place)


def checked(rows: Rows, query: Select[Any], place: str) -> Rows:
    """Return the rows of a query if every cell has the type of its column; else the store is damaged."""
    for column in query.selected_columns if rows else ():
        allowed = TYPES.get(type(column.type))
        if allowed is None:
            continue
        name = str(column.key)
        if name in MAY_BE_EMPTY:
            allowed |= {type(None)}
        # A column at a time: a run may have a hundred thousand answers.
        values = [row[name] for row in rows]
        if not set(map(type, values)) <= allowed:
            refuse(name, next(value for value in values if type(value) not in allowed), place)
        endless = [value for value in values if type(value) is float and not isfinite(value)]
        if endless:
            refuse(name, endless[0], place)
    return rows


def whole(value: Any, name: str, place: str) -> int:
    """Return a computed number if it is a whole one that can be counted on from."""
    if type(value) is not int or abs(value) > LARGEST:
        refuse(name, value, place)
    return int(value)


def mapping(content: str, name: str, place: str) -> dict[str, Any]:
    """Read the JSON object in a cell: finite numbers, not nested without end."""
    try:
        value = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, TypeError, RecursionError):  # SQLite keeps numbers in columns of texts too
        value = None
    if not isinstance(value, dict):
        refuse(name, content, place)
    found: dict[str, Any] = value
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def refuse(name: str, value: Any, place: str) -> NoReturn:
    raise StoreError(
        f"{place} is damaged, or was changed by hand: `{name}` holds {shown(value)}; restore a copy, or use another "
        "--store"
    )
