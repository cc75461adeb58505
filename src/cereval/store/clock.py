"""The only place where the store reads the time."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """The moment as ISO 8601 in UTC, to the microsecond; sorts as it reads."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
