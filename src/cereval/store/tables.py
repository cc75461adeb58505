"""The tables of a store, and the check of what is read from them: SQLite keeps any value in any column."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, NoReturn

from sqlalchemy import Connection, bindparam, inspect, text

from cereval.errors import StoreError, shown
from cereval.store.base import now

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
