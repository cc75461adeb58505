"""Lock a run for the process that works on it; the lock ends with that process, however it ends.

SQLite: a lock on a small file beside the database, which the operating system drops when the process dies. The
package `filelock` would leave that file behind and cannot ask whether a lock in a read-only folder is taken.
PostgreSQL: an advisory lock, which is gone with its connection, and a lease in the holder's name, because the server
may restart under a holder that lives.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from sqlalchemy import Connection, Engine

from cereval.errors import Busy, StoreError
from cereval.store.database import execute, file_of

PATIENCE_S, PAUSE_S = 1.0, 0.05
"""Whoever looks whether a run is locked locks it for a moment: that is no reason to refuse."""

SILENCE = {"tcp_keepalives_idle": 60, "tcp_keepalives_interval": 10, "tcp_keepalives_count": 3}
"""A machine without power loses its lock after a minute and a half, not after PostgreSQL's two hours."""

BETWEEN = "-held-"
"""Stands between the name of the database and that of the run in the name of a lock file."""

ALL_KEYS = """
SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@contextmanager
def lock_run(engine: Engine, run_id: str, what: str) -> Iterator[Lease | None]:
    """Lock a run while the context is open; refuse one that another process has locked. A server gives a lease."""
    if engine.dialect.name == "postgresql":
        lease = Lease(engine, run_id, what)
        lease.take()
        try:
            yield lease
        finally:
            lease.let_go()
        return
    path = _lock_file(file_of(engine.url), run_id)
    file = -1 if path is None else _take(lambda: _lock(path), what)
    try:
        yield None
    finally:
        if path is not None:
            with suppress(OSError):
                path.unlink()
            os.close(file)


def locked_runs(connection: Connection, run_ids: Iterable[str]) -> frozenset[str]:
    wanted = list(run_ids)
    if connection.dialect.name == "postgresql" and wanted:
        keys = set(execute(connection, ALL_KEYS).scalars())
        return frozenset(run_id for run_id in wanted if _key(run_id) in keys)
    database = file_of(connection.engine.url)
    return frozenset(run_id for run_id in wanted if _is_locked(_lock_file(database, run_id)))


def _take(lock: Callable[[], int | None], what: str) -> int:
    until = time.monotonic() + PATIENCE_S
    while (taken := lock()) is None:
        if time.monotonic() > until:
            raise Busy(f"another process works on {what} now; wait for it to end, or stop it first")
        time.sleep(PAUSE_S)
    return taken


# -- servers ----------------------------------------------------------------------------------------------------------


class Lease:
    """The lock of a run on a server: an advisory lock, which ends with its connection, and the holder's name.

    The lock tells others at once that a holder died. If the connection is lost under a holder that lives, the name
    tells it whether another process has taken the run over: it writes for the run under its own name or not at all.
    """

    def __init__(self, engine: Engine, run_id: str, what: str) -> None:
        self.engine, self.what = engine, what
        self.row = {"run": run_id, "holder": uuid.uuid4().hex}
        self._connection: Connection | None = None
        self._turn = Lock()

    def take(self) -> None:
        self._lock()
        sql = """
            INSERT INTO leases (run_id, holder) VALUES (:run, :holder)
            ON CONFLICT (run_id) DO UPDATE SET holder = :holder"""
        try:
            with self.engine.begin() as connection:
                execute(connection, sql, **self.row)
        except BaseException:
            self.let_go()
            raise

    def take_again(self) -> None:
        """Take the lock again after an outage, unless another process has taken the run over."""
        with self._turn:
            if not self._is_alive():
                self._disconnect()
                self._lock()
        with self.engine.begin() as connection:
            self.confirm(connection)

    def confirm(self, connection: Connection) -> None:
        """Refuse to write for a run that another process has taken over, to the end of this transaction."""
        sql = "SELECT run_id FROM leases WHERE run_id = :run AND holder = :holder FOR SHARE"
        if execute(connection, sql, **self.row).first() is None:
            raise Busy(
                f"another process took over {self.what} while the connection was lost; nothing is lost"
            )

    def let_go(self) -> None:
        with suppress(Exception), self.engine.begin() as connection:  # the server may be away
            execute(connection, "DELETE FROM leases WHERE run_id = :run AND holder = :holder", **self.row)
        self._disconnect()

    def _disconnect(self) -> None:
        """End the connection, and the lock with it: it must not return to the pool."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # Whatever fails, because the connection is broken already, has no lock either.
            with suppress(Exception):
                # The server would notice the end of the connection, but only after a while.
                execute(connection, "SELECT pg_advisory_unlock_all()")
            with suppress(Exception):
                connection.invalidate()
            with suppress(Exception):
                connection.close()

    def _lock(self) -> None:
        connection = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self._connection, key = connection, _key(self.row["run"])
        try:
            for name, value in SILENCE.items():
                execute(connection, f"SET {name} = {value}")
            free = "SELECT 1 WHERE pg_try_advisory_lock(:key)"
            _take(lambda: execute(connection, free, key=key).scalar(), self.what)
        except BaseException:
            self._disconnect()
            raise

    def _is_alive(self) -> bool:
        with suppress(Exception):
            return self._connection is not None and bool(execute(self._connection, "SELECT 1").scalar())
        return False


def _key(run_id: str) -> int:
    """Return a number of 63 bits, so that its halves can be told in PostgreSQL's list of locks."""
    return int.from_bytes(hashlib.sha256(f"cereval run {run_id}".encode()).digest()[:8]) >> 1


# -- files ------------------------------------------------------------------------------------------------------------


def _lock_file(database: Path | None, run_id: str) -> Path | None:
    """Return the lock file beside the database; a database in memory has one process and needs none."""
    name = hashlib.sha256(run_id.encode()).hexdigest()[:16]
    return None if database is None else Path(f"{database}{BETWEEN}{name}")


def _lock(path: Path) -> int | None:
    """Return the open file that carries the lock; None when another process has it."""
    # Whoever may write to the database may lock its runs, and nobody else.
    database = Path(str(path).rpartition(BETWEEN)[0])
    mode = database.stat().st_mode & 0o666 if database.exists() else 0o600
    file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), mode)
    try:
        if _try_lock(file, path) and _leads_to(path, file):
            return file
    except BaseException:
        os.close(file)
        raise
    os.close(file)
    return None


def _leads_to(path: Path, file: int) -> bool:
    """Tell whether the path still leads to the open file: whoever let go meanwhile may have removed it."""
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
        return not _try_lock(file, path)
    except StoreError:  # where there are no file locks, no run can be locked
        return False
    finally:
        os.close(file)


def _try_lock(file: int, path: Path) -> bool:
    try:
        import fcntl
    except ImportError:  # on Windows, where two processes on one run are not told apart
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
            return False
        raise StoreError(
            f"{path.parent} is on a disk without file locks ({error.strerror}), so that two processes could work on "
            "one run; put the store on a local disk, or use PostgreSQL"
        ) from None
    return True
