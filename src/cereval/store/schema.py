"""Describe the tables, and create them in an empty database."""

from __future__ import annotations

import time
from datetime import UTC, datetime

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
    Table,
    Text,
    func,
    insert,
    inspect,
    select,
    text,
)

from cereval.errors import StoreError
from cereval.store.cells import whole

SCHEMA = 1
"""The number of the schema, which a database keeps; it changes whenever the tables do."""
LOCK = 0x63657265

metadata = MetaData()

schema_versions = Table(
    "cereval_schema",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("applied_at", Text, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("plan", Text, nullable=False),
    Column("data_hash", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("engine", BigInteger, nullable=False),
    Index("runs_by_data", "data_hash"),
)

events = Table(
    "events",
    metadata,
    Column("run_id", Text, ForeignKey(runs.c.run_id), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("status", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("at", Text, nullable=False),
)

items = Table(
    "items",
    metadata,
    Column("data_hash", Text, primary_key=True),
    Column("item", BigInteger, primary_key=True, autoincrement=False),
    Column("content", Text, nullable=False),
    Column("content_key", Text, nullable=False),
    # Items are found by their content in every data set that has them.
    Index("items_by_content", "content_key"),
)

draws = Table(
    "draws",
    metadata,
    Column("run_id", Text, ForeignKey(runs.c.run_id), primary_key=True),
    Column("draw", BigInteger, primary_key=True, autoincrement=False),
    Column("item", BigInteger, nullable=False),
    Column("probability", Double, nullable=False),
    Column("at", Double, nullable=False),
)

labels = Table(
    "labels",
    metadata,
    Column("run_id", Text, ForeignKey(runs.c.run_id), primary_key=True),
    Column("label", Text, primary_key=True),
)

leases = Table(
    "leases",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("holder", Text, nullable=False),
)

answers = Table(
    "answers",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("draw", BigInteger, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
    Column("score", Double),
    Column("failure", Text),
    Column("detail", Text, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost_usd", Double),
    Column("latency_s", Double, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("finish_reason", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("kept", Text, nullable=False),
    ForeignKeyConstraint(["run_id", "draw"], [draws.c.run_id, draws.c.draw]),
    CheckConstraint("(score IS NULL) <> (failure IS NULL)"),
    # Answers are read the worst first, however many there are.
    Index("answers_by_score", "run_id", "score", "draw"),
)

certificates = Table(
    "certificates",
    metadata,
    Column("run_id", Text, ForeignKey(runs.c.run_id), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("content", Text, nullable=False),
    Column("at", Text, nullable=False),
)

replies = Table(
    "replies",
    metadata,
    Column("run_id", Text, ForeignKey(runs.c.run_id), primary_key=True),
    Column("draw", BigInteger, primary_key=True, autoincrement=False),
    Column("content", Text, nullable=False),
    Column("at", Double, nullable=False),
)

ratings = Table(
    "ratings",
    metadata,
    Column("run_id", Text, ForeignKey(runs.c.run_id), primary_key=True),
    Column("draw", BigInteger, primary_key=True, autoincrement=False),
    Column("rater", Text, primary_key=True),
    Column("score", Double, nullable=False),
    Column("at", Double, nullable=False),
)


def create_schema(connection: Connection, place: str) -> None:
    """Create the tables where there are none, inside the caller's transaction; else check that they are these."""
    if connection.dialect.name == "postgresql":
        # Two first runs at once must not both create the tables; SQLite's transaction is exclusive anyway.
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    there = inspect(connection).get_table_names()
    if schema_versions.name in there or (there and connection.dialect.name == "sqlite"):
        check_schema(connection, place)
        return
    metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(schema_versions).values(version=SCHEMA, applied_at=now()))


def check_schema(connection: Connection, place: str) -> None:
    """Refuse a database of another program, or of a version with other tables; nothing is written."""
    if schema_versions.name not in inspect(connection).get_table_names():
        raise StoreError(f"{place} is the database of another program, or empty; use another --store")
    newest = connection.execute(select(func.coalesce(func.max(schema_versions.c.version), 0)))
    found = whole(newest.scalar_one(), "version", place)
    if found != SCHEMA:
        raise StoreError(
            f"{place} has the schema {found} of another version of cereval, this one reads {SCHEMA}; use the version "
            "that wrote it, or another --store"
        )


def now() -> str:
    """Return the moment as ISO 8601 in UTC, to the microsecond; sorts as it reads."""
    return moment(time.time())


def moment(seconds: float) -> str:
    """Return a moment in seconds since 1970 as `now` writes it; what is beyond the calendar is its beginning."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
    except (OverflowError, ValueError, OSError):
        return ""
