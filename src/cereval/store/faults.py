"""Turn the foreign errors of databases into a `StoreError`, here and nowhere else."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc
from sqlalchemy.engine import URL

from cereval.errors import StoreError, Unreachable

AWAY = (
    "starting up|shutting down|recovery mode|terminating connection|server closed|consuming input failed|"
    "connection|could not translate|failed to resolve|pipeline mode"
)
"""What is said of a server that is not there now: it may be back in a moment."""

# Patterns in small letters; the first that is found decides.
_REMEDIES = (
    ("locked", "is locked by another process; wait for it to end, or use another --store"),
    (
        "disk is full",
        "cannot grow: the disk is full; free some space and resume (what was committed is safe)",
    ),
    (
        "no space left",
        "cannot grow: the disk is full; free some space and resume (what was committed is safe)",
    ),
    ("not a database", "is not a database; use another --store"),
    ("malformed", "is damaged; restore a copy, or use another --store"),
    ("unable to open", "cannot be opened; check that its directory exists and may be written to"),
    (
        "readonly|read-only|permission denied",
        "may not be written to; check its permissions, or use another --store",
    ),
    ("disk i/o error", "cannot be read or written (disk I/O error); check the disk and its free space"),
    # A server that refuses somebody was reached, though its words begin with "connection failed".
    (
        "authentication|no password supplied|pg_hba.conf|role .* (does not exist|not permitted)",
        "refuses the user or the password; check the URL",
    ),
    ("database .* does not exist", "does not exist; create the database first"),
    (AWAY, "cannot be reached; check the address and that the server runs"),
)


@contextmanager
def translated(url: URL) -> Iterator[None]:
    """Turn the errors of SQLAlchemy and its drivers into one line with a remedy."""
    try:
        yield
    except exc.IntegrityError as error:
        raise StoreError(_conflict(url, error)) from None
    except (exc.SQLAlchemyError, sqlite3.Error, OSError) as error:
        kind = Unreachable if _is_away(url, error) else StoreError
        raise kind(_explained(url, error)) from None
    except UnicodeError as error:
        raise StoreError(
            f"{place(url)} is damaged ({error}); restore a copy, or use another --store"
        ) from None


def place(url: URL) -> str:
    """Return the database as a person would name it, without its password.

    >>> from sqlalchemy import make_url
    >>> place(make_url("sqlite:///runs.db")), place(make_url("postgresql+psycopg://me:pw@host/db"))
    ('runs.db', 'postgresql://me:***@host/db')
    """
    if url.get_backend_name() == "sqlite":
        return url.database or "the database in memory"
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def _explained(url: URL, error: Exception) -> str:
    reason = _line(url, error)
    sign, remedy = _remedy(reason)
    return f"{place(url)} {remedy}" if sign else f"{place(url)}: {reason}"


def _is_away(url: URL, error: Exception) -> bool:
    return url.get_backend_name() == "postgresql" and _remedy(_line(url, error))[0] == AWAY


def _remedy(reason: str) -> tuple[str, str]:
    return next((one for one in _REMEDIES if re.search(one[0], reason.casefold())), ("", ""))


def _conflict(url: URL, error: Exception) -> str:
    reason = _line(url, error)
    if "foreign key" in reason.casefold():
        return f"{place(url)} knows no such run or draw; draws are stored before their answers ({reason})"
    return f"{place(url)} holds this already; does another process work on the same run? ({reason})"


def _line(url: URL, error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    text = " ".join(str(cause).split())[:300]
    return text.replace(str(url.password), "***") if url.password else text
