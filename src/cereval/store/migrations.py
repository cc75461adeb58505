"""Bring an empty database to today's schema in numbered steps. A step, once released, is never edited."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, func, insert, inspect, select, text

from cereval.errors import StoreError
from cereval.items.content import content_keys
from cereval.store.cells import mapping, whole
from cereval.store.schema import now, schema_versions

LOCK = 0x63657265


def migrate(connection: Connection, place: str) -> None:
    """Apply the steps that the database lacks, inside the caller's transaction."""
    if connection.dialect.name == "postgresql":
        # Two first runs at once must not both create the tables; SQLite's transaction is exclusive anyway.
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    current = _checked(_version(connection, place), place)
    for number, step in enumerate(MIGRATIONS[current:], start=current + 1):
        step(connection)
        connection.execute(insert(schema_versions).values(version=number, applied_at=now()))


def is_current(connection: Connection, place: str) -> bool:
    """Tell whether a database has today's schema; nothing is written, and one that is newer or another's is
    refused."""
    tables = inspect(connection).get_table_names()
    if schema_versions.name not in tables:
        raise StoreError(f"{place} is the database of another program, or empty; use another --store")
    return _checked(_version(connection, place), place) == len(MIGRATIONS)


def _checked(current: int, place: str) -> int:
    """Return the version of a schema, if this program knows it."""
    if current > len(MIGRATIONS):
        raise StoreError(
            f"{place} was written by a newer cereval (schema {current}, this one knows {len(MIGRATIONS)}); "
            "upgrade cereval or use another --store"
        )
    return current


def _version(connection: Connection, place: str) -> int:
    tables = inspect(connection).get_table_names()
    if schema_versions.name in tables:
        newest = connection.execute(select(func.coalesce(func.max(schema_versions.c.version), 0)))
        return whole(newest.scalar_one(), "version", place)
    if tables and connection.dialect.name == "sqlite":
        raise StoreError(f"{place} is the database of another program; use another --store")
    schema_versions.create(connection)
    return 0


def _create_tables(connection: Connection) -> None:
    for statement in _TABLES.split(";"):
        if statement.strip():
            connection.execute(text(statement))


_TABLES = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, plan TEXT NOT NULL, data_hash TEXT NOT NULL, model TEXT NOT NULL,
    created_at TEXT NOT NULL
);
CREATE INDEX runs_by_data ON runs (data_hash);
CREATE TABLE events (
    run_id TEXT NOT NULL REFERENCES runs, number BIGINT NOT NULL, status TEXT NOT NULL, detail TEXT NOT NULL,
    at TEXT NOT NULL, PRIMARY KEY (run_id, number)
);
CREATE TABLE items (
    data_hash TEXT NOT NULL, item BIGINT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (data_hash, item)
);
CREATE TABLE draws (
    run_id TEXT NOT NULL REFERENCES runs, draw BIGINT NOT NULL, item BIGINT NOT NULL,
    probability DOUBLE PRECISION NOT NULL, at DOUBLE PRECISION NOT NULL, PRIMARY KEY (run_id, draw)
);
CREATE TABLE answers (
    run_id TEXT NOT NULL, draw BIGINT NOT NULL, text TEXT NOT NULL, score DOUBLE PRECISION, failure TEXT,
    detail TEXT NOT NULL, input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION, latency_s DOUBLE PRECISION NOT NULL, attempts BIGINT NOT NULL,
    finish_reason TEXT NOT NULL, at DOUBLE PRECISION NOT NULL, PRIMARY KEY (run_id, draw),
    FOREIGN KEY (run_id, draw) REFERENCES draws, CHECK ((score IS NULL) <> (failure IS NULL))
);
CREATE TABLE certificates (
    run_id TEXT NOT NULL REFERENCES runs, number BIGINT NOT NULL, content TEXT NOT NULL, at TEXT NOT NULL,
    PRIMARY KEY (run_id, number)
)
"""


def _add_engine(connection: Connection) -> None:
    """Add to runs the engine that decides their draws; those of the first version do not know."""
    connection.execute(text("ALTER TABLE runs ADD COLUMN engine BIGINT"))


def _add_kept(connection: Connection) -> None:
    """Add to answers the run that paid for them, where that is another."""
    connection.execute(text("ALTER TABLE answers ADD COLUMN kept TEXT NOT NULL DEFAULT ''"))


def _add_labels(connection: Connection) -> None:
    """Add names and tags to runs."""
    columns = "run_id TEXT NOT NULL REFERENCES runs, label TEXT NOT NULL, PRIMARY KEY (run_id, label)"
    connection.execute(text(f"CREATE TABLE labels ({columns})"))


def _add_leases(connection: Connection) -> None:
    """Runs are held by name: on a server, whoever lost its connection can tell whether another took its run over."""
    connection.execute(text("CREATE TABLE leases (run_id TEXT PRIMARY KEY, holder TEXT NOT NULL)"))


def _add_content_keys(connection: Connection) -> None:
    """Items are found by their content in every data set that has them."""
    connection.execute(text("ALTER TABLE items ADD COLUMN content_key TEXT NOT NULL DEFAULT ''"))
    named = text("UPDATE items SET content_key = :key WHERE data_hash = :data AND item = :item")
    for data in connection.execute(text("SELECT DISTINCT data_hash FROM items")).scalars().all():
        query = text("SELECT item, content FROM items WHERE data_hash = :data ORDER BY item")
        rows = connection.execute(query, {"data": data}).all()
        keys = content_keys(mapping(content, "content", "the database") for _, content in rows)
        connection.execute(
            named,
            [{"key": key, "data": data, "item": item} for (item, _), key in zip(rows, keys, strict=True)],
        )
    connection.execute(text("CREATE INDEX items_by_content ON items (content_key)"))


def _add_people(connection: Connection) -> None:
    """Answers wait for people's ratings, and can be read the worst first however many there are."""
    for statement in _PEOPLE.split(";"):
        connection.execute(text(statement))


_PEOPLE = """
CREATE INDEX answers_by_score ON answers (run_id, score, draw);
CREATE TABLE replies (
    run_id TEXT NOT NULL REFERENCES runs, draw BIGINT NOT NULL, content TEXT NOT NULL, at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (run_id, draw)
);
CREATE TABLE ratings (
    run_id TEXT NOT NULL REFERENCES runs, draw BIGINT NOT NULL, rater TEXT NOT NULL, score DOUBLE PRECISION NOT NULL,
    at DOUBLE PRECISION NOT NULL, PRIMARY KEY (run_id, draw, rater)
)
"""

MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    _create_tables,
    _add_engine,
    _add_kept,
    _add_labels,
    _add_leases,
    _add_content_keys,
    _add_people,
)
