"""Lock a run for whoever works on it: the lock ends with its process, however that ends.

PostgreSQL: an advisory lock of a session of its own, gone with the connection, and a lease in the holder's name, for
the server may restart under a holder that lives. SQLite: a lock on a small file beside the database, which the
operating system drops when the process dies. Both tell at once whether a run that was never marked as ended is still
at work.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import URL

from cereval.errors import Busy
from cereval.store.schema import leases

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
def holding(engine: Engine, run_id: str) -> Iterator[Lease | None]:
    """Hold a run while the context is open; refuse one that another process holds. A server gives a lease."""
    path = _lock_file(engine.url, run_id)
    if engine.dialect.name == "postgresql":
        lease = Lease(engine, run_id)
        lease.take()
        try:
            yield lease
        finally:
            lease.let_go()
    elif path is None:
        yield None
    else:
        with _file_lock(path, run_id):
            yield None


def held(connection: Connection, run_ids: Iterable[str]) -> frozenset[str]:
    """Return those of the runs that some process works on now."""
    wanted = list(run_ids)
    if connection.dialect.name == "postgresql" and wanted:
        keys = set(connection.execute(text(ALL_KEYS)).scalars())
        return frozenset(run_id for run_id in wanted if _key(run_id) in keys)
    url = connection.engine.url
    return frozenset(run_id for run_id in wanted if _is_locked(_lock_file(url, run_id)))


class Lease:
    """Hold a run on a server: by an advisory lock, which ends with its connection, and the holder's name in a table.

    The lock tells others at once that a holder died. Where the connection is lost under a holder that lives, the name
    tells it whether another has taken the run over: whatever it writes for the run is written under its name or not
    at all.
    """

    def __init__(self, engine: Engine, run_id: str) -> None:
        self.engine, self.run_id, self.holder = engine, run_id, uuid.uuid4().hex
        self._connection: Connection | None = None
        self._turn = Lock()

    def take(self) -> None:
        """Hold the run, from now on under this name."""
        self._lock()
        named = insert(leases).values(run_id=self.run_id, holder=self.holder)
        mine = named.on_conflict_do_update(index_elements=["run_id"], set_={"holder": self.holder})
        try:
            with self.engine.begin() as connection:
                connection.execute(mine)
        except BaseException:
            self.let_go()
            raise

    def take_again(self) -> None:
        """Hold the run after an outage, unless another has taken it over."""
        with self._turn:
            if not self._alive():
                self.let_go()
                self._lock()
        with self.engine.begin() as connection:
            self.confirm(connection)

    def confirm(self, connection: Connection) -> None:
        """Refuse to write for a run that another process has taken over, to the end of this transaction."""
        query = select(leases.c.holder).where(leases.c.run_id == self.run_id).with_for_update(read=True)
        if connection.execute(query).scalar() != self.holder:
            raise Busy(
                f"another process took over run {self.run_id} while the connection was lost; nothing is lost"
            )

    def let_go(self) -> None:
        """End the connection, and the lock with it: it must not return to the pool."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it may be broken already
                # The server would notice the end of the connection, but only after a while.
                connection.execute(text("SELECT pg_advisory_unlock_all()"))
            with suppress(Exception):
                connection.invalidate()
            with suppress(Exception):
                connection.close()

    def _lock(self) -> None:
        connection = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self._connection = connection
        try:
            for name, value in SILENCE.items():
                connection.execute(text(f"SET {name} = {value}"))
            _patiently(lambda: _advisory(connection, self.run_id), self.run_id)
        except BaseException:
            self.let_go()
            raise

    def _alive(self) -> bool:
        with suppress(Exception):
            return self._connection is not None and bool(self._connection.execute(text("SELECT 1")).scalar())
        return False


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
            raise Busy(f"another process works on run {run_id} now; wait for it to end, or stop it first")
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
