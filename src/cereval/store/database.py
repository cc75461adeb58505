"""Connect to SQLite or PostgreSQL: addresses, durable settings, errors in plain words, waiting for a server, tables."""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, bindparam, create_engine, event, exc, inspect, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.pool import QueuePool

from cereval.errors import InvalidInput, Misuse, StoreError, Unreachable, shown
from cereval.files import is_file
from cereval.store.base import now

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


# -- the tables -------------------------------------------------------------------------------------------------------


SCHEMA = 1
"""The number of the schema, which a database keeps; it changes whenever the tables do."""
SCHEMA_LOCK = 0x63657265

TABLES = """
CREATE TABLE cereval_schema (version BIGINT NOT NULL PRIMARY KEY, applied_at TEXT NOT NULL);
CREATE TABLE runs (
    run_id TEXT NOT NULL PRIMARY KEY, plan TEXT NOT NULL, data_hash TEXT NOT NULL, model TEXT NOT NULL,
    created_at TEXT NOT NULL, engine BIGINT NOT NULL);
CREATE INDEX runs_by_data ON runs (data_hash);
CREATE TABLE events (
    run_id TEXT NOT NULL REFERENCES runs, number BIGINT NOT NULL, status TEXT NOT NULL, detail TEXT NOT NULL,
    recorded_at TEXT NOT NULL, PRIMARY KEY (run_id, number));
CREATE TABLE certificates (
    run_id TEXT NOT NULL REFERENCES runs, number BIGINT NOT NULL, content TEXT NOT NULL, recorded_at TEXT NOT NULL,
    PRIMARY KEY (run_id, number));
CREATE TABLE labels (run_id TEXT NOT NULL REFERENCES runs, label TEXT NOT NULL, PRIMARY KEY (run_id, label));
CREATE TABLE leases (run_id TEXT NOT NULL PRIMARY KEY, holder TEXT NOT NULL);
CREATE TABLE items (
    data_hash TEXT NOT NULL, item BIGINT NOT NULL, content TEXT NOT NULL, content_key TEXT NOT NULL,
    PRIMARY KEY (data_hash, item));
CREATE INDEX items_by_content ON items (content_key);
CREATE TABLE draws (
    run_id TEXT NOT NULL REFERENCES runs, draw BIGINT NOT NULL, item BIGINT NOT NULL,
    probability DOUBLE PRECISION NOT NULL, at DOUBLE PRECISION NOT NULL, PRIMARY KEY (run_id, draw));
CREATE TABLE answers (
    run_id TEXT NOT NULL, draw BIGINT NOT NULL, text TEXT NOT NULL, score DOUBLE PRECISION, failure TEXT,
    detail TEXT NOT NULL, input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL, cost_usd DOUBLE PRECISION,
    latency_s DOUBLE PRECISION NOT NULL, attempts BIGINT NOT NULL, finish_reason TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL, kept TEXT NOT NULL, PRIMARY KEY (run_id, draw),
    FOREIGN KEY (run_id, draw) REFERENCES draws, CHECK ((score IS NULL) <> (failure IS NULL)));
CREATE INDEX answers_by_score ON answers (run_id, score, draw);
CREATE TABLE replies (
    run_id TEXT NOT NULL REFERENCES runs, draw BIGINT NOT NULL, content TEXT NOT NULL, at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (run_id, draw));
CREATE TABLE ratings (
    run_id TEXT NOT NULL REFERENCES runs, draw BIGINT NOT NULL, rater TEXT NOT NULL, score DOUBLE PRECISION NOT NULL,
    at DOUBLE PRECISION NOT NULL, final BIGINT NOT NULL, PRIMARY KEY (run_id, draw, rater));
"""
OF_A_RUN = ("ratings", "replies", "answers", "draws", "certificates", "events", "labels", "leases", "runs")
"""The tables with rows of a run, those that refer to others first."""

TYPES: Mapping[str, tuple[type, ...]] = {
    name: {"TEXT": (str,), "BIGINT": (int,), "DOUBLE": (float, int)}[kind] + (() if filled else (type(None),))
    for name, kind, filled in sorted(
        re.findall(r"(\w+) (TEXT|BIGINT|DOUBLE)(?: PRECISION)?( NOT NULL)?", TABLES), reverse=True
    )
}
"""What a column of this name holds, in whatever table; what may be empty in one table counts last."""
COLUMNS: Mapping[str, list[str]] = {
    table: re.findall(r"(\w+) (?:TEXT|BIGINT|DOUBLE)", columns)
    for table, columns in re.findall(r"CREATE TABLE (\w+) \((.*?)\);", TABLES, re.DOTALL)
}
"""The columns of each table."""
LARGEST = 2**53
"""Numbers of draws, items and events are below this."""

Rows = Sequence[Mapping[Any, Any]]


def create_schema(connection: Connection, place: str) -> None:
    """Create the tables in an empty database, inside the caller's transaction; else check that they are these."""
    if connection.dialect.name == "postgresql":
        # Two first runs at once must not both create the tables; SQLite's transaction is exclusive anyway.
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": SCHEMA_LOCK})
    there = inspect(connection).get_table_names()
    if "cereval_schema" in there or (there and connection.dialect.name == "sqlite"):
        check_schema(connection, place)
        return
    for statement in TABLES.split(";\n"):
        if statement.strip():
            connection.exec_driver_sql(statement)
    insert_rows(connection, "cereval_schema", [{"version": SCHEMA, "applied_at": now()}])


def check_schema(connection: Connection, place: str) -> None:
    """Refuse a database of another program, or with other tables; nothing is written."""
    if "cereval_schema" not in inspect(connection).get_table_names():
        raise StoreError(f"{place} is the database of another program, or empty; use another --store")
    newest = connection.execute(text("SELECT coalesce(max(version), 0) FROM cereval_schema"))
    found = whole(newest.scalar_one(), "version", place)
    if found != SCHEMA:
        raise StoreError(
            f"{place} has the schema {found} of another version of cereval, this one reads {SCHEMA}; use the version "
            "that wrote it, or another --store"
        )
    for table, columns in COLUMNS.items():
        # The database says which of them it lacks; rows would, one by one, when they are read.
        connection.execute(text(f"SELECT {', '.join(columns)} FROM {table} LIMIT 0"))


def execute(connection: Connection, sql: str, **values: Any) -> Any:
    """Execute a statement; a list among its values stands for what is in it."""
    lists: list[Any] = [
        bindparam(name, expanding=True) for name, value in values.items() if isinstance(value, list)
    ]
    return connection.execute(text(sql).bindparams(*lists), values)


def insert_rows(connection: Connection, table: str, rows: Rows, *, ignore_known: bool = False) -> None:
    names = list(rows[0])
    values = ", ".join(f":{name}" for name in names)
    skip = " ON CONFLICT DO NOTHING" if ignore_known else ""
    connection.execute(text(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values}){skip}"), list(rows))


# -- checking what is read --------------------------------------------------------------------------------------------


def checked(rows: Rows, place: str) -> Rows:
    """Return rows if every cell has the type of its column; else the store is damaged."""
    for name in set(rows[0]) & set(TYPES) if rows else ():
        # A column at a time: a run may have a hundred thousand answers.
        values = [row[name] for row in rows]
        if not set(map(type, values)) <= set(TYPES[name]):
            refuse(name, next(value for value in values if type(value) not in TYPES[name]), place)
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
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def refuse(name: str, value: Any, place: str) -> NoReturn:
    raise StoreError(
        f"{place} is damaged, or was changed by hand: `{name}` holds {shown(value)}; restore a copy, or use another "
        "--store"
    )
