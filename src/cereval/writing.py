"""Write files whole or not at all, and never through a link that somebody else has laid."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

PRIVATE = 0o600
"""The mode of new files: for their owner alone."""

LONGEST_STEM = 100


def write_whole(path: Path, text: str) -> None:
    """Write a text beside its place and move it there: a reader never meets half of it. Folders are made.

    The new file must not exist before: a link under its name would lead elsewhere. Errors are those of the system.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name[:LONGEST_STEM]}.{secrets.token_hex(4)}.partial")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    with os.fdopen(
        os.open(partial, flags, PRIVATE), "w", encoding="utf-8", errors="replace", newline="\n"
    ) as file:
        try:
            file.write(text)
            file.flush()
            partial.replace(path)
        except BaseException:
            with suppress(OSError):
                partial.unlink()
            raise


def settings_folder() -> Path | None:
    """Return the folder of this user's settings; None for users without a home."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    if given and Path(given).is_absolute():
        return Path(given) / "cereval"
    try:
        return Path.home() / ".config" / "cereval"
    except RuntimeError:
        return None
