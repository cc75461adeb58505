"""Describe the tables as the code of today sees them; `migrations` brings a database there."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from sqlalchemy import BigInteger, Column, Double, MetaData, Table, Text

metadata = MetaData()

schema_versions = Table(
    "cereval_schema",
    metadata,
    Column("version", BigInteger, primary_key=True),
    Column("applied_at", Text),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("plan", Text),
    Column("data_hash", Text),
    Column("model", Text),
    Column("created_at", Text),
    Column("engine", BigInteger),
)

events = Table(
    "events",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("status", Text),
    Column("detail", Text),
    Column("at", Text),
)

items = Table(
    "items",
    metadata,
    Column("data_hash", Text, primary_key=True),
    Column("item", BigInteger, primary_key=True, autoincrement=False),
    Column("content", Text),
    Column("content_key", Text),
)

draws = Table(
    "draws",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("draw", BigInteger, primary_key=True, autoincrement=False),
    Column("item", BigInteger),
    Column("probability", Double),
    Column("at", Double),
)

labels = Table(
    "labels",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("label", Text, primary_key=True),
)

leases = Table(
    "leases",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("holder", Text),
)

answers = Table(
    "answers",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("draw", BigInteger, primary_key=True, autoincrement=False),
    Column("text", Text),
    Column("score", Double),
    Column("failure", Text),
    Column("detail", Text),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("cost_usd", Double),
    Column("latency_s", Double),
    Column("attempts", BigInteger),
    Column("finish_reason", Text),
    Column("at", Double),
    Column("kept", Text),
)

certificates = Table(
    "certificates",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("content", Text),
    Column("at", Text),
)

replies = Table(
    "replies",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("draw", BigInteger, primary_key=True, autoincrement=False),
    Column("content", Text),
    Column("at", Double),
)

ratings = Table(
    "ratings",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("draw", BigInteger, primary_key=True, autoincrement=False),
    Column("rater", Text, primary_key=True),
    Column("score", Double),
    Column("at", Double),
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
