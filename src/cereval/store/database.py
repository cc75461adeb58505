"""Connect to SQLite or PostgreSQL: addresses, durable settings, errors in plain words, waiting for a server."""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from sqlalchemy import Engine, create_engine, event, exc, make_url
from sqlalchemy.engine import URL
from sqlalchemy.pool import QueuePool

from cereval.errors import InvalidInput, Misuse, StoreError, Unreachable
from cereval.files import is_file

LOCK_WAIT_S = 30
"""How long a write waits for SQLite's lock; `?timeout=` in the URL overrides it."""
CONNECT_WAIT_S = 10
"""How long a server may take to accept a connection; `?connect_timeout=` in the URL overrides it."""

# -- addresses --------------------------------------------------------------------------------------------------------


def parse_url(url: str) -> URL:
    """Return the URL of a database that is supported; PostgreSQL goes through psycopg 3."""
    try:
        url.encode()
        made = make_url(url)
    except (exc.ArgumentError, ValueError, AttributeError):
        made = URL.create("none")
    if made.get_backend_name() == "sqlite":
        # SQLAlchemy would drop whatever it cannot read after a question mark, and open another file.
        for setting in url.split("?", 1)[1].split("&") if "?" in url else ():
            if not re.fullmatch(r"timeout=[0-9.]+", setting):
                raise InvalidInput(
                    "store", "a URL of SQLite with no settings but timeout=SECONDS", f"?{setting}"
                )
        return made
    if made.get_backend_name() in ("postgresql", "postgres"):
        return made.set(drivername="postgresql+psycopg")
    # A text with an @ is not shown: it may hold a password.
    received = "another text" if "@" in url else url
    raise InvalidInput("store", "a URL such as sqlite:///cereval.db or postgresql://user@host/name", received)


def name_of(url: URL) -> str:
    """Return the database as a person would name it, without its password.

    >>> name_of(make_url("sqlite:///runs.db")), name_of(make_url("postgresql+psycopg://me:pw@host/db"))
    ('runs.db', 'postgresql://me:***@host/db')
    """
    if url.get_backend_name() == "sqlite":
        return url.database or "the database in memory"
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def file_of(url: URL) -> Path | None:
    """Return the file of a SQLite database; None for one in memory and for PostgreSQL."""
    name = url.database
    if url.get_backend_name() != "sqlite" or not name or name == ":memory:":
        return None
    return Path(name)


def is_read_only(file: Path) -> bool:
    """Tell whether a database can only be read: it, or its folder, where SQLite writes a log beside it."""
    return not (os.access(file, os.W_OK) and os.access(file.absolute().parent, os.W_OK))


def create_private(file: Path) -> None:
    """Create a new database as a file for its owner alone; SQLite gives its other files the same mode."""
    with suppress(OSError):  # SQLite says why it is not possible
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def reading_uri(file: Path) -> str:
    """Return the URI by which SQLite reads a database and writes nothing, neither to it nor beside it.

    SQLite reads a write-ahead log only with an index beside it, which it would have to create.
    """
    log, index = (Path(f"{file}{end}") for end in ("-wal", "-shm"))
    if not is_file(log) or log.stat().st_size == 0:
        return f"{file.absolute().as_uri()}?mode=ro&immutable=1"
    if is_file(index) or os.access(file.absolute().parent, os.W_OK):
        return f"{file.absolute().as_uri()}?mode=ro"
    raise StoreError(
        f"{file} may not be written to, and a part of it is still in {log.name}; copy both to a folder of your own"
    )


# -- connections ------------------------------------------------------------------------------------------------------


def connect(url: URL, *, reading: bool = False) -> Engine:
    """Return an engine whose transactions are explicit and whose commits are durable; reading: of an existing file."""
    if url.get_backend_name() == "postgresql":
        return _connect_server(url)
    file, pool = file_of(url), dict[str, Any]()
    if file is None:
        # A database in memory lives in its one connection; threads take turns.
        target, pool = ":memory:", {"pool_size": 1, "max_overflow": 0}
    elif is_file(file) and file.stat().st_size == 1:
        # SQLite would take it for an empty database and write over it.
        raise StoreError(f"{file} is not a database; use another --store")
    else:
        target = reading_uri(file) if reading else file.absolute().as_uri()
    wait = float(str(url.query.get("timeout", LOCK_WAIT_S)))

    def open_file() -> sqlite3.Connection:
        return sqlite3.connect(target, timeout=wait, uri=True, check_same_thread=False)

    engine = create_engine(url, creator=open_file, poolclass=QueuePool, **pool)
    event.listen(engine, "connect", _prepare_reading if reading else _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare_reading(connection: sqlite3.Connection, _: Any) -> None:
    # Python's sqlite3 would otherwise open transactions on its own, too late to take the write lock.
    connection.isolation_level = None


def _prepare(connection: sqlite3.Connection, _: Any) -> None:
    _prepare_reading(connection, _)
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {setting}")


def _connect_server(url: URL) -> Engine:
    wait = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_WAIT_S}
    try:
        # No ping that replaces lost connections in silence: whoever holds a run must learn of it (see `patiently`).
        return create_engine(url, connect_args=wait)
    except ModuleNotFoundError:
        raise Misuse("PostgreSQL needs the package `psycopg`: pip install 'cereval[postgres]'") from None


