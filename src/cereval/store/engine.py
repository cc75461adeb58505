"""Open connections: SQLite with a write-ahead log that is flushed at every commit, or PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, exc, make_url
from sqlalchemy.engine import URL
from sqlalchemy.pool import QueuePool

from cereval import files
from cereval.errors import InvalidInput, Misuse, StoreError

DRIVER_SETTINGS = ("timeout", "isolation_level", "detect_types", "check_same_thread", "cached_statements")
LONGEST_WAIT_S = 30
"""How long a write waits for SQLite's lock; `?timeout=` in the URL overrides it."""


def parsed(url: str) -> URL:
    """Return a URL of a database that is supported; PostgreSQL goes through psycopg 3."""
    try:
        url.encode()
        made = make_url(url)
    except (exc.ArgumentError, ValueError, AttributeError):
        made = URL.create("none")
    if made.get_backend_name() == "sqlite":
        _check_query(made)
        return made
    if made.get_backend_name() in ("postgresql", "postgres"):
        return made.set(drivername="postgresql+psycopg")
    # A text with an @ is not shown: it may hold a password.
    received = "another text" if "@" in url else url
    raise InvalidInput("store", "a URL such as sqlite:///cereval.db or postgresql://user@host/name", received)


def _check_query(url: URL) -> None:
    """Refuse what SQLite's driver would pass over in silence."""
    unknown = [] if "uri" in url.query else sorted(set(url.query) - set(DRIVER_SETTINGS))
    if unknown:
        allowed = ", ".join(DRIVER_SETTINGS)
        raise InvalidInput("store", f"a URL of SQLite with no settings but {allowed}", "?" + unknown[0])


def connected(url: URL) -> Engine:
    """Return an engine whose transactions are explicit and whose commits are durable."""
    _refuse_one_byte(url)
    if url.get_backend_name() == "sqlite":
        return _sqlite(url)
    try:
        # No ping that replaces lost connections in silence: whoever holds a run must learn of it (`store.patience`).
        return create_engine(url)
    except ModuleNotFoundError:
        raise Misuse("PostgreSQL needs the package `psycopg`: pip install 'cereval[postgres]'") from None


# -- files ------------------------------------------------------------------------------------------------------------


def file_of(url: URL) -> Path | None:
    """Return the file of a SQLite database; None for one in memory, for SQLite's own `file:` names and for
    PostgreSQL."""
    name = url.database
    if url.get_backend_name() != "sqlite" or not name or name == ":memory:" or name.startswith("file:"):
        return None
    return Path(name)


def made_private(url: URL) -> None:
    """Make a new database a file that only its owner can read; SQLite gives its other files the same mode."""
    file = file_of(url)
    if file is not None:
        # Where that is not possible SQLite says why.
        with suppress(OSError):
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def is_read_only(url: URL) -> bool:
    """Tell whether a database is there and cannot be written to, itself or for want of room for a log beside it."""
    file = file_of(url)
    if file is None or not files.is_file(file):
        return False
    return not (os.access(file, os.W_OK) and os.access(file.absolute().parent, os.W_OK))


def is_file(url: URL) -> bool:
    """Tell whether a database is a file that is there."""
    file = file_of(url)
    return file is not None and files.is_file(file)


def _refuse_one_byte(url: URL) -> None:
    """Refuse a file of one byte, which SQLite takes for an empty database and writes over; longer ones it refuses."""
    file = file_of(url)
    if file is not None and files.is_file(file) and file.stat().st_size == 1:
        raise StoreError(f"{file} is not a database; use another --store")


def reading_uri(file: Path) -> str:
    """Name a database to SQLite so that nothing is written, neither to it nor beside it.

    SQLite reads a write-ahead log only together with an index beside it, which it would have to make.
    """
    log, index = (Path(f"{file}{end}") for end in ("-wal", "-shm"))
    if not files.is_file(log) or log.stat().st_size == 0:
        return f"{file.absolute().as_uri()}?mode=ro&immutable=1"
    if files.is_file(index) or os.access(file.absolute().parent, os.W_OK):
        return f"{file.absolute().as_uri()}?mode=ro"
    raise StoreError(
        f"{file} may not be written to, and a part of it is still in {log.name}; copy both to a folder of your own"
    )


def connected_reading(url: URL) -> Engine:
    """Return an engine for a SQLite file that cannot be written to."""
    _refuse_one_byte(url)
    file = file_of(url)
    assert file is not None
    uri = reading_uri(file)

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(uri, uri=True, check_same_thread=False)

    engine = create_engine(url, creator=connect, poolclass=QueuePool)
    event.listen(engine, "connect", _explicit)
    event.listen(engine, "begin", _begin)
    return engine


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


def _explicit(connection: Any, _: Any) -> None:
    # Python's sqlite3 would otherwise open transactions on its own, too late to take the write lock.
    connection.isolation_level = None


def _prepare(connection: Any, _: Any) -> None:
    _explicit(connection, _)
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {setting}")


def _begin(connection: Any) -> None:
    # A transaction that reads first and writes later fails at once when another has written between.
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")
