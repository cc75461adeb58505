"""Lock a run for whoever works on it: the lock ends with its process, however that ends.

PostgreSQL: an advisory lock of a session of its own, gone with the connection. SQLite: a lock on a small file
beside the database, which the operating system drops when the process dies. Both tell at once whether a run
that was never marked as ended is still at work.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import URL

from cereval.errors import StoreError

PATIENCE_S, PAUSE_S = 1.0, 0.05
"""Someone who only looks whether a run is held holds it for a moment."""

SILENCE = {"tcp_keepalives_idle": 60, "tcp_keepalives_interval": 10, "tcp_keepalives_count": 3}
"""A machine that lost its power lets go after a minute and a half, not after PostgreSQL's two hours."""

BESIDE = "-held-"
"""What stands between a database's name and that of a run in the name of a lock."""

ALL_KEYS = """
SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@contextmanager
def holding(engine: Engine, run_id: str) -> Iterator[None]:
    """Hold a run while the context is open; refuse one that another process holds."""
    path = _lock_file(engine.url, run_id)
    if engine.dialect.name == "postgresql":
        with _session_lock(engine, run_id):
            yield
    elif path is None:
        yield
    else:
        with _file_lock(path, run_id):
            yield


def held(connection: Connection, run_ids: Iterable[str]) -> frozenset[str]:
    """Return those of the runs that some process works on now."""
    wanted = list(run_ids)
    if connection.dialect.name == "postgresql" and wanted:
        keys = set(connection.execute(text(ALL_KEYS)).scalars())
        return frozenset(run_id for run_id in wanted if _key(run_id) in keys)
    url = connection.engine.url
    return frozenset(run_id for run_id in wanted if _is_locked(_lock_file(url, run_id)))


@contextmanager
def _session_lock(engine: Engine, run_id: str) -> Iterator[None]:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for name, value in SILENCE.items():
            connection.execute(text(f"SET {name} = {value}"))
        try:
            _patiently(lambda: _advisory(connection, run_id), run_id)
            yield
        finally:
            # The lock goes with the connection, which must not return to the pool with it.
            connection.invalidate()


@contextmanager
def _file_lock(path: Path, run_id: str) -> Iterator[None]:
    lock = _patiently(lambda: _locked(path), run_id)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(lock)


def _patiently(take: Callable[[], int | None], run_id: str) -> int:
    until = time.monotonic() + PATIENCE_S
    while (taken := take()) is None:
        if time.monotonic() > until:
            raise StoreError(
                f"another process works on run {run_id} now; wait for it to end, or stop it first"
            )
        time.sleep(PAUSE_S)
    return taken


def _advisory(connection: Connection, run_id: str) -> int | None:
    free = connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": _key(run_id)}).scalar_one()
    return 1 if free else None


def _key(run_id: str) -> int:
    """Return a number of 63 bits, so that its halves can be told in PostgreSQL's list of locks."""
    return int.from_bytes(hashlib.sha256(f"cereval run {run_id}".encode()).digest()[:8]) >> 1


def _lock_file(url: URL, run_id: str) -> Path | None:
    """Return the lock file beside the database; a database in memory has one process and needs none."""
    if url.database in (None, "", ":memory:"):
        return None
    name = hashlib.sha256(run_id.encode()).hexdigest()[:16]
    return Path(f"{url.database}{BESIDE}{name}")


def _locked(path: Path) -> int | None:
    """Return the open file that carries the lock; None when another process has it."""
    # Whoever may write to the database may hold its runs, and nobody else.
    database = Path(str(path).rpartition(BESIDE)[0])
    mode = database.stat().st_mode & 0o666 if database.exists() else 0o600
    file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), mode)
    if _try_lock(file) and _is_file(path, file):
        return file
    os.close(file)
    return None


def _is_file(path: Path, file: int) -> bool:
    """Tell whether the path still leads to the open file: whoever let go between may have removed it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def _is_locked(path: Path | None) -> bool:
    if path is None:
        return True
    try:
        # Reading is enough to look whether there is a lock, also in a folder that may only be read.
        file = os.open(path, os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _try_lock(file)
    finally:
        os.close(file)


def _try_lock(file: int) -> bool:
    try:
        import fcntl
    except ImportError:  # not on Windows: runs are not told apart there
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
