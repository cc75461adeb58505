"""Opening the results database from a flag."""

from __future__ import annotations

from pathlib import Path

from cereval.errors import StoreError
from cereval.store.base import DEFAULT_URL, Store, open_store


def existing_store(url: str | None) -> Store:
    """Opens a store that is there already: asking about runs must not leave an empty database behind."""
    wanted = url or DEFAULT_URL
    file = sqlite_file(wanted)
    if file is not None and not file.is_file():
        raise StoreError(f"there is no database {file}; name the one that the run was made in with --store")
    return open_store(wanted)


def sqlite_file(url: str) -> Path | None:
    """The file behind a SQLite URL.

    >>> sqlite_file("sqlite:///runs/a.db"), sqlite_file("postgresql://host/db")
    (PosixPath('runs/a.db'), None)
    """
    from cereval.store.engine import parsed

    address = parsed(url)
    plain = address.get_backend_name() == "sqlite" and address.database not in (None, "", ":memory:")
    return Path(str(address.database)) if plain else None