def _begin(connection: Any) -> None:
    # A transaction that reads first and writes later fails at once when another has written between.
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


# -- errors -----------------------------------------------------------------------------------------------------------

AWAY = (
    "starting up|shutting down|recovery mode|terminating connection|server closed|consuming input failed|"
    "connection|could not translate|failed to resolve|pipeline mode"
)
"""What is said of a server that is away; it may be back in a moment."""

REMEDIES = {
    "locked": "is locked by another process; wait for it to end, or use another --store",
    "disk is full|no space left": "cannot grow: the disk is full; free some space and resume (nothing is lost)",
    "not a database": "is not a database; use another --store",
    "malformed": "is damaged; restore a copy, or use another --store",
    "no such (table|column)|(column|relation) .* does not exist": (
        "is damaged, or was changed by hand: a table or a column is missing; restore a copy, or use another --store"
    ),
    "unable to open": "cannot be opened; check that its directory exists and may be written to",
    "readonly|read-only|permission denied": "may not be written to; check its permissions, or use another --store",
    "disk i/o error": "cannot be read or written (disk I/O error); check the disk and its free space",
    # A server that refuses somebody was reached, though its words begin with "connection failed".
    "authentication|no password supplied|pg_hba.conf|role .* (does not exist|not permitted)": (
        "refuses the user or the password; check the URL"
    ),
    "database .* does not exist": "does not exist; create the database first",
    AWAY: "cannot be reached; check the address and that the server runs",
}
"""What to do, by patterns in small letters; the first that is found decides."""


@contextmanager
def plain_errors(url: URL) -> Iterator[None]:
    """Turn the errors of SQLAlchemy and its drivers into a `StoreError` of one line; done here and nowhere else."""
    try:
        yield
    except UnicodeError as error:
        damaged = f"{name_of(url)} is damaged ({error}); restore a copy, or use another --store"
        raise StoreError(damaged) from None
    except (exc.SQLAlchemyError, sqlite3.Error, OSError) as error:
        raise explain(url, error) from None


def explain(url: URL, error: Exception) -> StoreError:
    """Return the error with what to do about it."""
    reason = " ".join(str(getattr(error, "orig", None) or error).split())[:300]
    if url.password:
        reason = reason.replace(str(url.password), "***")
    name = name_of(url)
    if isinstance(error, exc.IntegrityError) and "foreign key" in reason.casefold():
        return StoreError(f"{name} has no such run or draw; draws are stored before their answers ({reason})")
    if isinstance(error, exc.IntegrityError):
        return StoreError(f"{name} has this already; does another process work on the same run? ({reason})")
    sign = next((one for one in REMEDIES if re.search(one, reason.casefold())), "")
    kind = Unreachable if sign == AWAY and url.get_backend_name() == "postgresql" else StoreError
    return kind(f"{name} {REMEDIES[sign]}" if sign else f"{name}: {reason}")


# -- waiting for a server ---------------------------------------------------------------------------------------------

PATIENCE_S = 300.0
"""How long to wait for a server that answered before: time for a restart, or for a stand-by to take over."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0

AGAIN: ContextVar[bool] = ContextVar("again", default=False)
"""Whether this is a second attempt: the first may have been committed, though nobody was told."""


P = ParamSpec("P")
R = TypeVar("R")


def patiently(method: Callable[P, R]) -> Callable[P, R]:
    """Let a method of a store wait for its server and try again; it must bear being called twice (see `AGAIN`)."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        store: Any = args[0]
        try:
            return method(*args, **kwargs)
        except Unreachable as error:
            if not store.patient:
                raise
            logging.getLogger("cereval").warning("%s; waiting for it", error)
        until, pause, mark = time.monotonic() + PATIENCE_S, FIRST_PAUSE_S, AGAIN.set(True)
        try:
            while True:
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
                try:
                    store.hold_again()
                    return method(*args, **kwargs)
                except Unreachable:
                    if time.monotonic() > until:
                        raise
        finally:
            AGAIN.reset(mark)

    return call
