"""Connections: SQLite with a write-ahead log that is flushed at every commit, or PostgreSQL."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, create_engine, event, exc, make_url
from sqlalchemy.engine import URL
from sqlalchemy.pool import QueuePool

from cereval.errors import InvalidInput, Misuse

LONGEST_WAIT_S = 30
"""How long a write waits for SQLite's lock; `?timeout=` in the URL overrides it."""


def parsed(url: str) -> URL:
    """A URL of a database that is supported; PostgreSQL goes through psycopg 3."""
    try:
        made = make_url(url)
    except (exc.ArgumentError, ValueError, AttributeError):
        made = URL.create("none")
    if made.get_backend_name() == "sqlite":
        return made
    if made.get_backend_name() in ("postgresql", "postgres"):
        return made.set(drivername="postgresql+psycopg")
    # A text with an @ is not shown: it may hold a password.
    received = "another text" if "@" in url else url
    raise InvalidInput("store", "a URL such as sqlite:///cereval.db or postgresql://user@host/name", received)


def connected(url: URL) -> Engine:
    """An engine whose transactions are explicit and whose commits are durable."""
    if url.get_backend_name() == "sqlite":
        return _sqlite(url)
    try:
        return create_engine(url, pool_pre_ping=True)
    except ModuleNotFoundError:
        raise Misuse("PostgreSQL needs the package `psycopg`: pip install 'cereval[postgres]'") from None


def _sqlite(url: URL) -> Engine:
    if url.database in (None, "", ":memory:"):
        # A database in memory is its one connection; threads take turns.
        one = {"poolclass": QueuePool, "pool_size": 1, "max_overflow": 0}
        engine = create_engine(url, connect_args={"check_same_thread": False}, **one)
    else:
        engine = create_engine(
            url, connect_args={} if "timeout" in url.query else {"timeout": LONGEST_WAIT_S}
        )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: Any, _: Any) -> None:
    # Python's sqlite3 would otherwise open transactions on its own, too late to take the write lock.
    connection.isolation_level = None
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {setting}")


def _begin(connection: Any) -> None:
    # A transaction that reads first and writes later fails at once when another has written between.
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")
